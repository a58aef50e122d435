//! The integration tests: the real daemon with real sockets and real files, and the real binary.
//!
//! One binary, so that it links once. `app` is what the modules share; each other module is an area of
//! behaviour, and a test's name says what it shows.

mod app; // the daemon in a temporary folder, and those who talk to it
mod accept; // the contract's tables of submitting: statuses, codes, headers, order of the checks
mod guests; // sinks that misbehave, and what they cost the others
mod process; // the real program in a process of its own
