//! The report of `send`.
//!
//! `send` updates it during the run, and prints it after success and failure.
//!
//! **Invariant**: it counts only accepted batches (in a dry run: the batches that would be sent).

use std::fmt;

use serde::Serialize;

use crate::output::shown;

/// The counts of a run; its JSON names are those of `--output json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The stream of the batches; unknown before the first was accepted.
    pub stream: Option<String>,
    /// Nothing was sent, only read.
    pub dry_run: bool,
    /// Items in accepted batches.
    pub items: u64,
    pub batches: u64,
    /// Accepted batches that were duplicates, which the server did not process again.
    pub replayed: u64,
    /// Attempts after which a retry followed.
    pub retries: u64,
    /// Items that were skipped because they exceed the limit of a request.
    pub too_large: u64,
    /// Items of a spool that were rejected in this run.
    pub refused: u64,
    /// Files that stay in the spool: batches that were not accepted, and other files.
    pub kept: u64,
    /// Items in the directory `rejected` of a spool.
    pub rejected: u64,
    /// Bytes of the accepted batches' bodies.
    pub bytes: u64,
    pub seconds: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.dry_run { "would send" } else { "sent" };
        write!(f, "{verb} {}", counted(self.items, "item"))?;
        if let Some(stream) = &self.stream {
            write!(f, " to {}", shown(stream))?;
        }
        let batches = if self.batches == 1 {
            "1 batch".to_owned()
        } else {
            format!("{} batches", self.batches)
        };
        write!(f, " in {batches}, {}", counted(self.bytes, "byte"))?;
        let retries = if self.retries == 1 {
            "1 retry".to_owned()
        } else {
            format!("{} retries", self.retries)
        };
        write!(f, ", {retries}, {:.1} s", self.seconds)?;
        if self.replayed > 0 {
            write!(
                f,
                "\n{} of the batches were duplicates from the last 24 hours and changed nothing; \
                 to send the same content again, set another --idempotency-prefix",
                self.replayed
            )?;
        }
        Ok(())
    }
}

/// `1 item`, `2 items`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_what_was_accepted() {
        let mut report = Report {
            items: 1,
            batches: 1,
            bytes: 13,
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "sent 1 item in 1 batch, 13 bytes, 0 retries, 0.0 s"
        );
        report.stream = Some("or\u{1b}ders".to_owned());
        (report.items, report.batches, report.retries) = (20, 2, 1);
        report.replayed = 2;
        let text = report.to_string();
        let (first, second) = text.split_once('\n').expect("two lines");
        assert_eq!(
            first,
            "sent 20 items to or\\u{1b}ders in 2 batches, 13 bytes, 1 retry, 0.0 s"
        );
        assert!(
            second.starts_with("2 of the batches were duplicates"),
            "{second}"
        );
    }
}
