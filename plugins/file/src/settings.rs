//! The settings, and what does not go together.
//!
//! **Invariant**: parameters of a feed are passed on as they are: the host reads them.

use serde_json::{Map, Value};

/// Forms whose rows can be appended.
const OF_ROWS: [&str; 4] = ["csv", "tsv", "ndjson", "txt"];
/// Parameters of feeds.
const PARAMETERS: [&str; 15] = [
    "text",
    "header",
    "sep",
    "bom",
    "safe",
    "names",
    "decimals",
    "comma",
    "sort",
    "limit",
    "shape",
    "title",
    "description",
    "link",
    "image",
];
/// Those that are about all rows together.
const OF_ALL: [&str; 3] = ["sort", "limit", "shape"];

/// Size from which on a file is finished, by default.
const ROTATE_BYTES: u64 = 64 << 20;

pub(super) struct Settings {
    pub(super) form: String,
    pub(super) rotate_bytes: u64,
    pub(super) rotate_minutes: Option<u64>,
    pub(super) keep_files: Option<u64>,
    all: Map<String, Value>,
}

impl Settings {
    /// Those that fit the schema.
    pub(super) fn read(config: &str) -> Result<Self, String> {
        let all: Map<String, Value> =
            serde_json::from_str(config).map_err(|error| error.to_string())?;
        let number = |name: &str| all.get(name).and_then(Value::as_u64);
        Ok(Self {
            form: text(&all, "form").unwrap_or_default(),
            rotate_bytes: number("rotate_bytes").unwrap_or(ROTATE_BYTES),
            rotate_minutes: number("rotate_minutes"),
            keep_files: number("keep_files"),
            all,
        })
    }

    /// What does not go with what the sink follows.
    pub(super) fn check(&self, follows_latest: bool) -> Result<(), String> {
        if follows_latest {
            return match (self.rotate_minutes, self.keep_files) {
                (None, None) => Ok(()),
                _ => Err("`rotate_minutes` and `keep_files` are for files that grow; remove them, or mode = \"latest\"".to_owned()),
            };
        }
        if !OF_ROWS.contains(&&*self.form) {
            return Err(format!(
                "a file that grows is one of {}; `{}` needs mode = \"latest\"",
                OF_ROWS.join(", "),
                self.form
            ));
        }
        match OF_ALL.iter().find(|name| self.all.contains_key(**name)) {
            Some(name) => Err(format!("`{name}` needs mode = \"latest\"")),
            None => Ok(()),
        }
    }

    /// The template of the name.
    pub(super) fn name(&self) -> String {
        text(&self.all, "name").unwrap_or_else(|| format!("{{_stream}}.{}", self.form))
    }

    /// Whether all rows of a file have the same columns.
    pub(super) fn has_columns(&self) -> bool {
        matches!(&*self.form, "csv" | "tsv")
    }

    /// What is passed on.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        let set = PARAMETERS.iter().filter_map(|name| {
            let value = text(&self.all, name)?;
            Some(((*name).to_owned(), value))
        });
        set.collect()
    }
}

/// A setting as a parameter of a URL has it.
fn text(all: &Map<String, Value>, name: &str) -> Option<String> {
    Some(match all.get(name)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// A time as names of files have it: `20261127T173000Z`.
pub(super) fn time(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0, in eras of 400 years: https://howardhinnant.github.io/date_algorithms.html
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}
