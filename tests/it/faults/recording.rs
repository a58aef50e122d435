//! What a daemon did to the files of its data folder, in order; and what a power cut leaves of it.
//!
//! A write or a truncation is on the disk for sure when a flush of its file that began after it has ended. A file's
//! name is, when the file or the folder was flushed after it got that name. Of everything else a cut leaves any part:
//! of writes any sectors, of names those up to some moment, as a file system with a journal does.
//!
//! **Invariant**: what was flushed before the cut is there after it, and nothing is there that was never written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::app::Random;

const SECTOR: usize = 512;
const HEAD_BYTES: usize = 24;
/// Belongs to the process, not to the data.
const LOCK: &str = "lock";

/// A change of a file's bytes.
#[derive(Debug, Clone)]
enum Change {
    /// These bytes of the recording, at this offset.
    Write(usize, Range<usize>),
    Truncate(usize),
}

/// A change of names.
#[derive(Debug, Clone)]
enum Name {
    Is(String),
    Gone,
}

#[derive(Debug, Clone)]
enum Record {
    Change(Change),
    /// Everything of the file before this record is on the disk.
    Flush(usize),
    Name(Name),
    /// A new life of the daemon opened a file that was there.
    Found,
}

/// Lives of a daemon, one after the other, from an empty folder on.
pub(super) struct Recording {
    bytes: Vec<u8>,
    /// Each with its file; 0 is the folder.
    records: Vec<(usize, Record)>,
}

impl Recording {
    pub(super) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("a recording");
        let mut records = Vec::new();
        let mut at = 0;
        // Each life counts its files from 1.
        let mut numbered = BTreeMap::from([(0, 0)]);
        let mut named = BTreeMap::new();
        // The last one may be cut off: the daemon was killed.
        while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
            let number = |range: Range<usize>| {
                let mut wide = [0; 8];
                wide[..range.len()].copy_from_slice(&head[range]);
                usize::try_from(u64::from_le_bytes(wide)).expect("a file's length")
            };
            let (kind, file, offset, length) =
                (number(0..4), number(4..8), number(8..16), number(16..24));
            let payload = at + HEAD_BYTES..at + HEAD_BYTES + length;
            let Some(text) = bytes.get(payload.clone()) else {
                break;
            };
            let name = String::from_utf8_lossy(text).into_owned();
            match kind {
                4 => drop(numbered.insert(file, named[&name])),
                // Its own number: that of the record.
                5 => drop(numbered.insert(file, records.len() + 1)),
                _ => {}
            }
            let file = numbered[&file];
            let record = match kind {
                1 => Record::Change(Change::Write(offset, payload.clone())),
                2 => Record::Change(Change::Truncate(offset)),
                3 => Record::Flush(offset),
                4 => Record::Found,
                5 | 7 => Record::Name(Name::Is(name)),
                6 => Record::Name(Name::Gone),
                kind => panic!("a record of kind {kind}"),
            };
            if let Record::Name(name) = &record {
                rename(&mut named, file, name.clone());
            }
            records.push((file, record));
            at = payload.end;
        }
        Self { bytes, records }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

/// A file on the disk.
#[derive(Debug, Default)]
struct OnDisk {
    bytes: Vec<u8>,
    /// Changes that were not flushed yet, with the record that each is.
    pending: Vec<(usize, Change)>,
}

/// The disk at one moment of a recording.
pub(super) struct Disk<'a> {
    recording: &'a Recording,
    at: usize,
    files: BTreeMap<usize, OnDisk>,
    names: BTreeMap<String, usize>,
    /// Names that were not flushed yet, with the record and the file.
    pending: Vec<(usize, usize, Name)>,
}

