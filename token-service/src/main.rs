//! The token service's command line.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Each password check takes 19 MiB, which this allocator gives back; the C library's keeps them, once for each thread.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    token_service::command::run()
}
