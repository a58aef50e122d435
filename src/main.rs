//! The program `headgate`: parse, run, exit code.

fn main() -> std::process::ExitCode {
    headgate::cli::main()
}
