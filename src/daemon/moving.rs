//! `headgate migrate`: a data directory becomes the beginning of a cluster, or a cluster becomes a data directory.
//!
//! The command line calls it; no daemon runs on either directory.
//!
//! In: copies of the pool and the catalog become the base before the first entry of the log, and everything that the
//! journal has is stored in generations of the database. The copies are made first. Then all of it is one transaction,
//! which is never idle for long, and what was stored is read again before it is committed. Out: the copies of a node
//! that is none are brought to the head of the log; then the journal is read at one moment. Payloads stay meanwhile, so
//! whatever a sink lacks by its cursor is among them.
//!
//! Either side is a life of its own afterwards: the pool has another epoch, and numbers of requests go on far above
//! those that the other side can give.
//!
//! **Invariant**: a cluster that something is moved into has all of it or none; a directory that something is moved
//! into holds the mark of one that is not whole until it is. The source is never changed but for a mark.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::files::{Claimed, Lock, open_folder};
use super::node::{copies_at_rest, database_of, make_tables};
use super::{DaemonError, upgrade};
use backup::restore::MARK;
use base::{clock, whole_file};
use journal::moving::{JournalAtRest, MoveProgress};
use postgres::{Database, MoveIn, MoveOut, MovedRows, STATEMENT_MAX, Target};
use repair::Verdict;
use replica::log::Log;
use replica::{AtRestError, MovedPart, Tally, is_copy};
use settings::{Engine, Settings};
use sqlite::suspect;

/// The file in a data directory that was moved into a cluster.
pub const MOVED_MARK: &str = "moved-to-cluster";
/// Copies while they are made, in the data directory of a node. They are not made in the source, because that is
/// changed only by a mark.
const WORK: &str = "moving.part";
const POOL: &str = "data pool";
const CATALOG: &str = "catalog";

/// What was moved into a cluster.
#[derive(Debug)]
pub struct MovedIn {
    pub parts: Vec<MovedPart>,
    /// An earlier call has moved it.
    pub before: bool,
    /// The directory that it was moved from.
    pub from: PathBuf,
}

/// What was moved out of a cluster.
#[derive(Debug)]
pub struct MovedOut {
    pub parts: Vec<MovedPart>,
    /// Nodes that were running. What they accept from then on is not in the directory.
    pub running: Vec<String>,
    /// The directory that it was moved to.
    pub to: PathBuf,
}

/// Moves what a directory has, on which no daemon runs, into the cluster of these settings, which must be empty. A
/// second call compares.
///
/// # Errors
/// See [`DaemonError`]; nothing was moved, unless it is [`DaemonError::MoveUnknown`].
pub async fn move_in(
    settings: &Settings,
    from: &Path,
    progress: MoveProgress<'_>,
) -> Result<MovedIn, DaemonError> {
    let from = source(from)?;
    let own = open_folder(&settings.storage.data_dir)?;
    if own == from {
        return Err(DaemonError::Cluster(format!(
            "{} is storage.data_dir of the node, too, which needs its own directory: rename the directory that is to be moved, or set storage.data_dir to an empty one",
            from.display()
        )));
    }
    let _locks = (Lock::take(&from)?, Lock::take(&own)?);
    require_whole(&from)?;
    let database = database_of(settings)?;
    make_tables(&database).await?;
    let work = own.join(WORK);
    let moved = Moving {
        from: &from,
        work: &work,
        database: &database,
    };
    let done = moved.run(progress).await;
    // What is left of it is deleted by the next call.
    let _ = fs::remove_dir_all(&work);
    let (parts, before) = done?;
    mark(&from, database.schema())?;
    Ok(MovedIn {
        parts,
        before,
        from,
    })
}

/// A directory that becomes the beginning of a cluster.
struct Moving<'a> {
    from: &'a Path,
    work: &'a Path,
    database: &'a Database,
}

