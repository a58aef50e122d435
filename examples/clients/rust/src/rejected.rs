//! What a spool gave up, in its directory `rejected`: a file for a batch, a line for each part of it.
//!
//! **Invariant**: only what Headgate refused is ever deleted, and only for newer files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::{Cancel, Client, Receipt, SendOptions};
use crate::deliver::is_kept;
use crate::error::{Error, code};
use crate::hand::{Hand, raws};
use crate::spool::{Spool, create_folder, key_of, names_in, room_of, write_file};
use crate::{lock, uuid, verdict};

/// What came of a part that was sent again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Again<'a> {
    /// Headgate accepted it.
    Accepted(&'a Receipt),
    /// It was rejected again, and stays.
    Rejected(&'a Error),
}

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
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedPart {
    #[serde(skip_serializing)]
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

impl Client {
    /// Sends a part that was given up, under the key that it had, unless that belongs to other content.
    fn send_part(
        &self,
        part: &RejectedPart,
        stream: Option<&str>,
        cancel: &Cancel,
    ) -> Result<Receipt, Error> {
        let is_foreign = part.error.code == code::MISMATCH;
        let options = SendOptions {
            item_key: part.item_key.clone(),
            idempotency_key: (!is_foreign).then(|| part.idempotency_key.clone()),
            stream: stream.map(str::to_owned),
            timeout: None,
            cancel: cancel.clone(),
        };
        self.send(&part.items, &options)
    }
}

impl Spool {
    /// The names of what was given up before. What is in the files is read when room is needed.
    pub(crate) fn rejected_files(&self) -> io::Result<Vec<RejectedFile>> {
        let names = match names_in(&self.folder.join(FOLDER), true) {
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

    /// Sends what was given up once more, file after file; a file keeps what was not accepted.
    pub(crate) fn send_rejected(
        &self,
        client: &Client,
        stream: Option<&str>,
        cancel: &Cancel,
        report: &mut dyn FnMut(&RejectedPart, Again<'_>),
    ) -> Result<(), Error> {
        let names: Vec<String> = lock(&self.rejected)
            .iter()
            .map(|file| file.name.clone())
            .collect();
        for name in names {
            let path = self.folder.join(FOLDER).join(name);
            let text = fs::read(&path).map_err(|error| unusable(&path, &error))?;
            let mut rest: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            let mut at = 0;
            while let Some(line) = rest.get(at) {
                // A line that cannot be read stays.
                let Some(part) = lines(line).flatten().next() else {
                    at += 1;
                    continue;
                };
                match client.send_part(&part, stream, cancel) {
                    Ok(receipt) => {
                        report(&part, Again::Accepted(&receipt));
                        rest.remove(at);
                        replace(&path, &rest.concat()).map_err(|error| unusable(&path, &error))?;
                    }
                    Err(error) if verdict::is_about_items(&error) || is_kept(&error.code) => {
                        report(&part, Again::Rejected(&error));
                        at += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
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
        let mut text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?, // what cannot be read must not be overwritten
        };
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

/// A file without anything in it goes.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    match text.trim_ascii().is_empty() {
        true => fs::remove_file(path),
        false => write_file(path, text),
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::usage(format!("can't use {}: {error}", path.display()))
}

/// Whether a file has something that Headgate did not refuse, or cannot be read.
fn must_stay(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else {
        return true;
    };
    lines(&text).any(|part| part.is_none_or(|part| is_kept(&part.error.code)))
}
