//! What a fault came to: rounds, and what of the promises was kept.
//!
//! **Invariant**: a round with too little load does not count, and too few rounds that count are a failure.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

/// How many broken promises are shown.
const SHOWN_MAX: usize = 20;

/// The sums of all rounds of one fault.
#[derive(Debug)]
pub(super) struct Verdict {
    fault: &'static str,
    began: Instant,
    rounds: u64,
    counted: u64,
    acknowledged: u64,
    lost: Vec<String>,
    doubled: Vec<String>,
}

impl Verdict {
    /// No round yet.
    pub(super) fn on(fault: &'static str) -> Self {
        Self {
            fault,
            began: Instant::now(),
            rounds: 0,
            counted: 0,
            acknowledged: 0,
            lost: Vec::new(),
            doubled: Vec::new(),
        }
    }

    /// A round is over; it counts if the fault met enough load.
    pub(super) fn round(&mut self, acknowledged: u64, counts: bool) {
        self.rounds += 1;
        self.counted += u64::from(counts);
        self.acknowledged += acknowledged;
    }

    /// Something that was promised is not so.
    pub(super) fn lost(&mut self, what: String) {
        self.lost.push(what);
    }

    /// Something happened more often than once.
    pub(super) fn doubled(&mut self, what: String) {
        self.doubled.push(what);
    }

    /// Whether no promise was broken so far.
    pub(super) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty()
    }

    /// What was lost.
    pub(super) fn into_lost(self) -> Vec<String> {
        self.lost
    }

    /// Panics with what is broken so far, and where it was found.
    pub(super) fn must_be_clean(&self, at: &dyn std::fmt::Display) {
        assert!(self.is_clean(), "{at}: {}", self.shown());
    }

    /// Prints the sums; panics if a promise was broken, or too few rounds counted.
    pub(super) fn close(self, counted_min: u64) {
        let shown = self.shown();
        // Not eprintln!, which the test harness keeps to itself while tests pass.
        let _ = writeln!(std::io::stderr(), "{shown}");
        assert!(self.is_clean(), "{shown}");
        assert!(self.counted >= counted_min, "too little load: {shown}");
    }

    fn shown(&self) -> String {
        let mut shown = format!(
            "{}: rounds {} (counted {}), acknowledged {}, lost {}, doubled {}, {} s",
            self.fault,
            self.rounds,
            self.counted,
            self.acknowledged,
            self.lost.len(),
            self.doubled.len(),
            self.began.elapsed().as_secs()
        );
        for (what, list) in [("lost", &self.lost), ("doubled", &self.doubled)] {
            for one in list.iter().take(SHOWN_MAX) {
                write!(shown, "\n  {what}: {one}").expect("text grows");
            }
        }
        shown
    }
}
