//! What an item is beside its key and its fields: how new, whether it goes, how long it stays.
//!
//! **Invariant**: a version that cannot be read is none: then the order of acceptance decides, and nothing is lost.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::context::Context;
use super::interpret::{EVENT, field_of};
use catalog::Rules;
use item::{Action, ItemMeta, ItemRef, Version};
use webhook::{Path, Preset};

/// What decides over the items of one delivery.
pub(super) struct ItemPolicy<'a> {
    rules: &'a Rules,
    /// The field with the version.
    version: Option<Cow<'a, str>>,
    event: Option<&'a str>,
    /// The tool, unless its connector says what a removal is, because the user's word replaces the preset's.
    removing: Option<&'a Preset>,
    /// Whether the tool's preset says that the event is a removal.
    event_removes: bool,
}

impl<'a> ItemPolicy<'a> {
    pub(super) fn of(of: &Context<'a>, event: Option<&'a str>) -> Self {
        let tool = of.tool();
        let removing = tool.filter(|_| of.rules.delete_when.is_none());
        let usual = || tool?.version.as_ref().map(Path::flat);
        let version = of
            .rules
            .version
            .as_deref()
            .map(Cow::Borrowed)
            .or_else(usual);
        let is_removal =
            |event: &str| removing.is_some_and(|tool| tool.removals.iter().any(|one| one == event));
        Self {
            rules: of.rules,
            version,
            event,
            removing,
            event_removes: event.is_some_and(is_removal),
        }
    }

    /// Whether items are what they are without it.
    pub(super) fn has_no_say(&self) -> bool {
        let by_field = self
            .removing
            .is_some_and(|tool| tool.removal_field.is_some());
        self.version.is_none() && !self.event_removes && !by_field && {
            let rules = self.rules;
            rules.delete_when.is_none() && rules.expire_after_seconds.is_none()
        }
    }

    fn removes(&self, fields: &str) -> bool {
        let Some(when) = &self.rules.delete_when else {
            let by_field = self.removing.and_then(|tool| tool.removal_field.as_ref());
            return self.event_removes
                || by_field.is_some_and(|(path, is)| {
                    field_of(fields, &path.flat()).is_some_and(|value| is.contains(&value))
                });
        };
        let is = |value: &str| when.is.iter().any(|one| one == value);
        let event = self.event.filter(|_| when.field == EVENT);
        match field_of(fields, &when.field) {
            Some(value) => is(&value),
            None => event.is_some_and(is),
        }
    }

    /// The operation that an item is, at this position.
    pub(super) fn operation<'b>(
        &self,
        position: usize,
        key: &'b str,
        fields: &'b str,
        versions: &'b mut Versions,
    ) -> ItemRef<'b> {
        let mut meta = self.version_of(position, fields, versions);
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
            sent_version: &versions.sent,
        }
    }

    /// The version of an item, and what was sent if it is not written so. A sink or a log shows the version as its
    /// source wrote it.
    fn version_of(&self, position: usize, fields: &str, versions: &mut Versions) -> ItemMeta {
        versions.sent.clear();
        let field = self.version.as_deref().unwrap_or_default();
        let sent = self
            .version
            .as_deref()
            .and_then(|field| field_of(fields, field));
        let version = sent.as_deref().and_then(Version::parse);
        match (version, sent) {
            (Some(version), Some(sent)) => {
                // A `String` takes all that is written.
                let _ = write!(versions.sent, "{version}");
                match versions.sent == sent {
                    true => versions.sent.clear(),
                    false => versions.sent = sent,
                }
            }
            (None, Some(sent)) => versions.note_unreadable(position, &sent, field),
            (_, None) => {}
        }
        ItemMeta {
            version,
            ..ItemMeta::default()
        }
    }
}

/// What is read of the versions of one delivery.
#[derive(Default)]
pub(super) struct Versions {
    /// What was sent, if the version is not written so.
    sent: String,
    /// What the log is to say of the first that is none.
    unreadable: Option<String>,
    /// How many more there are. Only the first is described, so that a large delivery has a short entry.
    more: usize,
}

impl Versions {
    #[cold]
    fn note_unreadable(&mut self, position: usize, sent: &str, field: &str) {
        if self.unreadable.is_some() {
            self.more += 1;
            return;
        }
        let shown = &sent[..sent.floor_char_boundary(Version::TEXT_BYTES_MAX)];
        let said = format!("item {position}: {shown:?} in {field} is not a version");
        self.unreadable = Some(said);
    }

    /// What the log is to say of those that are none.
    pub(super) fn unreadable(self) -> Option<Box<str>> {
        let first = self.unreadable?;
        Some(match self.more {
            0 => first.into(),
            more => format!("{first}, nor are those of {more} more items").into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn the_log_says_what_is_no_version() {
        let mut versions = Versions::default();
        versions.note_unreadable(2, "abc", "rev");
        let said = "item 2: \"abc\" in rev is not a version";
        assert_eq!(versions.unreadable().as_deref(), Some(said));
        let mut versions = Versions::default();
        for position in 0..3 {
            versions.note_unreadable(position, &"ä".repeat(90), "rev");
        }
        let said = versions.unreadable().expect("it says something");
        assert!(said.starts_with("item 0: \"ää"), "{said}");
        assert!(
            said.ends_with("is not a version, nor are those of 2 more items"),
            "{said}"
        );
        assert_eq!(said.matches('ä').count(), 32);
    }
}
