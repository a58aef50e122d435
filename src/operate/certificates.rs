//! The certificates of the listeners, and their expiry.
//!
//! The daemon registers the certificates in use; the status lists those that expire soon, and `headgate check` those of
//! a configuration.
//!
//! **Invariant**: the list is computed at each request, because a certificate expires without an event.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base::clock::{self, Unix};

/// A certificate is listed this long before it expires: automatic renewal happens earlier.
const SOON_DAYS: u64 = 14;
const DAY_SECONDS: u64 = 86_400;

/// The certificates in use, of each listener.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<BTreeMap<&'static str, Vec<Term>>>);

/// Validity of the certificates in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The path of the file.
    pub file: String,
    pub whose: Whose,
    /// Not valid before this time.
    pub begins_at: Unix,
    /// Expired from this time on.
    pub ends_at: Unix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The listener presents it.
    Listener,
    /// It is the issuer of client certificates.
    Clients,
}

impl Certificates {
    /// Registers the certificates of a listener, `service` or `admin`.
    pub fn set(&self, listener: &'static str, terms: Vec<Term>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.insert(listener, terms);
    }

    /// The certificates that have expired or expire soon, as sentences.
    pub fn problems(&self) -> Vec<String> {
        let now = Unix::now();
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let problem_text = listeners.iter().flat_map(|(listener, terms)| {
            let problem_text = terms.iter().map(|term| term.problem(listener, now));
            problem_text.flatten()
        });
        problem_text.collect()
    }
}

impl Term {
    /// The sentence: expired, expires soon or not valid yet, and the fix.
    pub fn problem(&self, listener: &str, now: Unix) -> Option<String> {
        let file = &self.file;
        let (what, refused) = match self.whose {
            Whose::Listener => ("certificate", "clients refuse it"),
            Whose::Clients => ("issuer of client certificates", "should issue no more"),
        };
        let what = format!("the {what} of the {listener} listener");
        let renew = "renew it: the daemon rereads the file when it changes";
        if self.ends_at <= now {
            let day = day(self.ends_at);
            return Some(format!(
                "{what}, {file}, expired on {day}, and {refused}; {renew}"
            ));
        }
        if self.begins_at > now {
            let day = day(self.begins_at);
            return Some(format!(
                "{what}, {file}, is not valid before {day}; check the clock of this machine, or {renew}"
            ));
        }
        let left = match (self.ends_at - now).as_secs() / DAY_SECONDS {
            SOON_DAYS.. => return None,
            0 => "in less than a day".to_owned(),
            1 => "in a day".to_owned(),
            days => format!("in {days} days"),
        };
        let day = day(self.ends_at);
        Some(format!("{what}, {file}, expires on {day}, {left}; {renew}"))
    }
}

/// The day of a time in UTC: `2030-01-31`.
fn day(at: Unix) -> String {
    clock::rfc3339(at).chars().take(10).collect()
}

#[cfg(test)]
mod tests;
