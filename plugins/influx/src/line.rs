//! From an item to a line of the line protocol.
//!
//! **Invariant**: a line is one point, whatever its item holds.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::time::{self, Precision};

/// What of an item becomes what of a point.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Layout {
    measurement: Option<String>,
    tags: Vec<String>,
    key_tag: Option<String>,
    fields: Option<HashSet<String>>,
    integers: HashSet<String>,
    time: Option<String>,
    pub(crate) precision: Precision,
}

/// An item on its way; `fields` is a JSON object.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) stream: &'a str,
    pub(crate) key: &'a str,
    pub(crate) received_ms: u64,
    pub(crate) fields: &'a str,
}

impl Layout {
    /// The item's line, with the line break at its end.
    ///
    /// # Errors
    /// Why it can have none, for operators.
    pub(crate) fn line(&self, item: &Item<'_>) -> Result<String, String> {
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(item.fields).map_err(|error| error.to_string())?;
        let mut line = String::with_capacity(item.fields.len() + 64);
        let measurement = self.measurement.as_deref().unwrap_or(item.stream);
        name_into(measurement, &[',', ' '], &mut line);
        if let Some(tag) = &self.key_tag {
            tag_into(tag, item.key, &mut line);
        }
        for tag in &self.tags {
            match fields.get(tag).map(|value| value.get()) {
                None | Some("null") => {}
                Some(text) => tag_into(tag, &plain(text)?, &mut line),
            }
        }
        let mut separator = ' ';
        for (name, value) in &fields {
            let wanted = match &self.fields {
                Some(wanted) => wanted.contains(name),
                None => !self.tags.contains(name) && self.time.as_ref() != Some(name),
            };
            if !wanted {
                continue;
            }
            // InfluxDB leaves it out without a word.
            if name == "time" {
                return Err(
                    "time: no field of a point can have this name; is it the setting `time`?"
                        .to_owned(),
                );
            }
            let Some(value) = self.value(name, value.get())? else {
                continue;
            };
            line.push(separator);
            name_into(name, &[',', '=', ' '], &mut line);
            line.push('=');
            line.push_str(&value);
            separator = ',';
        }
        if separator == ' ' {
            return Err("none of its fields can be a field of a point".to_owned());
        }
        let _ = writeln!(line, " {}", self.time(item, &fields)?);
        Ok(line)
    }

    /// A field's value; none if it is null, or a list or object that nobody asked for.
    fn value(&self, name: &str, json: &str) -> Result<Option<String>, String> {
        Ok(Some(match json.as_bytes()[0] {
            b'n' => return Ok(None),
            b't' | b'f' => json.to_owned(),
            b'"' => quoted(&plain(json)?),
            b'[' | b'{' if self.fields.is_none() => return Ok(None),
            b'[' | b'{' => quoted(json),
            _ if self.integers.contains(name) => match json.parse::<i64>() {
                Ok(number) => format!("{number}i"),
                Err(_) => return Err(format!("{name}: {json} is no integer of 64 bits")),
            },
            _ => match json.parse::<f64>() {
                Ok(number) if number.is_finite() => json.to_owned(),
                _ => return Err(format!("{name}: {json} is beyond a 64-bit float")),
            },
        }))
    }

    fn time(&self, item: &Item<'_>, fields: &BTreeMap<String, &RawValue>) -> Result<i64, String> {
        let named = self
            .time
            .as_ref()
            .and_then(|name| Some((name, fields.get(name)?.get())));
        match named {
            None | Some((_, "null")) => Ok(self.precision.of_ms(item.received_ms)),
            Some((name, json)) => {
                let time = match json.starts_with('"') {
                    true => time::rfc3339(&plain(json)?).and_then(|time| self.precision.of(time)),
                    false => json.parse().ok(),
                };
                time.ok_or_else(|| {
                    format!("{name}: {json} is no time: wants RFC 3339, or an integer")
                })
            }
        }
    }
}

/// A value as text: strings without quotes, everything else as JSON.
fn plain(json: &str) -> Result<String, String> {
    match json.starts_with('"') {
        true => serde_json::from_str(json).map_err(|error| error.to_string()),
        false => Ok(json.to_owned()),
    }
}

fn tag_into(name: &str, value: &str, line: &mut String) {
    // There are no empty tags.
    if value.trim_end_matches('\\').is_empty() {
        return;
    }
    line.push(',');
    name_into(name, &[',', '=', ' '], line);
    line.push('=');
    name_into(value, &[',', '=', ' '], line);
}

/// Outside of quotes the protocol has no line breaks, and no backslash at the end: control characters are written as
/// `\n` and the like, and the backslash is left out.
fn name_into(text: &str, special: &[char], line: &mut String) {
    for character in text.trim_end_matches('\\').chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            _ => {
                if special.contains(&character) {
                    line.push('\\');
                }
                line.push(character);
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