impl Moving<'_> {
    /// What was moved, and whether that was before. The transaction begins after what takes long, because a server ends
    /// one that is idle.
    async fn run(&self, progress: MoveProgress<'_>) -> Result<(Vec<MovedPart>, bool), DaemonError> {
        if let Some(stored) = self.target().await?.1 {
            progress("comparing with what was moved before");
            return Ok((self.compare(&stored)?, true));
        }
        progress("copying pool.db and catalog.db");
        let mut parts = self.copy()?;
        let files = [self.work.join(pool::FILE), self.work.join(catalog::FILE)];
        pool::copy::begin_anew(&files[0])?;
        let (seq, low_water) = pool::copy::numbers(&files[0])?;
        let base = copies_at_rest([&files[0], &files[1]]).first_base()?;
        progress("reading journal.db");
        let journal = JournalAtRest::open(&self.from.join(journal::FILE))?;
        // Others may have begun it meanwhile. A server ends a transaction that is idle, so whatever takes long is done.
        let (Some(mut target), _) = self.target().await? else {
            return Err(DaemonError::Cluster(
                "another headgate migrate has filled the cluster meanwhile; run the command again"
                    .to_owned(),
            ));
        };
        let mut storing = |part: &str| progress(&format!("storing: {part}"));
        parts.extend(journal.move_in(&mut target, &mut storing).await?);
        progress("storing: copies for the nodes");
        let stored = base.store_within(target.connection(), STATEMENT_MAX);
        must_be_equal(&parts, stored.await?)?;
        let rows = parts.iter().map(|part| MovedRows {
            part: part.name.to_owned(),
            rows: part.source.rows,
            digest: part.source.digest.to_vec(),
        });
        let rows: Vec<MovedRows> = rows.collect();
        progress("committing, which waits for the standby if there is one");
        let committed = target.commit(&rows, (seq.get(), low_water.get())).await;
        committed.map_err(DaemonError::MoveUnknown)?;
        Ok((parts, false))
    }

    /// The transaction that fills the cluster, or what was moved into it before.
    async fn target(&self) -> Result<(Option<MoveIn>, Option<Vec<MovedRows>>), DaemonError> {
        let schema = self.database.schema();
        let refused = match MoveIn::begin(self.database).await? {
            Target::Empty(target) => return Ok((Some(target), None)),
            Target::Filled(rows) => return Ok((None, Some(rows))),
            Target::Begun => format!(
                "the schema {schema} has the data of a cluster, and only an empty cluster can be filled: set cluster.schema to a new name, or drop the schema if nobody needs its data"
            ),
            Target::Running(nodes) => format!(
                "the node {} is starting on the cluster; stop all nodes, and run the command again",
                nodes.join(", ")
            ),
        };
        Err(DaemonError::Cluster(refused))
    }

    /// Copies both files; what they have. Both sides are counted, because what was stored is compared with what was
    /// read.
    fn copy(&self) -> Result<Vec<MovedPart>, DaemonError> {
        let _ = fs::remove_dir_all(self.work);
        let work = open_folder(self.work)?;
        sqlite::keep_temporary_files_in(&work).map_err(|error| self.of_copy(&error))?;
        let files = [(POOL, pool::FILE), (CATALOG, catalog::FILE)];
        let copies = files.into_iter().map(|(name, file)| {
            let (from, to) = (self.from.join(file), work.join(file));
            let copied = sqlite::copy_at_rest(&from, &to.to_string_lossy());
            let tallies = copied.and_then(|()| Ok((Tally::of_file(&from)?, Tally::of_file(&to)?)));
            let (source, target) = tallies.map_err(|error| self.of_copy(&error))?;
            Ok(MovedPart {
                name,
                source,
                target,
            })
        });
        copies.collect()
    }

    fn of_copy(&self, error: &dyn std::fmt::Display) -> DaemonError {
        DaemonError::DataFolder(format!(
            "pool.db and catalog.db cannot be copied to {}: {error}; free some disk space there if the disk is full",
            self.work.display()
        ))
    }

    /// What the directory has, beside what was moved before.
    fn compare(&self, stored: &[MovedRows]) -> Result<Vec<MovedPart>, DaemonError> {
        let mut sources = Vec::new();
        for (name, file) in [(POOL, pool::FILE), (CATALOG, catalog::FILE)] {
            let tally = Tally::of_file(&self.from.join(file));
            sources.push((name, tally.map_err(|error| self.of_copy(&error))?));
        }
        sources.extend(journal::moving::tallies(&self.from.join(journal::FILE))?);
        let parts = sources.into_iter().map(|(name, source)| {
            let stored = stored.iter().find(|rows| rows.part == name);
            let target = stored.and_then(|rows| Tally::stored(rows.rows, &rows.digest));
            MovedPart {
                name,
                source,
                target: target.unwrap_or_default(),
            }
        });
        let parts: Vec<MovedPart> = parts.collect();
        match parts.iter().all(MovedPart::is_equal) {
            true => Ok(parts),
            false => Err(DaemonError::Cluster(format!(
                "the cluster in the schema {} was filled from another data directory, or {} was used since: set cluster.schema to a new name to move it",
                self.database.schema(),
                self.from.display()
            ))),
        }
    }
}

