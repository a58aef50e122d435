//! Upgrades of the files of a data folder to the formats of this version: what is to be done is looked at first.
//!
//! The start does both, `headgate check` looks.
//!
//! **Invariant**: before every file is known to have a format that this version knows, and the disk to have room, no byte
//! of any changes. A small file is copied aside before it is upgraded.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::DaemonError;
use sqlite::{Newer, beside};

/// A file of a data folder.
struct Kind {
    name: &'static str,
    format: i64,
    /// Opens it, which upgrades it.
    open: fn(&Path) -> Result<(), DaemonError>,
}

const FILES: [Kind; 3] = [
    Kind {
        name: catalog::FILE,
        format: catalog::FORMAT,
        open: |path| Ok(catalog::make(path)?),
    },
    Kind {
        name: pool::FILE,
        format: pool::FORMAT,
        open: |path| Ok(pool::copy::make(path)?),
    },
    Kind {
        name: journal::FILE,
        format: journal::FORMAT,
        open: |path| Ok(journal::copy::make(path)?),
    },
];

/// Files up to this size are copied aside.
const SMALL_BYTES: u64 = 64 << 20;

/// A file that is to be upgraded.
pub struct Upgrade {
    kind: &'static Kind,
    /// Its format.
    found: i64,
    /// Its size, with what its write-ahead log adds.
    bytes: u64,
}

impl Upgrade {
    /// `catalog.db from format 7 to 8`
    pub fn sentence(&self) -> String {
        format!(
            "{} from format {} to {}",
            self.kind.name, self.found, self.kind.format
        )
    }

    pub(super) fn file(&self) -> &'static str {
        self.kind.name
    }

    fn is_small(&self) -> bool {
        self.bytes <= SMALL_BYTES
    }
}

/// What is to be upgraded in a data folder. Writes nothing. All files are looked at first, because the old version
/// cannot read a file that was upgraded.
///
/// # Errors
/// [`DaemonError::Newer`] if a file has a format that this version does not know, [`DaemonError::NoRoom`] if the disk has
/// too little room.
pub fn look(data_dir: &Path) -> Result<Vec<Upgrade>, DaemonError> {
    let mut upgrades = Vec::new();
    for kind in &FILES {
        let path = data_dir.join(kind.name);
        // What cannot be read is told, or repaired, when it is opened.
        let Ok(Some(found)) = sqlite::format_at_rest(&path) else {
            continue;
        };
        let known = kind.format;
        if found > known && repair::is_newer(data_dir, kind.name)? {
            let why = Newer { found, known };
            return Err(DaemonError::Newer(format!("{}: {why}", path.display())));
        }
        if (1..known).contains(&found) {
            let bytes = |path: &Path| path.metadata().map_or(0, |found| found.len());
            upgrades.push(Upgrade {
                kind,
                found,
                bytes: bytes(&path) + bytes(&beside(&path, "-wal")),
            });
        }
    }
    if let Ok(disk) = rustix::fs::statvfs(data_dir) {
        require_room(&upgrades, disk.f_bavail.saturating_mul(disk.f_frsize))?;
    }
    Ok(upgrades)
}

/// Each upgrade is one transaction, which may write every page of its file once more. Its room is free again before the
/// next one begins.
fn require_room(upgrades: &[Upgrade], free_bytes: u64) -> Result<(), DaemonError> {
    let copies = upgrades.iter().filter(|one| one.is_small());
    let copies: u64 = copies.map(|one| one.bytes).sum();
    let log = upgrades.iter().map(|one| one.bytes).max().unwrap_or(0);
    if copies + log <= free_bytes {
        return Ok(());
    }
    let all: Vec<String> = upgrades.iter().map(Upgrade::sentence).collect();
    Err(DaemonError::NoRoom(format!(
        "the upgrade of {} needs up to {} MiB, and the disk has {} MiB free; nothing was changed: free some disk space and start again, or use the version that wrote the files",
        all.join(", "),
        (copies + log).div_ceil(1 << 20),
        free_bytes >> 20
    )))
}

/// Does what [`look`] found, and says before each which it is, from 1. Blocks.
///
/// # Errors
/// A file cannot be copied aside, or upgraded; those before it are.
pub(super) fn run(
    data_dir: &Path,
    upgrades: &[Upgrade],
    begin: impl Fn(usize, &Upgrade),
) -> Result<(), DaemonError> {
    for upgrade in upgrades.iter().filter(|one| one.is_small()) {
        keep_aside(data_dir, upgrade)?;
    }
    for (place, upgrade) in upgrades.iter().enumerate() {
        begin(place + 1, upgrade);
        tracing::info!("upgrading {}", upgrade.sentence());
        (upgrade.kind.open)(&data_dir.join(upgrade.kind.name))?;
    }
    Ok(())
}

/// Copies a file as it is to `catalog.db.before-7`, whole or not at all: the number is the format that it has.
fn keep_aside(data_dir: &Path, upgrade: &Upgrade) -> Result<(), DaemonError> {
    let path = data_dir.join(upgrade.kind.name);
    let kept = beside(&path, &format!(".before-{}", upgrade.found));
    let unfinished = beside(&kept, ".unfinished");
    let copy = || -> Result<(), Box<dyn std::error::Error>> {
        if unfinished.exists() {
            std::fs::remove_file(&unfinished)?;
        }
        // For this user only, as the file itself is.
        let mut new = OpenOptions::new();
        let into = new
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        sqlite::copy_at_rest(&path, &unfinished.to_string_lossy())?;
        into.sync_all()?;
        std::fs::rename(&unfinished, &kept)?;
        File::open(data_dir)?.sync_all()?;
        Ok(())
    };
    copy().map_err(|error| {
        let _ = std::fs::remove_file(&unfinished);
        DaemonError::NoRoom(format!(
            "{} cannot be copied to {} before it is upgraded: {error}; nothing was changed: free some disk space and start again",
            path.display(),
            kept.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{FILES, SMALL_BYTES, Upgrade, require_room};

    fn of(bytes: u64) -> Upgrade {
        Upgrade {
            kind: &FILES[0],
            found: 1,
            bytes,
        }
    }

    #[test]
    fn the_largest_file_and_the_copies_of_small_ones_must_fit() {
        let (small, large) = (10 << 20, SMALL_BYTES + 1);
        assert!(require_room(&[], 0).is_ok());
        for (bytes, wanted) in [
            (&[small][..], 2 * small),
            (&[small, small], 3 * small),
            (&[large, small], large + small),
            (&[large, large], large),
        ] {
            let all: Vec<Upgrade> = bytes.iter().copied().map(of).collect();
            assert!(require_room(&all, wanted).is_ok());
            let refused = require_room(&all, wanted - 1)
                .expect_err("no room")
                .to_string();
            assert!(refused.contains("catalog.db from format 1"), "{refused}");
        }
    }
}
