//! What an item is beside its key and its fields: how new, whether it goes, how long it stays.
//!
//! **Invariant**: a version that cannot be read is none: then the order of acceptance decides, and nothing is lost.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::context::Context;
use super::interpret::{EVENT, field_of};
use catalog::Rules;
use item::{Action, ItemMeta, ItemRef, Version};

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
    fn removes(&self, fields: &str) -> bool {
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

    /// The operation that an item is.
    pub(super) fn operation<'b>(
        &self,
        key: &'b str,
        fields: &'b str,
        sent_version: &'b mut String,
    ) -> ItemRef<'b> {
        let mut meta = self.version_of(fields, sent_version);
        let removes = self.removes(fields);
        match (removes, meta.version) {
            (false, _) => meta.expire_after_seconds = self.rules.expire_after_seconds,
            // A removal that does not say its version acts in the order of acceptance. Where the tool's versions are known
            // to be times, its arrival keeps away what comes later and is older.
            (true, None) if self.version.is_some() && self.rules.version.is_none() => {
                meta = ItemMeta::REMOVAL_IN_TIME;
            }
            (true, _) => {}
        }
        let (fields, action) = match removes {
            true => ("{}", Action::Remove),
            false => (fields, Action::Upsert),
        };
        ItemRef {
            key,
            fields,
            shape: 0,
            action,
            meta,
            sent_version,
        }
    }

    /// The version of an item, and what was sent if it is not written so.
    fn version_of(&self, fields: &str, sent_version: &mut String) -> ItemMeta {
        sent_version.clear();
        let sent = self.version.and_then(|field| field_of(fields, field));
        let version = sent.as_deref().and_then(read);
        let version = version.map(Version::from_thousandths);
        if let (Some(version), Some(sent)) = (version, sent) {
            // A `String` takes all that is written.
            let _ = write!(sent_version, "{version}");
            match *sent_version == sent {
                true => sent_version.clear(),
                false => *sent_version = sent,
            }
        }
        ItemMeta {
            version,
            expire_after_seconds: None,
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
