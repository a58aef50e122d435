//! The program `headgate`: parse, run, exit code.

/// A request is a few dozen small allocations, freed on another thread: the C library's allocator takes an eighth of the
/// computing of a request more. SQLite's memory comes from it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    headgate::cli::main()
}
