//! The spool: a directory that is the queue, with a file for each batch that is not answered yet. All languages use the
//! same files.
//!
//! **Invariant**: a file is whole or not there, and its name is greater than all before it. What is no batch is set aside,
//! never deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::field;
use crate::hand::{Batch, Hand, Mark, Span, body_of};
use crate::owner::Owner;
use crate::queue::Entry;
use crate::rejected::RejectedFile;
use crate::transport::World;
use crate::{lock, uuid};

/// What a file takes at least.
const ROOM_MIN: u64 = 4 << 10;
/// The length of the file that says what is in hand.
const STATE_BYTES: usize = 4 << 10;
/// Of the room of the queue, the part that what is given up may have.
const REJECTED_SHARE: u64 = 10;

pub(crate) struct Spool {
    pub(crate) folder: PathBuf,
    pub(crate) owner: Owner,
    state: Mutex<File>,
    /// What an earlier life had in hand, until that batch comes.
    left: Mutex<Option<StateOfHand>>,
    /// Files of what is given up, the oldest first.
    pub(crate) rejected: Mutex<Vec<RejectedFile>>,
    /// That those may have.
    pub(crate) rejected_room: u64,
}

/// The first line of a file; the second is the body.
#[derive(Serialize, Deserialize)]
struct Head {
    v: u64,
    idempotency_key: String,
    item_key: Option<String>,
    #[serde(default)]
    stream: Option<String>,
    /// Milliseconds since 1970, for people.
    #[serde(default)]
    created: u64,
}

/// What `.state` says.
#[derive(Serialize, Deserialize)]
struct StateOfHand {
    batch: String,
    /// Milliseconds since 1970.
    tried: Option<u64>,
    parts: Option<Vec<[usize; 2]>>,
}

/// Why a file brings no batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("it is not a batch of version 1")]
    NotABatch,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// It will be the same the next time.
    pub(crate) fn is_of_file(&self) -> bool {
        match self {
            Self::NotABatch => true,
            Self::Io(error) => error.kind() == ErrorKind::PermissionDenied,
        }
    }
}

pub(crate) fn room_of(bytes: u64) -> u64 {
    bytes.max(ROOM_MIN)
}

/// One for its owner alone.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Options of a file for its owner alone.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Spool {
    /// Takes a directory; it is created if it is missing.
    pub(crate) fn open(folder: &Path, bytes: u64) -> Result<Self, Error> {
        let wrong = |error: io::Error| {
            let folder = folder.display();
            Error::usage(format!("can't use the spool {folder}: {error}"))
        };
        create_folder(folder).map_err(wrong)?;
        let folder = fs::canonicalize(folder).map_err(wrong)?;
        let owner = Owner::take(&folder)?;
        let (state, left) = open_state(&folder).map_err(wrong)?;
        let spool = Self {
            owner,
            state: Mutex::new(state),
            left: Mutex::new(left),
            rejected: Mutex::default(),
            rejected_room: bytes / REJECTED_SHARE,
            folder: folder.clone(),
        };
        *lock(&spool.rejected) = spool.rejected_files().map_err(wrong)?;
        Ok(spool)
    }

    /// The batches, in order, with the room of each. What was never finished is deleted: it was never sent.
    pub(crate) fn names(&self) -> io::Result<Vec<(String, u64)>> {
        let names = names_in(&self.folder, true)?;
        if let Some((newest, _)) = names.last() {
            uuid::saw(key_of(newest));
        }
        Ok(names)
    }

    fn write_state(&self, state: &StateOfHand) -> io::Result<()> {
        write_state(&lock(&self.state), Some(state))
    }

    /// Writes what is known of the batch in hand.
    pub(crate) fn save(&self, hand: &Hand) -> io::Result<()> {
        let parts = hand.parts.iter().map(|part| [part.from, part.count]);
        self.write_state(&StateOfHand {
            batch: hand.batch.key.clone(),
            tried: hand.mark.map(|mark| mark.since.as_millis() as u64),
            parts: (!hand.whole).then(|| parts.collect()),
        })
    }

    /// Gives a batch what an earlier life knew of it.
    pub(crate) fn resume(&self, hand: &mut Hand, world: &dyn World) {
        let left = lock(&self.left).take_if(|left| left.batch == hand.batch.key);
        let Some(left) = left else {
            return;
        };
        if let Some(parts) = left.parts {
            let mut end = 0;
            let mut spans = Vec::new();
            for [from, count] in parts {
                let new_end = from.saturating_add(count);
                if from < end || count < 1 || new_end > hand.batch.entries.len() {
                    return; // no parts of this batch: it is as new
                }
                end = new_end;
                spans.push(Span { from, count });
            }
            (hand.parts, hand.whole) = (spans, false);
        }
        hand.mark = left.tried.map(|tried| {
            let since = Duration::from_millis(tried);
            Mark {
                since,
                at: world.lived(),
                age: world.now().saturating_sub(since),
            }
        });
    }

    pub(crate) fn read(&self, name: &str, first: u64, lived: Duration) -> Result<Batch, ReadError> {
        let text = fs::read(self.folder.join(name))?;
        parse(&text, key_of(name), first, lived).ok_or(ReadError::NotABatch)
    }

    /// Makes the file of a batch, whole or not at all, and on disk before it returns. Returns the room that it takes.
    pub(crate) fn write(&self, batch: &Batch, world: &dyn World) -> io::Result<u64> {
        let head = Head {
            v: 1,
            idempotency_key: batch.key.clone(),
            item_key: batch.item_key.clone(),
            stream: batch.stream.clone(),
            created: batch.created.as_millis() as u64,
        };
        let mut text = serde_json::to_vec(&head)?;
        text.push(b'\n');
        text.extend(body_of(&batch.entries));
        world.disk_is_writable()?;
        write_file(&self.folder.join(format!("{}.json", batch.key)), &text)?;
        Ok(room_of(text.len() as u64))
    }

    /// Deletes the file of a batch.
    pub(crate) fn remove(&self, key: &str) {
        // One that is there again after a crash is answered as a repeat.
        drop(fs::remove_file(self.folder.join(format!("{key}.json"))));
    }

    /// Ends the use of the directory.
    pub(crate) fn leave(&self) {
        self.owner.leave();
    }
}

