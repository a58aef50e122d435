//! `send --spool`: the batches that a client library has left on disk, each a file, sent as the library would have sent
//! them.
//!
//! Called by `send`. A file is `<UUIDv7>.json`: a line that says whose batch it is, then the body. The page of the client
//! libraries defines it.
//!
//! **Invariant**: a file is deleted only after its batch, or every part that it was cut into, was answered with 202. The
//! batch carried the idempotency key and the bytes that the file holds; a part has a key of its own, which is the same
//! whenever the same part is cut out of the same batch.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cut::cut;
use super::deliver::{Delivery, not_accepted, stopped};
use super::report::counted;
use super::upload::{Submission, UploadError};
use crate::client::{CallError, Refusal};
use crate::error::CliError;
use crate::output::shown;
use base::clock::Unix;

/// The daemon knows idempotency keys for 24 hours: what it may have taken must not come again after that.
const AGE_MAX: Duration = Duration::from_hours(23);
/// How many of the refused items of a batch are shown.
const REFUSED_SHOWN_MAX: usize = 5;

/// The first line of a file.
#[derive(Deserialize)]
struct Head {
    v: u64,
    idempotency_key: String,
    /// Absent: the connector has one.
    item_key: Option<String>,
    /// Unix time in milliseconds.
    created: u64,
}

/// A batch that was left.
#[derive(Debug)]
struct Left {
    submission: Submission,
    /// Slices of the body.
    items: Vec<Bytes>,
    created_at: Unix,
}

/// A folder of batches, which no batcher uses meanwhile.
pub(super) struct Spool {
    folder: PathBuf,
    _lock: File,
}

impl Spool {
    /// Takes a folder; libraries hold the same lock.
    pub(super) fn open(folder: &Path) -> Result<Self, CliError> {
        let wrong = |reason: &dyn std::fmt::Display| {
            let folder = folder.to_string_lossy();
            CliError::wrong_use(format!("can't use the spool {}: {reason}", shown(&folder)))
        };
        if !folder.is_dir() {
            return Err(wrong(&"there is no such folder"));
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(".lock"))
            .map_err(|error| wrong(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(wrong(&"a program that sends from it is running"));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(&error)),
        }
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    /// The files, in order of their names, which is that of their batches.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("json")) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

impl Left {
    /// Reads a file; says what is wrong with one that holds no batch.
    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read(path).map_err(|error| error.to_string())?;
        let end = text.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or("it has one line only")?;
        let head: Head =
            serde_json::from_slice(&text[..end]).map_err(|error| format!("line 1: {error}"))?;
        if head.v != 1 {
            return Err(format!("version {} of the format is not known", head.v));
        }
        let body = Bytes::from(text).slice(end + 1..);
        let items: Vec<&RawValue> =
            serde_json::from_slice(&body).map_err(|error| format!("line 2: {error}"))?;
        let header = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes()).map_err(|error| format!("line 1: {error}"))
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            submission: Submission {
                name: shown(&name).into_owned(),
                idempotency_key: header(&head.idempotency_key)?,
                item_key: head.item_key.as_deref().map(header).transpose()?,
                items: items.len() as u64,
                body: body.clone(),
            },
            items: (items.iter())
                .map(|item| body.slice_ref(item.get().as_bytes()))
                .collect(),
            created_at: Unix::from_ms(head.created),
        })
    }

    /// Some of its items, with a key of their own, as client libraries make it; or all, as the file holds them.
    fn part(&self, part: &Range<usize>) -> Submission {
        if part.len() == self.items.len() {
            return self.submission.clone();
        }
        let key = self.submission.idempotency_key.as_bytes();
        let suffix = format!("/{}/{}", part.start, part.len());
        let key = HeaderValue::from_bytes(&[key, suffix.as_bytes()].concat());
        Submission {
            name: format!("{}{suffix}", self.submission.name),
            idempotency_key: key.expect("a header, digits and slashes"),
            item_key: self.submission.item_key.clone(),
            items: part.len() as u64,
            body: [b"[", &self.items[part.clone()].join(&b","[..])[..], b"]"]
                .concat()
                .into(),
        }
    }
}

/// Why a file stays whose batch was sent but for these items.
fn why_it_stays(refused: &[(usize, Refusal)], count: usize) -> String {
    if let ([(_, refusal)], 0 | 1) = (refused, count) {
        return refusal.to_string();
    }
    let shown = refused.iter().take(REFUSED_SHOWN_MAX);
    let shown = shown.map(|(item, refusal)| format!("\n  item {item}, counted from 0: {refusal}"));
    let more = match refused.len().saturating_sub(REFUSED_SHOWN_MAX) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    format!(
        "{} of its {} {} refused, and all others were sent:{}{more}",
        refused.len(),
        counted(count as u64, "item"),
        if refused.len() == 1 { "was" } else { "were" },
        shown.collect::<String>()
    )
}

