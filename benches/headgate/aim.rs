//! One aim and what came of it.
//!
//! The benches say which there are.
//!
//! **Invariant:** what a run cannot tell is neither reached nor missed.

use serde::Serialize;

use crate::table::Table;

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

    /// A share that must not be lower.
    pub(crate) fn at_least(name: impl Into<String>, share: f64, limit: f64) -> Self {
        Self {
            name: name.into(),
            target: format!(">= {:.0} %", limit * 100.0),
            measured: format!("{:.0} %", share * 100.0),
            reached: Some(share >= limit),
        }
    }
}

/// Prints them as a table; false if one was missed.
pub(crate) fn print(aims: &[Aim]) -> bool {
    println!();
    let mut table = Table::new(&["aim", "target", "measured", "reached"]);
    for aim in aims {
        let reached = match aim.reached {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not applicable",
        };
        let cells = [&aim.name, &aim.target, &aim.measured];
        table.row(
            cells
                .map(String::clone)
                .into_iter()
                .chain([reached.to_owned()]),
        );
    }
    table.print();
    aims.iter().all(|aim| aim.reached != Some(false))
}
