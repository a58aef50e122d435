//! `changes`: the bytes of an entry of the log that keeps copies of files equal.
//!
//! What is read is written as the same bytes, and reading all of it finds what reading its parts finds.

use replica::{FileChange, MalformedChange, ReplicaFile, change, check_change, part_of};

/// Reads an entry.
pub(super) fn changes(input: &[u8]) {
    let parts: Result<Vec<_>, MalformedChange> = ReplicaFile::ALL
        .into_iter()
        .filter_map(|file| part_of(input, file).transpose().map(|part| (file, part)))
        .map(|(file, part)| Ok((file, FileChange::from_bytes(part?)?)))
        .collect();
    assert_eq!(check_change(input).err(), parts.as_ref().err().copied());
    if let Ok(parts) = parts {
        assert_eq!(change(&parts), input);
    }
}
