//! The line about the first request of a connector.
//!
//! **Invariant**: the line is green only after an authenticated request: one that was not rejected, or a challenge. The
//! reason of the newest rejection is shown until a request is accepted.

use maud::{Markup, html};

use super::log::LogQuery;
use crate::text::{as_sentence, text_of, time};
use crate::{paths, tool};
use base::clock;
use catalog::Connector;
use journal::Outcome;
use journal::log::Client;
use operate::requests::{self, Report};

/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 400;

/// The first request of a connector, from the page of its log.
#[derive(Debug, Clone, Copy)]
pub(super) struct First<'a> {
    connector: &'a Connector,
    state: State<'a>,
}

#[derive(Debug, Clone, Copy)]
enum State<'a> {
    /// No line: the connector is defined in the configuration and has no preset, its first request is not on this page of
    /// the log, the log cannot be read now, or another part of the page says what to do.
    Unknown,
    Waiting,
    /// All requests were rejected; this is the newest.
    Refused(&'a Report),
    /// The provider sent challenges, this one last, and no accepted request.
    Greeted(&'a Report),
    Came(&'a Report),
}

impl<'a> First<'a> {
    /// Without a page of the log there is no line.
    pub(super) fn of(
        connector: &'a Connector,
        log: Option<&'a requests::Page>,
        query: &LogQuery,
    ) -> Self {
        Self {
            connector,
            state: log.map_or(State::Unknown, |log| State::of(connector, log, query)),
        }
    }

    /// A hidden copy of the line; the script of the page replaces the line with it.
    pub(super) fn news(self, nothing_identifies: bool) -> Markup {
        html! {
            @match self.state {
                State::Came(_) | State::Greeted(_) => p #first-came hidden { (self.says(nothing_identifies)) },
                State::Refused(_) => p #first-refused hidden { (self.says(nothing_identifies)) },
                State::Waiting | State::Unknown => {},
            }
        }
    }

    /// The line while the page waits for the first request.
    pub(super) fn line(self, is_new: bool, nothing_identifies: bool) -> Markup {
        let says = self.says(nothing_identifies);
        html! {
            @match self.state {
                State::Waiting => p #first.panel role="status" { (says) },
                State::Refused(_) => p #first.panel.refused role="status" { (says) },
                State::Greeted(_) => p #first.panel.good role="status" { (says) },
                State::Came(_) if is_new || self.connector.preset().is_some() => p #first.panel.good role="status" { (says) },
                State::Came(_) | State::Unknown => {},
            }
        }
    }

    fn says(self, nothing_identifies: bool) -> Markup {
        let preset = self.connector.preset();
        html! {
            @match self.state {
                State::Waiting => "Waiting for your first request.",
                State::Came(report) => {
                    "Your first request came at " (at(report)) ": " (link(report, "see its status")) "."
                    @if nothing_identifies {
                        " The connector has no item key: " a href=(paths::connector(&self.connector.name)) { "choose a field" } "."
                    }
                },
                State::Greeted(report) => {
                    (tool::name(preset)) " sent a challenge at " (at(report)) " and was answered: the URL is right. Waiting for the first event."
                },
                State::Refused(report) => {
                    "A request was rejected at " (at(report)) ": " (reason(report)) " " (link(report, "See the request")) "."
                },
                State::Unknown => {},
            }
        }
    }
}

impl<'a> State<'a> {
    fn of(connector: &Connector, log: &'a requests::Page, query: &LogQuery) -> Self {
        let is_asked_for = connector.created_at.is_some() || connector.preset().is_some();
        if !is_asked_for || query.before.is_some() || query.is_filtered() {
            return Self::Unknown;
        }
        // A deleted connector with the same name left its request log.
        let since = connector.created_at.unwrap_or_default();
        let own = |report: &&Report| report.row.entry.received_at >= since;
        let is_good = |report: &&Report| {
            !matches!(
                report.row.entry.outcome,
                Outcome::Rejected | Outcome::Handshake
            )
        };
        let mut reports = log.reports.iter().filter(own);
        if let Some(first) = reports.clone().rfind(is_good) {
            return match log.next {
                None => Self::Came(first),
                Some(_) => Self::Unknown,
            };
        }
        // An entry for several requests does not have their reasons.
        let of_one = |report: &&Report| report.row.entry.client != Client::Many;
        match reports.clone().find(of_one).or_else(|| reports.next()) {
            None => Self::Waiting,
            // Another part of the page says what to do.
            Some(newest)
                if newest.row.entry.outcome == Outcome::Handshake
                    && connector.keys.iter().any(|key| key.awaits_secret()) =>
            {
                Self::Unknown
            }
            Some(newest) if newest.row.entry.outcome == Outcome::Handshake => Self::Greeted(newest),
            Some(newest) => Self::Refused(newest),
        }
    }
}

fn at(report: &Report) -> Markup {
    time(&clock::rfc3339(report.row.entry.received_at))
}

fn link(report: &Report, words: &str) -> Markup {
    html! { a href=(paths::request(&report.row.entry.request_id.to_string())) { (words) } }
}

fn reason(report: &Report) -> Markup {
    let why = report
        .row
        .entry
        .error
        .as_deref()
        .unwrap_or("no reason is known");
    text_of(&as_sentence(why), REASON_CHARS_MAX)
}
