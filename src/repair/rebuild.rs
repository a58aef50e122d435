//! A file that is made anew of what can be read of the damaged one.
//!
//! **Invariant**: at any moment either the old file or the whole new one is there.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::report::{Repair, TableRepair};
use super::{Kind, RepairError, beside, is_there, log_repair, remove, salvage, stamp};
use base::clock::{self, Unix};
use sqlite::suspect::mark_of;

/// Sets a file aside and puts in its place what can be read of it. The repair is recorded before the files change
/// places, so that a kill in between loses no report.
pub(super) fn rebuild_file(
    data_dir: &Path,
    kind: &Kind,
    reason: &str,
) -> Result<Repair, RepairError> {
    let path = data_dir.join(kind.name);
    let new = beside(&path, ".salvaging");
    tracing::error!(
        file = kind.name,
        reason,
        "the file is damaged: what can be read of it is saved"
    );
    let stamp = stamp(|stamp| beside(&path, &format!(".damaged-{stamp}")).exists());
    let name = format!("{}.damaged-{stamp}", kind.name);
    let mut repair = Repair {
        at: clock::rfc3339(Unix::now()),
        file: kind.name.to_owned(),
        reason: reason.to_owned(),
        ..Repair::default()
    };
    if is_there(&beside(&path, "-wal")) {
        repair.set_aside.push(format!("{name}-wal"));
    }
    repair.set_aside.push(name);
    remove(&new)?;
    let written = write_rebuilt(&path, &new, kind, &mut repair);
    if let Err(error) = written {
        let _ = remove(&new);
        return Err(error);
    }
    let complete = beside(&path, &format!(".salvaged-{stamp}"));
    std::fs::rename(&new, &complete)
        .and_then(|()| File::open(data_dir)?.sync_all())
        .map_err(|reason| RepairError::file(&complete, reason))?;
    log_repair(data_dir, &repair)?;
    finish(data_dir, kind)?;
    Ok(repair)
}

fn write_rebuilt(
    path: &Path,
    new: &Path,
    kind: &Kind,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let salvaged = salvage::salvage(path, new, kind)?;
    repair.tables = salvaged
        .tables
        .iter()
        .filter(|(name, _)| !name.starts_with("sqlite_"))
        .map(|(name, table)| TableRepair {
            table: name.clone(),
            kept: table.kept,
            lost: table.lost(),
            unreadable_pages: table.damage.pages,
        })
        .collect();
    match (kind.settle)(path, &salvaged, repair) {
        // Its tables are not those of today; whoever opens it makes them so.
        Err(RepairError::Write(error)) if salvaged.is_older => {
            tracing::warn!(file = kind.name, %error, "a file of an older format is not settled");
        }
        settled => settled?,
    }
    salvaged.connection.close().map_err(|(_, error)| error)?;
    let flush = || OpenOptions::new().write(true).open(new)?.sync_all();
    flush().map_err(|reason| RepairError::file(new, reason))
}

/// Lets a new file that is complete and the old one change places. The mark goes last, because the next start must
/// repeat this if it is interrupted.
pub(super) fn finish(data_dir: &Path, kind: &Kind) -> Result<(), RepairError> {
    let begin = format!("{}.salvaged-", kind.name);
    let entries = data_dir
        .read_dir()
        .map_err(|reason| RepairError::file(data_dir, reason))?;
    let found = entries.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix(&begin)?.to_owned())
    });
    let Some(stamp) = found else {
        return Ok(());
    };
    let path = data_dir.join(kind.name);
    let aside = beside(&path, &format!(".damaged-{stamp}"));
    let swap = || {
        rename_if_there(&path, &aside)?;
        rename_if_there(&beside(&path, "-wal"), &beside(&aside, "-wal"))?;
        remove_if_there(&beside(&path, "-shm"))?;
        File::open(data_dir)?.sync_all()?;
        std::fs::rename(data_dir.join(format!("{begin}{stamp}")), &path)?;
        File::open(data_dir)?.sync_all()?;
        remove_if_there(&mark_of(&path))?;
        remove_if_there(&beside(&path, ".cleared"))
    };
    swap().map_err(|reason| RepairError::file(&path, reason))
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    unless_absent(std::fs::rename(from, to))
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_absent(std::fs::remove_file(path))
}

fn unless_absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
