//! The token service's command line.

use std::process::ExitCode;

/// Each password check takes 19 MiB, which this allocator gives back; the C library's keeps them, once for each thread.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    token_service::command::run()
}
