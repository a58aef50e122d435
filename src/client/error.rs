//! The error of a verb of the command line.
//!
//! Every verb's `run` returns it; `main` prints the message to standard error and exits with the code.
//!
//! **Invariant**: the message is safe to print: text from a server was escaped before.

use std::fmt;

/// The exit code of a verb that failed.
pub const FAILED: u8 = 1;
/// The exit code of wrong use: invalid arguments, environment or files named by them.
pub const WRONG_USE: u8 = 2;

/// An exit code, and a message that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// The process's exit code, never 0.
    pub code: u8,
    /// One or more lines, without a line break at the end.
    pub message: String,
}

impl CliError {
    /// The verb was valid but failed: exit code 1.
    pub fn failed(message: impl Into<String>) -> CliError {
        CliError {
            code: FAILED,
            message: message.into(),
        }
    }

    /// The user must change the command: exit code 2.
    pub fn wrong_use(message: impl Into<String>) -> CliError {
        CliError {
            code: WRONG_USE,
            message: message.into(),
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}