/// A directory that a daemon alone has used; its absolute path.
fn source(from: &Path) -> Result<PathBuf, DaemonError> {
    let refused = |problem: String| Err(DaemonError::DataFolder(problem));
    let path = fs::canonicalize(from).map_err(|error| {
        DaemonError::DataFolder(format!("cannot read {}: {error}", from.display()))
    })?;
    let shown = path.display();
    if path.join(pool::FILE).exists() && of_node(&path)? {
        return refused(format!(
            "{shown} has the copies of a node: its data is in the cluster that the node is in"
        ));
    }
    for file in [catalog::FILE, pool::FILE, journal::FILE] {
        if !path.join(file).exists() {
            return refused(format!(
                "{shown} has no {file}, so it is not the data directory of a daemon: name the directory that storage.data_dir of that daemon names"
            ));
        }
    }
    Ok(path)
}

/// Whether the pool in a directory is the copy of a node.
fn of_node(data_dir: &Path) -> Result<bool, DaemonError> {
    let pool = data_dir.join(pool::FILE);
    is_copy(&pool).map_err(|error| {
        DaemonError::DataFolder(format!("cannot read {}: {error}", pool.display()))
    })
}

/// Refuses a directory that has something to be finished, upgraded or repaired first. The check reads whole files: what
/// is damaged there would be damaged on all nodes.
fn require_whole(data_dir: &Path) -> Result<(), DaemonError> {
    let refused = |problem: &str| {
        let shown = data_dir.display();
        Err(DaemonError::DataFolder(format!("{shown}: {problem}")))
    };
    must_be_finished(data_dir)?;
    if suspect::any_in(data_dir) {
        return refused(
            "a file may be damaged; start the daemon on it once, which repairs it, stop it, and run the command again",
        );
    }
    for file in repair::files() {
        if let Verdict::Damaged(problem) = repair::check(data_dir, file, true)? {
            return refused(&format!(
                "{file} is damaged ({problem}); run `headgate repair`, and run the command again"
            ));
        }
    }
    let has_upgrades = !upgrade::look(data_dir)?.is_empty();
    if has_upgrades || !journal::moving::is_current(&data_dir.join(journal::FILE))? {
        return refused(
            "this version has not used it yet: start this version once on it, which upgrades it, stop it, and run the command again",
        );
    }
    Ok(())
}

fn must_be_equal(parts: &[MovedPart], copies_are_equal: bool) -> Result<(), DaemonError> {
    let differ = parts.iter().filter(|part| !part.is_equal());
    let mut differ: Vec<&str> = differ.map(|part| part.name).collect();
    if !copies_are_equal {
        differ.push("copies for the nodes");
    }
    match differ.is_empty() {
        true => Ok(()),
        false => Err(DaemonError::Differs(differ.join(", "))),
    }
}

/// Has no daemon start on what was moved by mistake. It would accept requests that the cluster does not have.
fn mark(data_dir: &Path, schema: &str) -> Result<(), DaemonError> {
    let path = data_dir.join(MOVED_MARK);
    if path.exists() {
        return Ok(());
    }
    let text = format!(
        "moved into a cluster, schema {schema}, at {}\n",
        clock::rfc3339(clock::Unix::now())
    );
    whole_file::write(&path, text.as_bytes(), 0o600).map_err(|error| {
        DaemonError::DataFolder(format!(
            "everything was moved, but {} cannot be written: {error}; run the same command again",
            path.display()
        ))
    })
}

/// Refuses a directory to the daemon that starts on it: one that holds the half of a backup or of a cluster, and to a
/// daemon alone one whose data is in a cluster.
pub(super) fn must_be_usable(data_dir: &Path, engine: Engine) -> Result<(), DaemonError> {
    must_be_finished(data_dir)?;
    match engine {
        Engine::File => must_be_of_daemon_alone(data_dir),
        Engine::Postgres => Ok(()),
    }
}

fn must_be_finished(data_dir: &Path) -> Result<(), DaemonError> {
    if !data_dir.join(MARK).exists() {
        return Ok(());
    }
    Err(DaemonError::DataFolder(format!(
        "the restore of a backup or the move of a cluster into {} did not come to its end: empty the folder and run `headgate restore` or `headgate migrate` again",
        data_dir.display()
    )))
}

