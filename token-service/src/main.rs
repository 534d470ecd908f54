//! The token service's command line.

use std::process::ExitCode;

/// Each password check takes 19 MiB. This allocator returns the memory, but the C library's allocator keeps it once per
/// thread.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match process::end_on_signals() {
        Ok(()) => token_service::command::run(),
        Err(error) => {
            eprintln!("token-service: {error}");
            ExitCode::FAILURE
        }
    }
}
