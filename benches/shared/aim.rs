//! One aim and what came of it.
//!
//! The benches' own files `aims` say which there are.
//!
//! **Invariant:** what a run cannot tell is neither reached nor missed.

use serde::Serialize;

/// One aim, what was measured for it, and whether it was reached.
#[derive(Debug, Serialize)]
pub(crate) struct Aim {
    /// What is aimed at.
    pub(crate) name: String,
    /// The limit.
    pub(crate) target: String,
    /// What came out.
    pub(crate) measured: String,
    /// `None` where this run cannot tell: requests were refused.
    pub(crate) reached: Option<bool>,
}

impl Aim {
    /// A value that must not be higher.
    pub(crate) fn at_most(name: impl Into<String>, value: f64, limit: f64, unit: &str) -> Self {
        Self {
            name: name.into(),
            target: format!("<= {limit}{unit}"),
            measured: format!("{value:.2}{unit}"),
            reached: Some(value <= limit),
        }
    }
}