impl Delivery<'_> {
    /// Sends every batch of a folder; an error if one stays there.
    pub(super) async fn empty(mut self, spool: &Spool) -> Result<(), CliError> {
        let files = spool.files().map_err(|error| {
            CliError::failed(format!("can't read {}: {error}", spool.folder.display()))
        })?;
        for path in files {
            if self.stop.is_cancelled() {
                return Err(stopped());
            }
            if let Some(reason) = self.take(&path).await? {
                self.report.kept += 1;
                let path = path.to_string_lossy();
                (self.tell)(&format!("{} stays where it is: {reason}", shown(&path)));
            }
        }
        match self.report.kept {
            0 => Ok(()),
            1 => Err(CliError::failed(
                "1 batch was not sent, and stays in its file",
            )),
            count => Err(CliError::failed(format!(
                "{count} batches were not sent, and stay in their files"
            ))),
        }
    }

    /// Sends one, and deletes its file; why not, if that concerns this batch alone.
    async fn take(&mut self, path: &Path) -> Result<Option<String>, CliError> {
        let left = match Left::read(path) {
            Ok(left) => left,
            Err(reason) => return Ok(Some(format!("it holds no batch: {reason}"))),
        };
        if Unix::now() - left.created_at >= AGE_MAX {
            let items = counted(left.submission.items, "item");
            return Ok(Some(format!(
                "it is older than 23 hours, and repeats are known for 24: if its {items} did not arrive, send its second line"
            )));
        }
        let refused = self.send_in_parts(&left).await?;
        if !refused.is_empty() {
            self.report.refused += refused.len() as u64;
            return Ok(Some(why_it_stays(&refused, left.items.len())));
        }
        if self.upload.is_none() {
            return Ok(None);
        }
        fs::remove_file(path).map_err(|error| {
            let path = path.display();
            CliError::failed(format!("{path} was accepted and can't be deleted: {error}"))
        })?;
        Ok(None)
    }

    /// Sends a batch, and in parts what is refused as a whole; the items that are refused alone.
    async fn send_in_parts(&mut self, left: &Left) -> Result<Vec<(usize, Refusal)>, CliError> {
        let mut refused = Vec::new();
        // The next one is the last.
        let whole = 0..left.items.len();
        let mut parts = vec![whole];
        while let Some(part) = parts.pop() {
            if self.stop.is_cancelled() {
                return Err(stopped());
            }
            let submission = left.part(&part);
            match self.submit(&submission).await {
                Ok(()) => self.count(&submission),
                Err(UploadError::Call(CallError::Refused(refusal)))
                    if matches!(refusal.status, 400 | 413) =>
                {
                    let smaller = cut(&part, &refusal.items);
                    if smaller.is_empty() {
                        refused.push((part.start, refusal));
                    }
                    parts.extend(smaller.into_iter().rev());
                }
                Err(error) => return Err(not_accepted(error)),
            }
        }
        Ok(refused)
    }

    async fn submit(&mut self, submission: &Submission) -> Result<(), UploadError> {
        let Some(upload) = self.upload else {
            return Ok(()); // a dry run
        };
        let report = &mut *self.report;
        let retried = |why: &str| {
            report.retries += 1;
            (self.tell)(why);
        };
        let accepted = upload.submit(submission, retried).await?;
        self.report.replayed += u64::from(accepted.replayed);
        self.report.stream = Some(accepted.stream);
        Ok(())
    }

    fn count(&mut self, sent: &Submission) {
        self.report.batches += 1;
        self.report.items += sent.items;
        self.report.bytes += sent.body.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_no_batch_says_what_is_wrong_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        let read = |text: &str| {
            fs::write(&path, text).expect("a file");
            Left::read(&path)
        };
        let head = r#"{"v":1,"idempotency_key":"k","item_key":null,"created":7}"#;
        let left = read(&format!("{head}\n[{{\"a\":1.10}},{{}}]")).expect("a batch");
        assert_eq!(left.submission.items, 2);
        assert_eq!(left.submission.body, r#"[{"a":1.10},{}]"#);
        assert_eq!(left.submission.item_key, None);
        for (text, reason) in [
            (head.to_owned(), "one line only"),
            (format!("{head}\n[{{"), "line 2: EOF"),
            (format!("{head}\n{{}}"), "line 2: invalid type"),
            (
                format!("{}\n[]", head.replace("\"v\":1", "\"v\":2")),
                "version 2",
            ),
            (
                format!("{}\n[]", head.replace("\"k\"", "\"a\\nb\"")),
                "line 1: ",
            ),
            ("{\"v\":1}\n[]".to_owned(), "line 1: missing field"),
        ] {
            let wrong = read(&text).expect_err(&text);
            assert!(wrong.contains(reason), "{text}: {wrong}");
        }
    }
}
