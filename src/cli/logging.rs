//! Log output of the daemon, and what it prints after its start.
//!
//! **Invariant**: logs go to standard error; standard output is for what a program may read. From [`start`] on, whatever
//! becomes of either neither ends the process nor changes its exit code.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;

use super::error::CliError;
use super::output;
use observe::lines::{self, Output};
use settings::{Log, LogFormat};

/// Starts logging as configured; `HEADGATE_LOG` in the environment overrides the level.
pub(super) fn start(settings: &Log) -> Result<(), CliError> {
    let cannot = |error| CliError::failed(format!("cannot start the log: {error}"));
    lines::start().map_err(cannot)?;
    std::panic::set_hook(Box::new(|panic| {
        lines::write(Output::Error, of_panic(panic).as_bytes());
    }));
    let filter = EnvFilter::try_from_env("HEADGATE_LOG")
        .or_else(|_| EnvFilter::try_new(&settings.level))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // They would be printed to standard error, with a panic where it cannot be written.
        .log_internal_errors(false)
        .with_writer(|| Line);
    // A second start in one process keeps the first one's settings.
    let _ = match settings.format {
        LogFormat::Text => builder
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Prints on standard output, after [`start`].
pub(super) fn print(text: &str) {
    lines::write(Output::Standard, text.as_bytes());
}

/// Why the process ends, on standard error: behind the log, if there is one.
pub(super) fn note(text: &str) {
    if !lines::write(Output::Error, format!("{text}\n").as_bytes()) {
        output::note(text);
    }
}

/// A line of the log, written whole.
struct Line;

impl io::Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        lines::write(Output::Error, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As the standard library says it, which would wait for standard error as long as that takes.
fn of_panic(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("<unnamed>");
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => format!("thread '{thread}' {panic}\n{trace}\n"),
        _ => format!("thread '{thread}' {panic}\n"),
    }
}
