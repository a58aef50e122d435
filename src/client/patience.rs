//! The maximum wait for a daemon that has never answered, for verbs that retry during outages.
//!
//! `tail` and `send` call it before each pause.
//!
//! **Invariant**: after the daemon has answered once, this wait never ends a verb.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::error::CliError;

/// Maximum wait without `--wait`, so that a verb ends where no daemon runs.
pub const ABSENT_MAX: Duration = Duration::from_secs(10);

/// Whether to wait on.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct WaitArgs {
    /// Keep trying if the daemon does not answer at all; otherwise give up after 10 seconds
    #[arg(long)]
    wait: bool,
}

impl WaitArgs {
    /// Maximum wait for a first response; `None`: as long as the verb retries.
    pub fn absent_max(self) -> Option<Duration> {
        (!self.wait).then_some(ABSENT_MAX)
    }
}

/// The wait for a first response.
#[derive(Debug)]
pub struct Patience {
    /// The end of the wait; `None`: no limit, or the daemon has answered.
    until: Cell<Option<Instant>>,
}

impl Patience {
    pub fn new(absent_max: Option<Duration>) -> Self {
        let until = absent_max.and_then(|max| Instant::now().checked_add(max));
        Self {
            until: Cell::new(until),
        }
    }

    /// Records a response of the daemon.
    pub fn answered(&self) {
        self.until.set(None);
    }

    /// After an attempt without a response: returns the pause before the next one, or the end.
    ///
    /// # Errors
    /// The maximum wait is over. The message begins with `reason`.
    pub fn pause(&self, pause: Duration, reason: &str) -> Result<Duration, CliError> {
        let Some(until) = self.until.get() else {
            return Ok(pause);
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CliError::failed(format!(
                "{reason}; is `headgate serve` running? --wait keeps trying"
            )));
        }
        Ok(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_its_time_unless_there_was_an_answer() {
        let second = Duration::from_secs(1);
        let over = Patience::new(Some(Duration::ZERO));
        let error = over.pause(second, "nobody is there").expect_err("the end");
        assert_eq!(error.code, 1);
        assert!(
            error
                .message
                .starts_with("nobody is there; is `headgate serve` running?")
        );

        let answered = Patience::new(Some(Duration::ZERO));
        answered.answered();
        assert_eq!(answered.pause(second, "why"), Ok(second));
        assert_eq!(Patience::new(None).pause(second, "why"), Ok(second));
        let hour = Duration::from_hours(1);
        let pause = Patience::new(Some(hour))
            .pause(2 * hour, "why")
            .expect("time is left");
        assert!(!pause.is_zero() && pause <= hour, "{pause:?}");
    }
}