impl<'a> Disk<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            at: 0,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            pending: Vec::new(),
        }
    }

    /// Goes on to the moment at which so many records have been made.
    pub(super) fn advance(&mut self, to: usize) {
        while self.at < to {
            let (file, record) = &self.recording.records[self.at];
            match record {
                Record::Change(change) => {
                    let on_disk = self.files.entry(*file).or_default();
                    on_disk.pending.push((self.at, change.clone()));
                }
                Record::Name(name) => self.pending.push((self.at, *file, name.clone())),
                Record::Flush(before) => self.flush(*file, *before),
                Record::Found => {}
            }
            self.at += 1;
        }
    }

    fn flush(&mut self, file: usize, before: usize) {
        if let Some(on_disk) = self.files.get_mut(&file) {
            let bytes = &self.recording.bytes;
            let later = on_disk.pending.partition_point(|(at, _)| *at < before);
            for (_, change) in on_disk.pending.drain(..later) {
                apply(&mut on_disk.bytes, &change, bytes);
            }
        }
        let flushed =
            |pending: &(usize, usize, Name)| pending.0 < before && (file == 0 || pending.1 == file);
        let names = std::mem::take(&mut self.pending);
        let (now, later): (Vec<_>, Vec<_>) = names.into_iter().partition(flushed);
        self.pending = later;
        for (_, file, name) in now {
            rename(&mut self.names, file, name);
        }
    }

    /// Writes what a power cut at this moment leaves into an empty folder.
    pub(super) fn cut(&self, random: &mut Random, into: &Path) {
        let mut names = self.names.clone();
        let kept = random.within(0..self.pending.len() as u64 + 1);
        for (_, file, name) in self.pending.iter().take(kept as usize) {
            rename(&mut names, *file, name.clone());
        }
        for (name, file) in names {
            if name == LOCK {
                continue;
            }
            let empty = OnDisk::default();
            let on_disk = self.files.get(&file).unwrap_or(&empty);
            let bytes = self.left_of(on_disk, random);
            std::fs::write(into.join(name), bytes).expect("room");
        }
    }

    fn left_of(&self, on_disk: &OnDisk, random: &mut Random) -> Vec<u8> {
        let mut bytes = on_disk.bytes.clone();
        let changes = on_disk.pending.iter().map(|(_, change)| change);
        let count = on_disk.pending.len() as u64;
        // How the device came to it: nothing, everything, up to some moment, any of them, torn ones.
        match random.within(0..6) {
            0 => {}
            1 => changes.for_each(|change| apply(&mut bytes, change, &self.recording.bytes)),
            2 => {
                let kept = random.within(0..count + 1) as usize;
                changes
                    .take(kept)
                    .for_each(|change| apply(&mut bytes, change, &self.recording.bytes));
            }
            3 => {
                for change in changes {
                    if random.once_in(2) {
                        apply(&mut bytes, change, &self.recording.bytes);
                    }
                }
            }
            4 => {
                // All but one.
                let missing = random.within(0..count.max(1));
                for (number, change) in changes.enumerate() {
                    if number as u64 != missing {
                        apply(&mut bytes, change, &self.recording.bytes);
                    }
                }
            }
            _ => {
                for change in changes {
                    for part in torn(change, random) {
                        apply(&mut bytes, &part, &self.recording.bytes);
                    }
                }
            }
        }
        bytes
    }
}

/// Any sectors of a write.
fn torn(change: &Change, random: &mut Random) -> Vec<Change> {
    let Change::Write(offset, source) = change else {
        let kept = random.once_in(2);
        return kept.then(|| change.clone()).into_iter().collect();
    };
    let mut parts = Vec::new();
    let mut done = 0;
    while done < source.len() {
        let at = offset + done;
        let length = (SECTOR - at % SECTOR).min(source.len() - done);
        if !random.once_in(3) {
            let from = source.start + done;
            parts.push(Change::Write(at, from..from + length));
        }
        done += length;
    }
    parts
}

fn apply(file: &mut Vec<u8>, change: &Change, recorded: &[u8]) {
    match change {
        Change::Write(offset, source) => {
            let end = offset + source.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(&recorded[source.clone()]);
        }
        Change::Truncate(length) => file.resize(*length, 0),
    }
}

fn rename(names: &mut BTreeMap<String, usize>, file: usize, name: Name) {
    names.retain(|_, of| *of != file);
    if let Name::Is(name) = name {
        names.insert(name, file);
    }
}

#[test]
fn a_cut_keeps_what_was_flushed_and_invents_nothing() {
    let bytes = b"aaaabbbbcccc".to_vec();
    let name = |name: &str| Record::Name(Name::Is(name.to_owned()));
    let write = |offset, source| Record::Change(Change::Write(offset, source));
    let recording = Recording {
        bytes,
        records: vec![
            (1, name("file")),
            (1, write(0, 0..4)),
            (1, Record::Flush(2)),
            (1, write(4, 4..8)),
            (1, write(0, 8..12)),
            (2, name("other")),
            (2, write(0, 0..4)),
        ],
    };
    let mut disk = Disk::new(&recording);
    disk.advance(recording.len());
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random(7);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        for old in std::fs::read_dir(folder.path()).expect("a folder") {
            std::fs::remove_file(old.expect("an entry").path()).expect("a file");
        }
        disk.cut(&mut random, folder.path());
        let read = |name: &str| std::fs::read(folder.path().join(name));
        let file = read("file").expect("its name was flushed with it");
        assert!(
            [&b"aaaa"[..], b"cccc", b"aaaabbbb", b"ccccbbbb"].contains(&&file[..]),
            "{file:?}"
        );
        let other = read("other").ok();
        assert!(
            other
                .as_deref()
                .is_none_or(|other| other == b"" || other == b"aaaa")
        );
        seen.insert((file, other));
    }
    assert_eq!(seen.len(), 12, "every possible state comes");
}
