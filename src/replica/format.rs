//! How the log gets a newer format.
//!
//! The format of the log stands for everything that a node must know to apply its entries: how they are written, and the
//! formats of both files. It changes at an entry that says nothing else. Each node brings its files to their new formats
//! there, with its own code: what comes behind is of rows in the new tables.
//!
//! **Invariant**: the formats of both files follow from the last such entry before their place. Who does not know a format
//! applies nothing behind it, and appends nothing.

use postgres::needed_version;
use thiserror::Error;

use super::encoding::{ChangeReader, ChangeWriter, MalformedChange};
use super::log::LogHead;

/// The first byte of an entry that raises the format. [`CHANGE_VERSION`](super::CHANGE_VERSION) is that of others.
const RAISE: u8 = 0;

/// The log has a format that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the log of the cluster has format {format}, and this version of headgate knows {known}; install {} on this node",
    needed_version(.version)
)]
pub struct NewerLog {
    /// That of the log.
    pub format: i32,
    /// The newest that this version knows.
    pub known: i32,
    /// The version that raised it; empty: nobody knows.
    pub version: String,
}

impl NewerLog {
    /// Whether the log with this head has a newer format than `known`.
    pub(crate) fn of(head: &LogHead, known: i32) -> Option<Self> {
        (head.format > known).then(|| Self {
            format: head.format,
            known,
            version: head.version.clone(),
        })
    }

    /// What a refusal of the database says: the format, a blank, the version.
    pub(crate) fn refused(message: &str, known: i32) -> Self {
        let (format, version) = message.split_once(' ').unwrap_or_default();
        Self {
            format: format.parse().unwrap_or(i32::MAX),
            known,
            version: version.to_owned(),
        }
    }
}

impl From<sqlite::Newer> for NewerLog {
    /// Of an entry whose file has a format that the log has not been raised to: by a version that was built of other
    /// sources. No version is named, because the entry does not say who wrote it.
    fn from(newer: sqlite::Newer) -> Self {
        let number = |format: i64| i32::try_from(format).unwrap_or(i32::MAX);
        Self {
            format: number(newer.found),
            known: number(newer.known),
            version: String::new(),
        }
    }
}

/// The bytes of an entry behind which the log has this format.
pub(crate) fn raise(format: i32) -> Vec<u8> {
    let mut writer = ChangeWriter(vec![RAISE]);
    writer.number(format.unsigned_abs().into());
    writer.0
}

/// The format that the log has behind an entry, if that is what it says.
///
/// # Errors
/// It says so, and the format cannot be read.
pub(crate) fn raised_to(change: &[u8]) -> Result<Option<i32>, MalformedChange> {
    let Some((&RAISE, format)) = change.split_first() else {
        return Ok(None);
    };
    let mut reader = ChangeReader(format);
    let format = i32::try_from(reader.number()?).ok();
    match (format, reader.0.is_empty()) {
        (Some(format), true) => Ok(Some(format)),
        _ => Err(MalformedChange("it raises the format to no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReplicaFile, check_change, part_of};

    #[test]
    fn an_entry_that_raises_the_format_says_nothing_else() {
        for format in [0, 1, 127, 128, 1_015_012, i32::MAX] {
            let change = raise(format);
            assert_eq!(raised_to(&change), Ok(Some(format)));
            let parts = ReplicaFile::ALL.map(|file| part_of(&change, file));
            assert!(parts.iter().all(Result::is_err), "{parts:?}");
            assert!(check_change(&change).is_err());
            let longer = [&change[..], &[1]].concat();
            assert!(raised_to(&longer).is_err());
            assert!(raised_to(&change[..change.len() - 1]).is_err());
        }
        assert_eq!(raised_to(&crate::change(&[])), Ok(None));
        assert_eq!(raised_to(&[]), Ok(None));
        assert!(raised_to(&[RAISE, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }

    #[test]
    fn a_log_of_a_newer_format_names_the_version_that_is_needed() {
        let newer = NewerLog::refused("1015012 0.9.1", 7);
        assert_eq!((newer.format, newer.known), (1_015_012, 7));
        let said = newer.to_string();
        assert!(said.contains("install headgate 0.9.1 or newer"), "{said}");
        for message in ["1015012 ", "what nobody expects"] {
            let said = NewerLog::refused(message, 7).to_string();
            assert!(said.contains("knows 7; install"), "{said}");
        }
        let said = NewerLog::refused("1015012 ", 7).to_string();
        assert!(said.contains("a newer version of headgate"), "{said}");
    }
}
