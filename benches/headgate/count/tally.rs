//! What callgrind has counted, by function.
//!
//! **Invariant:** a count is of a function with all that it called.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// Instructions since the last one.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Of everything.
    pub(crate) total: u64,
    functions: HashMap<String, u64>,
}

impl Tally {
    /// Reads a dump, by callgrind's own program.
    pub(crate) fn read(dump: &Path) -> Result<Self> {
        let output = Command::new("callgrind_annotate")
            .args(["--inclusive=yes", "--threshold=100", "--show-percs=no"])
            .arg(dump)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut functions = HashMap::new();
        let mut total = None;
        for (count, place) in text.lines().filter_map(line) {
            if place == "PROGRAM TOTALS" {
                total = Some(count);
            } else if let Some((_, name)) = place.split_once(':') {
                let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
                let known = functions.entry(name.trim().to_owned()).or_insert(0);
                *known = count.max(*known);
            }
        }
        let total = total.ok_or("callgrind_annotate names no total")?;
        Ok(Self { total, functions })
    }

    /// Instructions in this function and all that it called.
    pub(crate) fn inside(&self, function: &str) -> Result<u64> {
        match self.functions.get(function) {
            Some(&count) if count > 0 => Ok(count),
            _ => Err(format!(
                "{function} was not called, or is not to be seen: has it another name now? (an optimized build needs symbols)"
            )
            .into()),
        }
    }
}

/// Count and place of a line, if it has both.
fn line(line: &str) -> Option<(u64, &str)> {
    let (count, place) = line.trim_start().split_once("  ")?;
    let count = count.replace(',', "").parse().ok()?;
    Some((count, place.trim()))
}
