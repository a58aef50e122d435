//! Templates with the values of an item.
//!
//! **Invariant**: nothing else puts values into texts that leave.

use std::fmt;

use super::escape::Escape;
use super::filter::Filter;
use super::{Part, Placeholder, Template, TemplatePlace, place};
use crate::scope::{Record, Source};
use crate::value::{Numbers, Value};

/// Bytes that a template may make of one item. A template may repeat a large field many times.
const FILLED_BYTES_MAX: usize = 1 << 20;
/// As many of several items together.
const OF_BATCH_BYTES_MAX: usize = 16 << 20;
/// As many bytes a template of a feed makes of one item before it ends. No feed is larger, so that this one is
/// refused. Otherwise a read key could ask for a row of many gigabytes.
const OF_FEED_BYTES_MAX: usize = 16 << 20;

/// Why a template makes nothing of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection(pub(crate) &'static str);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Rejection {}

impl Template {
    /// The template with the values of an item.
    ///
    /// # Errors
    /// The item would make something that its place cannot have, or more than 1 MiB; several together more than 16 MiB.
    pub fn fill(&self, record: &Record<'_>) -> Result<String, Rejection> {
        let (bytes_max, too_large) = match record.count {
            0 => (
                FILLED_BYTES_MAX,
                "a template makes 1 MiB of an item at most",
            ),
            _ => (
                OF_BATCH_BYTES_MAX,
                "a template makes 16 MiB of a batch at most",
            ),
        };
        let filled = self.fill_written(record, Numbers::default(), bytes_max)?;
        if filled.len() > bytes_max {
            return Err(Rejection(too_large));
        }
        place::check_filled(self, &filled)?;
        Ok(filled)
    }

    /// The template of a feed, with numbers written so; `decimals` of its own counts instead.
    pub fn fill_feed(&self, record: &Record<'_>, numbers: Numbers) -> String {
        // No escape of a feed's template rejects anything: `header` is refused when it is read.
        let filled = self.fill_written(record, numbers, OF_FEED_BYTES_MAX);
        filled.unwrap_or_default()
    }

    /// Ends with the first part that makes it larger than this. It ends early, so that memory is limited by one part
    /// beyond the limit.
    fn fill_written(
        &self,
        record: &Record<'_>,
        numbers: Numbers,
        bytes_max: usize,
    ) -> Result<String, Rejection> {
        let mut out = String::new();
        for part in &self.parts {
            if out.len() > bytes_max {
                break;
            }
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(one) => {
                    let text = one.text(record, numbers, &self.place, out.is_empty())?;
                    out.push_str(&text);
                }
            }
        }
        Ok(out)
    }

    /// The template with this text for each value.
    pub(super) fn probe(&self, text: &str) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text,
            Part::Value(_) => text,
        });
        parts.collect()
    }
}

impl Placeholder {
    fn text(
        &self,
        record: &Record<'_>,
        numbers: Numbers,
        place: &TemplatePlace,
        is_first: bool,
    ) -> Result<String, Rejection> {
        let is_rounded = |filter: &Filter| matches!(filter, Filter::Decimals(_));
        let mut value = record.value(&self.source);
        let is_field = matches!(self.source, Source::Field(_));
        if is_field && !self.filters.iter().any(is_rounded) {
            value = value.written(numbers);
        }
        for filter in &self.filters {
            value = filter.change(value, numbers.comma);
        }
        let of_place = match self.is_raw || self.is_json_value {
            true => None,
            false => place.escape(),
        };
        let of_place = of_place.filter(|escape| self.escapes.last() != Some(escape));
        for escape in self.escapes.iter().copied().chain(of_place) {
            let text = match (escape, value) {
                (Escape::Json, value) => {
                    let mut json = String::new();
                    value.json_into(true, &mut json);
                    json
                }
                (escape, value) => escape.of(value.text(), place.ends(), is_first)?,
            };
            value = Value::Text(text.into());
        }
        Ok(match value {
            Value::Text(text) => text.into_owned(),
            other => other.text().to_owned(),
        })
    }
}
