//! What a spool gave up, in its directory `rejected`: a file for a batch, a line for each part of it.
//!
//! **Invariant**: only what Headgate refused is ever deleted, and only for newer files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::deliver::is_kept;
use crate::error::Error;
use crate::hand::{Hand, raws};
use crate::spool::{Spool, create_folder, key_of, names_in, room_of, write_file};
use crate::{lock, uuid};

/// Where it is, in the spool.
const FOLDER: &str = "rejected";

/// A file of what is given up.
pub(crate) struct RejectedFile {
    name: String,
    room: u64,
    /// Headgate has not refused all of it: it stays.
    is_kept: bool,
}

/// A line of such a file: a batch, or a part of one.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RejectedPart {
    v: u64,
    /// The key that it was sent with.
    pub idempotency_key: String,
    /// None: the connector has one.
    pub item_key: Option<String>,
    /// Why it lies here.
    pub error: RejectedReason,
    /// The items, as they were sent.
    pub items: Vec<Box<RawValue>>,
}

/// Why items were given up.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedReason {
    /// Headgate's, or `EXPIRED` or `MISMATCH`.
    pub code: String,
    /// For people.
    pub message: String,
    /// Of the answer.
    pub request_id: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u64,
    idempotency_key: &'a str,
    item_key: Option<&'a str>,
    error: RejectedReason,
    items: Vec<&'a RawValue>,
}

/// What lies in the directory `rejected` of a spool, the oldest first; also while another program uses the spool. A line
/// that cannot be read is left out.
pub fn rejected(spool: &Path) -> io::Result<Vec<RejectedPart>> {
    let folder = spool.join(FOLDER);
    let mut names: Vec<_> = match fs::read_dir(&folder) {
        Ok(entries) => entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    names.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    names.sort();
    let mut parts = Vec::new();
    for path in names {
        let text = fs::read(path)?;
        parts.extend(lines(&text).flatten());
    }
    Ok(parts)
}

/// The lines of a file; none for one that cannot be read.
fn lines(text: &[u8]) -> impl Iterator<Item = Option<RejectedPart>> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| {
        let part: Option<RejectedPart> = serde_json::from_slice(line).ok();
        part.filter(|part| part.v == 1)
    })
}

impl Spool {
    /// The names of what was given up before. What is in the files is read when room is needed.
    pub(crate) fn rejected_files(&self) -> io::Result<Vec<RejectedFile>> {
        let names = match names_in(&self.folder.join(FOLDER)) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if let Some((newest, _)) = names.last() {
            uuid::saw(key_of(newest));
        }
        let file = |(name, room)| RejectedFile {
            name,
            room,
            is_kept: false,
        };
        Ok(names.into_iter().map(file).collect())
    }

    /// Adds the part that is next to the file of its batch, and makes room. Returns how many files had to go for that.
    pub(crate) fn reject(&self, hand: &Hand, error: &Error) -> io::Result<u64> {
        let key = hand.part_key();
        let line = serde_json::to_vec(&Line {
            v: 1,
            idempotency_key: &key,
            item_key: hand.batch.item_key.as_deref(),
            error: RejectedReason {
                code: error.code.clone(),
                message: error.message.clone(),
                request_id: error.request_id.clone(),
            },
            items: raws(hand.part()),
        })?;
        let name = format!("{}.json", hand.batch.key);
        let path = self.folder.join(FOLDER).join(&name);
        let mut text = fs::read(&path).unwrap_or_default();
        if lines(&text)
            .flatten()
            .any(|part| part.idempotency_key == key)
        {
            return Ok(0); // a crash came before the part was taken out of the queue
        }
        text.extend_from_slice(&line);
        text.push(b'\n');
        create_folder(&self.folder.join(FOLDER))?;
        write_file(&path, &text)?;
        let mut files = lock(&self.rejected);
        let at = files.iter().position(|file| file.name == name);
        let at = at.unwrap_or_else(|| {
            files.push(RejectedFile {
                name,
                room: 0,
                is_kept: false,
            });
            files.len() - 1
        });
        files[at].room = room_of(text.len() as u64);
        files[at].is_kept |= is_kept(&error.code);
        Ok(self.make_room(&mut files))
    }

    /// Deletes the oldest files of which Headgate refused everything, but never the newest.
    fn make_room(&self, files: &mut Vec<RejectedFile>) -> u64 {
        let mut used: u64 = files.iter().map(|file| file.room).sum();
        let (mut at, mut deleted) = (0, 0);
        while used > self.rejected_room && at + 1 < files.len() {
            let path = self.folder.join(FOLDER).join(&files[at].name);
            files[at].is_kept = files[at].is_kept || must_stay(&path);
            if files[at].is_kept || fs::remove_file(&path).is_err() {
                at += 1;
                continue;
            }
            used -= files.remove(at).room;
            deleted += 1;
        }
        deleted
    }
}

/// Whether a file has something that Headgate did not refuse, or cannot be read.
fn must_stay(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else {
        return true;
    };
    lines(&text).any(|part| part.is_none_or(|part| is_kept(&part.error.code)))
}
