//! What a file that is open says of entries before it applies them.

use uuid::Uuid;

use super::*;
use crate::log::Log;

/// A file that follows a log, in which nothing is.
struct Opened {
    _folder: tempfile::TempDir,
    log: SharedLog,
    commits: Commits,
}

impl Opened {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.db");
        make(ReplicaFile::Pool, &path);
        let nowhere = postgres_server::cluster_at("postgres://127.0.0.1:1/none", "headgate");
        let log = SharedLog::over(Log::new(nowhere, Uuid::now_v7()), 1).0;
        let commits = Commits::to(&log, &open(&path), ReplicaFile::Pool);
        Self {
            _folder: folder,
            commits: commits.expect("it attaches"),
            log,
        }
    }

    fn lacks(&mut self, place: LogPlace, change: &[u8]) -> Result<bool, LogError> {
        let file = self.commits.logged().expect("it has a log");
        file.lacks(LogPlace::default(), &LogEntry { place, change })
    }
}

/// Also of an entry that changes nothing of the file, which is applied by nobody.
#[test]
fn an_entry_with_another_digest_ends_a_file_that_is_open() {
    let change = change(&[]);
    let place = LogPlace::default().after(&change);
    let mut file = Opened::new();
    assert_eq!(file.lacks(place, &change), Ok(false));
    assert_eq!(file.log.ended(), None);
    let digest = LogPlace::default().after(b"other").digest;
    for other in [LogPlace { digest, ..place }, LogPlace { n: 2, ..place }] {
        let mut file = Opened::new();
        assert_eq!(file.lacks(other, &change), Err(LogError::Differs));
        assert_eq!(file.log.ended(), Some(LogError::Differs));
    }
    // One that fits the log, where the file has another one already.
    let other = raise(1);
    let place = LogPlace::default().after(&other);
    assert_eq!(file.lacks(place, &other), Err(LogError::Differs));
    assert_eq!(file.log.ended(), Some(LogError::Differs));
}

/// Whoever writes otherwise raises the format of the log first; what has another version all the same is applied by nobody.
#[test]
fn an_entry_of_another_version_is_read_for_no_file() {
    let mut change = change(&[]);
    for version in (0..=u8::MAX).filter(|version| *version != CHANGE_VERSION) {
        change[0] = version;
        for file in ReplicaFile::ALL {
            assert!(part_of(&change, file).is_err(), "{version}");
        }
        assert!(check_change(&change).is_err(), "{version}");
    }
    let mut file = Opened::new();
    let place = LogPlace::default().after(&change);
    assert_eq!(file.lacks(place, &change), Err(LogError::Differs));
}