/// The files in a directory whose names end in `.json`, in order, with the room of each. The owner deletes what was never
/// finished.
pub(crate) fn names_in(folder: &Path, is_owner: bool) -> io::Result<Vec<(String, u64)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if is_owner && name.ends_with(".json.part") {
            drop(fs::remove_file(entry.path()));
        }
        if !name.ends_with(".json") || name.starts_with('.') {
            continue;
        }
        // One that is gone since is no file of this directory any more.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            names.push((name, room_of(metadata.len())));
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn key_of(name: &str) -> &str {
    name.strip_suffix(".json").unwrap_or(name)
}

/// Makes the file that says what is in hand, so that it can be written when nothing else can.
fn open_state(folder: &Path) -> io::Result<(File, Option<StateOfHand>)> {
    let mut options = private();
    options.read(true).create(true).truncate(false);
    let mut file = options.open(folder.join(".state"))?;
    let mut old = Vec::new();
    (&mut file).take(1 << 20).read_to_end(&mut old)?;
    let left: Option<StateOfHand> = serde_json::from_slice(old.trim_ascii()).ok();
    if old.len() < STATE_BYTES {
        write_state(&file, left.as_ref())?;
    }
    Ok((file, left))
}

fn write_state(mut file: &File, state: Option<&StateOfHand>) -> io::Result<()> {
    let mut text = match state {
        Some(state) => serde_json::to_vec(state)?,
        None => b"{}".to_vec(),
    };
    if text.len() < STATE_BYTES {
        text.resize(STATE_BYTES - 1, b' ');
    }
    text.push(b'\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)?;
    file.sync_data()
}

/// Reads the two lines of a file.
pub(crate) fn parse(text: &[u8], key: &str, first: u64, lived: Duration) -> Option<Batch> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&text[..end]).ok()?;
    if head.v != 1 || head.idempotency_key != key {
        return None;
    }
    // A key that no header can carry would stop everything behind it.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) || key.len() > 200 {
        return None;
    }
    let item_key = head.item_key.filter(|field| !field.is_empty());
    if item_key
        .as_ref()
        .is_some_and(|field| field::check_name(field).is_err())
    {
        return None;
    }
    let body = text[end + 1..].trim_ascii();
    let items: Vec<Box<RawValue>> = match body.first()? {
        b'{' => vec![serde_json::from_slice(body).ok()?],
        _ => serde_json::from_slice(body).ok()?,
    };
    let entry = |raw: Box<RawValue>| {
        raw.get().starts_with('{').then_some(Entry {
            raw,
            key: None,
            seq: first,
            at: lived,
        })
    };
    Some(Batch {
        key: head.idempotency_key,
        item_key,
        stream: head.stream.filter(|stream| !stream.is_empty()),
        created: Duration::from_millis(head.created),
        entries: items.into_iter().map(entry).collect::<Option<_>>()?,
        first,
    })
}

/// Writes a file whole or not at all; its name is on disk, too.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = (|| {
        let mut file = private().create(true).truncate(true).open(&part)?;
        file.write_all(text)?;
        file.sync_data()?;
        fs::rename(&part, path)
    })();
    if let Err(error) = written {
        drop(fs::remove_file(&part));
        return Err(error);
    }
    // Where directories can be flushed.
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        drop(folder.sync_all());
    }
    Ok(())
}