fn must_be_of_daemon_alone(data_dir: &Path) -> Result<(), DaemonError> {
    let shown = data_dir.display();
    if data_dir.join(MOVED_MARK).exists() {
        return Err(DaemonError::DataFolder(format!(
            "the data in {shown} was moved into a cluster: start a node with storage.engine = \"postgres\" and another data directory. To use the data without what the cluster has accepted since, stop all nodes, delete the file {MOVED_MARK} in the directory, and start again"
        )));
    }
    // Only a copy has no journal beside it.
    let is_alone = data_dir.join(journal::FILE).exists() || !data_dir.join(pool::FILE).exists();
    // What cannot be read is no copy: the start repairs it, or sets it aside.
    if is_alone || !of_node(data_dir).unwrap_or(false) {
        return Ok(());
    }
    Err(DaemonError::DataFolder(format!(
        "{shown} has the copies of a node, without the requests, which are in the database: create a data directory from the cluster with `headgate migrate --to DIR`, and set storage.data_dir to it"
    )))
}

/// Makes a data directory of what the cluster of these settings has. `to` must be missing or empty.
///
/// # Errors
/// See [`DaemonError`]; nothing that was written is left.
pub async fn move_out(
    settings: &Settings,
    to: &Path,
    progress: MoveProgress<'_>,
) -> Result<MovedOut, DaemonError> {
    let claimed = Claimed::empty(to)?;
    let database = database_of(settings)?;
    let Some(mut source) = MoveOut::begin(&database).await? else {
        return Err(DaemonError::Cluster(format!(
            "the schema {} has no cluster that a node has begun; set cluster.schema to the schema of the cluster",
            database.schema()
        )));
    };
    let folder = claimed.path.clone();
    let marked = folder.join(MARK);
    let failed = |error| {
        DaemonError::DataFolder(format!(
            "{} cannot be written: {error}; free some disk space if the disk is full",
            marked.display()
        ))
    };
    whole_file::write(&marked, b"", 0o600).map_err(failed)?;
    let written = write_folder(&folder, &database, &mut source, progress).await;
    let running = std::mem::take(&mut source.running);
    source.end().await;
    if written.is_err() {
        for file in [catalog::FILE, pool::FILE, journal::FILE] {
            for end in ["", "-wal", "-shm", ".part", ".part-wal", ".part-shm"] {
                let _ = fs::remove_file(folder.join(format!("{file}{end}")));
            }
        }
    }
    fs::remove_file(&marked)
        .and_then(|()| File::open(&folder)?.sync_all())
        .map_err(failed)?;
    let parts = written?;
    claimed.keep();
    Ok(MovedOut {
        parts,
        running,
        to: folder,
    })
}

/// The journal is read last, so that it has every request that the copied pool lacks.
async fn write_folder(
    folder: &Path,
    database: &Database,
    source: &mut MoveOut,
    progress: MoveProgress<'_>,
) -> Result<Vec<MovedPart>, DaemonError> {
    let files = [folder.join(pool::FILE), folder.join(catalog::FILE)];
    let copies = copies_at_rest([&files[0], &files[1]]);
    progress("reading pool.db and catalog.db");
    let mut log = Log::new(database.clone(), Uuid::now_v7());
    let place = copies.bring_to_head(&mut log).await;
    log.close().await;
    if place?.is_none() {
        return Err(AtRestError::NoBase.into());
    }
    copies.leave_log()?;
    let mut parts = Vec::new();
    for (name, file) in [(POOL, pool::FILE), (CATALOG, catalog::FILE)] {
        if let Verdict::Damaged(problem) = repair::check(folder, file, true)? {
            return Err(DaemonError::Differs(format!("{file}: {problem}")));
        }
        let tally = Tally::of_file(&folder.join(file)).map_err(AtRestError::from)?;
        // Each entry of the log was compared by the chain of digests.
        parts.push(MovedPart {
            name,
            source: tally,
            target: tally,
        });
    }
    pool::copy::begin_anew(&files[0])?;
    let mut reading = |part: &str| progress(&format!("reading: {part}"));
    // Last: what the sinks have by the pool is behind their cursors, and everything else is in the journal.
    let journal = folder.join(journal::FILE);
    parts.extend(journal::moving::move_out(source, &journal, &mut reading).await?);
    must_be_equal(&parts, true)?;
    for file in [catalog::FILE, pool::FILE, journal::FILE] {
        let flushed = File::open(folder.join(file)).and_then(|file| file.sync_all());
        flushed.map_err(AtRestError::from)?;
    }
    Ok(parts)
}
