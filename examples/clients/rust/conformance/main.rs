//! The runner of the conformance kit in `tests/clients`, as a program.

fn main() {
    headgate_send::conformance::run();
}
