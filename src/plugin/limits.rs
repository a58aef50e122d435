//! What a guest may use.
//!
//! **Invariant**: a sink's own limits go before those of all plugins; what compiling takes is the same for all.

use std::time::Duration;

use super::compile::CompileLimits;

/// What a guest may use.
#[derive(Debug, Clone, Copy)]
pub struct GuestLimits {
    /// Bytes of all its memories together.
    pub memory_bytes_max: usize,
    /// Time in the guest's own code for one call.
    pub cpu_time_max: Duration,
    /// Time for one call, host calls and waiting included.
    pub call_time_max: Duration,
    /// What compiling it may take.
    pub compile: CompileLimits,
}

impl From<&settings::Plugins> for GuestLimits {
    fn from(settings: &settings::Plugins) -> Self {
        Self {
            memory_bytes_max: settings.memory_max_bytes,
            cpu_time_max: *settings.cpu_timeout_ms,
            call_time_max: *settings.write_timeout_ms,
            compile: settings.into(),
        }
    }
}

impl GuestLimits {
    /// With those that a sink has of its own.
    pub(super) fn of(self, sink: &settings::Sink) -> Self {
        let own = &sink.limits;
        Self {
            memory_bytes_max: own.memory_max_bytes.unwrap_or(self.memory_bytes_max),
            cpu_time_max: own.cpu_timeout_ms.map_or(self.cpu_time_max, |time| *time),
            call_time_max: own
                .write_timeout_ms
                .map_or(self.call_time_max, |time| *time),
            compile: self.compile,
        }
    }
}
