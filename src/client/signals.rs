//! The signals that a verb waits for.
//!
//! **Invariant**: a signal that comes after [`Signals::new`] is not lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// SIGTERM, SIGINT and SIGHUP, listened to from before the daemon says that it is ready.
pub struct Signals {
    /// The two that end a program.
    pub end: End,
    /// The one that has it read its configuration again.
    pub hang_up: Signal,
}

/// SIGTERM and SIGINT.
pub struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens to them from now on.
    ///
    /// # Errors
    /// The system has no room for another handler.
    pub fn new() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            end: End {
                terminate: listen(SignalKind::terminate())?,
                interrupt: listen(SignalKind::interrupt())?,
            },
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The next of them, whichever it is.
    pub async fn any(&mut self) {
        tokio::select! {
            () = self.end.next() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

impl End {
    /// The next of the two.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
