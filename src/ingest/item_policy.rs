//! What an item is beside its key and its fields: how new, whether it goes, how long it stays.
//!
//! **Invariant**: a version that cannot be read is none: then the order of acceptance decides, and nothing is lost.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::context::Context;
use super::interpret::{EVENT, field_of};
use catalog::Rules;
use item::{ItemMeta, Version};

/// Versions count in thousandths, or microseconds.
const SCALE: i64 = 1_000;

/// What decides over the items of one delivery.
pub(super) struct ItemPolicy<'a> {
    rules: &'a Rules,
    /// The field with the version.
    version: Option<&'a str>,
    event: Option<&'a str>,
    /// Whether the tool's preset says that the event is a removal.
    event_removes: bool,
}

impl<'a> ItemPolicy<'a> {
    pub(super) fn of(of: &Context<'a>, event: Option<&'a str>) -> Self {
        let tool = of.tool();
        let removals = tool.map_or(&[][..], |preset| preset.removals);
        let by_preset = of.rules.delete_when.is_none();
        Self {
            rules: of.rules,
            version: (of.rules.version.as_deref()).or_else(|| tool?.version),
            event,
            event_removes: by_preset && event.is_some_and(|event| removals.contains(&event)),
        }
    }

    /// Whether items are what they are without it.
    pub(super) fn has_no_say(&self) -> bool {
        self.version.is_none() && !self.event_removes && {
            let rules = self.rules;
            rules.delete_when.is_none() && rules.expire_after_seconds.is_none()
        }
    }

    /// Whether an item goes.
    pub(super) fn removes(&self, fields: &str) -> bool {
        let Some(when) = &self.rules.delete_when else {
            return self.event_removes;
        };
        let is = |value: &str| when.is.iter().any(|one| one == value);
        let event = self.event.filter(|_| when.field == EVENT);
        match field_of(fields, &when.field) {
            Some(value) => is(&value),
            None => event.is_some_and(is),
        }
    }

    pub(super) fn meta(&self, fields: &str) -> ItemMeta {
        let version = self.version.and_then(|field| field_of(fields, field));
        ItemMeta {
            version: version
                .and_then(|text| read(&text))
                .map(Version::from_thousandths),
            expire_after_seconds: self.rules.expire_after_seconds,
        }
    }

    /// A removal that does not say its version acts in the order of acceptance. Where the tool's versions are known to be
    /// times, its arrival keeps away what comes later and is older.
    pub(super) fn meta_of_removal(&self, fields: &str) -> ItemMeta {
        let version = self.meta(fields).version;
        match version {
            None if self.version.is_some() && self.rules.version.is_none() => {
                ItemMeta::REMOVAL_IN_TIME
            }
            version => ItemMeta {
                version,
                expire_after_seconds: None,
            },
        }
    }
}

/// A number, or a time in RFC 3339.
fn read(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return number.checked_mul(SCALE);
    }
    if let Ok(number) = text.parse::<f64>() {
        let scaled = number * SCALE as f64;
        // Beyond this a float is no count any more.
        return (scaled.abs() < 9e15).then_some(scaled.round() as i64);
    }
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000).ok()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn versions_are_numbers_or_times() {
        for (older, newer) in [
            ("1", "2"),
            ("9", "10"),
            ("-3", "0"),
            ("1.4", "1.5"),
            ("1700000000", "1700000000.25"),
            ("2026-01-05T10:00:00Z", "2026-01-05T10:00:01Z"),
            ("2026-01-05T10:00:00-05:00", "2026-01-05T10:00:00-06:00"),
            ("2026-01-05T10:00:00.1Z", "2026-01-05T10:00:00.25Z"),
            ("2026-01-05T10:00:00.000001Z", "2026-01-05T10:00:00.000002Z"),
        ] {
            assert!(read(older) < read(newer), "{older} {newer}");
            assert!(read(older).is_some(), "{older}");
        }
        assert_eq!(read("1"), read("1.0"));
        for none in [
            "",
            "soon",
            "2026-01-05",
            "1e300",
            "NaN",
            "99999999999999999999",
            "inf",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
