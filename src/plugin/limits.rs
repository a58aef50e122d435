//! Limits of a guest.
//!
//! **Invariant**: the limits of a sink override those of all plugins; the limits of compiling are the same for all.

use std::time::Duration;

use super::compile::CompileLimits;

#[derive(Debug, Clone, Copy)]
pub struct GuestLimits {
    /// Total bytes of its memories.
    pub memory_bytes_max: usize,
    /// Computing time of the guest's own code per call.
    pub cpu_time_max: Duration,
    /// Time per call, including host calls and waiting. Waiting is counted here, because a receiver that does not
    /// answer uses no computing time.
    pub call_time_max: Duration,
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
    /// With the limits of a sink.
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
