//! Log output of the daemon.
//!
//! **Invariant**: logs go to standard error; standard output is for what a program may read.

use tracing_subscriber::EnvFilter;

use settings::{Log, LogFormat};

/// Starts logging as configured; `HEADGATE_LOG` in the environment overrides the level.
pub(super) fn start(settings: &Log) {
    let filter = EnvFilter::try_from_env("HEADGATE_LOG")
        .or_else(|_| EnvFilter::try_new(&settings.level))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second start in one process keeps the first one's settings.
    let _ = match settings.format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
