//! What tells that a file is damaged before SQLite opens it: its first page, its write-ahead log, a mark beside it.
//!
//! Only the start of the daemon looks.
//!
//! **Invariant**: a log is copied aside before a bit of it is turned over.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::image::{self, Image};
use super::rebuild::rebuild_file;
use super::report::{self, Repair};
use super::{JOURNAL, Kind, RepairError, Verdict, beside, check, log_repair, salvage, stamp, wal};
use base::clock::{self, Unix};
use sqlite::suspect::mark_of;

/// A second mark so soon after nothing was found means that something is wrong that no check sees.
const AGAIN: Duration = Duration::from_secs(600);
/// Copies of logs that are kept for each file.
const LOGS_MAX: usize = 5;

/// What is wrong with the beginning of a file, which SQLite believes.
pub(super) fn beginning(path: &Path, kind: &Kind) -> Result<Option<String>, RepairError> {
    let image = Image::open(path)?;
    let Some(first) = image.page(1) else {
        return Ok(Some("its first page cannot be read".to_owned()));
    };
    let number =
        |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    let vacuums = (number(52) > 0, number(64));
    let good = first.starts_with(b"SQLite format 3\0")
        && first[16..18] == (image.page_bytes as u16).to_be_bytes()
        && matches!((first[18], first[19]), (1, 1) | (2, 2))
        && first[20..24] == [0, 64, 32, 32]
        && (1..=4).contains(&number(44))
        && number(56) == 1
        && match kind.name {
            JOURNAL => matches!(vacuums, (true, 1) | (false, 0)),
            _ => vacuums == (false, 0),
        };
    Ok((!good).then(|| "its header is damaged".to_owned()))
}

/// A log is mended where that can be done exactly; where it cannot, the file is made anew.
pub(super) fn look_at_log(data_dir: &Path, kind: &Kind) -> Result<Option<Repair>, RepairError> {
    let path = data_dir.join(kind.name);
    let log_path = beside(&path, "-wal");
    let failed = |reason| RepairError::file(&log_path, reason);
    let Some(looked) = image::read_log(&path).map_err(failed)? else {
        return Ok(None);
    };
    let (bits, frames) = (looked.mends.len(), looked.bad_frames);
    let mut set_aside = Vec::new();
    if bits > 0 || (looked.is_torn && frames == 0) {
        set_aside.extend(copy_log(data_dir, &log_path)?);
    }
    if bits > 0 {
        wal::mend(&log_path, &looked.mends).map_err(failed)?;
    }
    if frames > 0 {
        let reason = format!("{frames} frames of its write-ahead log cannot be read");
        let mut repair = rebuild_file(data_dir, kind, &reason)?;
        repair.set_aside.extend(set_aside);
        return Ok(Some(repair));
    }
    if bits == 0 && !looked.is_torn {
        return Ok(None);
    }
    let (reason, note) = match bits {
        0 => (
            "its write-ahead log does not end as it should",
            "the last commit is not whole and is left out: so it is after a power cut, which takes what nobody was answered; otherwise it was damaged".to_owned(),
        ),
        1 => ("a bit of its write-ahead log was wrong", "it is mended, and nothing is lost".to_owned()),
        bits => ("bits of its write-ahead log were wrong", format!("{bits} are mended, and nothing is lost")),
    };
    let repair = Repair {
        at: clock::rfc3339(Unix::now()),
        file: kind.name.to_owned(),
        reason: reason.to_owned(),
        set_aside,
        notes: vec![note],
        ..Repair::default()
    };
    log_repair(data_dir, &repair)?;
    Ok(Some(repair))
}

/// Copies a log aside; its new name. None if there are enough of them.
fn copy_log(data_dir: &Path, log_path: &Path) -> Result<Option<String>, RepairError> {
    let name = log_path.file_name().unwrap_or_default().to_string_lossy();
    let begin = format!("{name}.damaged-");
    let kept = report::set_aside(data_dir);
    let is_like = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&begin))
    };
    if kept.iter().filter(is_like).count() >= LOGS_MAX {
        return Ok(None);
    }
    let stamp = stamp(|stamp| data_dir.join(format!("{begin}{stamp}")).exists());
    let name = format!("{begin}{stamp}");
    let into = data_dir.join(&name);
    std::fs::copy(log_path, &into)
        .and_then(|_| File::open(&into)?.sync_all())
        .and_then(|()| File::open(data_dir)?.sync_all())
        .map_err(|reason| RepairError::file(&into, reason))?;
    Ok(Some(name))
}

/// If somebody met damage in the file, whether and why it is made anew. A mark without damage is renamed, so that a
/// second one soon after is noticed.
pub(super) fn look_at_mark(path: &Path, kind: &Kind) -> Result<Option<String>, RepairError> {
    let mark = mark_of(path);
    let said = match std::fs::read_to_string(&mark) {
        Ok(text) => text
            .lines()
            .next()
            .unwrap_or("it was marked as suspect")
            .to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RepairError::file(&mark, error)),
    };
    if is_newer(path, kind)? {
        return Ok(None);
    }
    let cleared = beside(path, ".cleared");
    let again = cleared.metadata().and_then(|it| it.modified());
    let again = again.is_ok_and(is_recent);
    let data_dir = path.parent().unwrap_or(Path::new("."));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if let Verdict::Damaged(problem) = check(data_dir, &file, true)? {
        tracing::error!(file = &*file, problem, "the file is damaged");
        return Ok(Some(said));
    }
    if again {
        return Ok(Some(said));
    }
    tracing::warn!(
        file = &*file,
        reason = said,
        "the file was suspected to be damaged, and nothing was found"
    );
    std::fs::rename(&mark, &cleared).map_err(|reason| RepairError::file(&mark, reason))?;
    Ok(None)
}

fn is_recent(at: SystemTime) -> bool {
    at.elapsed().is_ok_and(|age| age < AGAIN)
}

/// A format that differs from the known one by one bit may be damage, so the tables are compared.
pub(super) fn is_newer(path: &Path, kind: &Kind) -> Result<bool, RepairError> {
    let image = Image::open(path)?;
    let version = image.version();
    if version <= kind.format {
        return Ok(false);
    }
    let one_bit = (version ^ kind.format).count_ones() == 1;
    Ok(!one_bit || salvage::is_newer(path, kind, &beside(path, ".salvaging"))?)
}
