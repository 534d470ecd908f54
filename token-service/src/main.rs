//! The token service's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    token_service::command::run()
}
