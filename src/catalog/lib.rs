//! What exists: streams, connectors, keys. The map that every request looks its key up in, and `catalog.db`.
//!
//! `daemon` opens it over what the configuration declares; `ingest` asks it who calls, `http` who reads;
//! operators list and change it (`catalog/change.rs`).
//!
//! **Invariant**: a secret is held only as its SHA-256, but for those that tools sign with. A key is found by its digest, never by
//! comparing secrets. A lookup reads memory only, and sees every change that was answered before it began.
#![deny(unsafe_code)]

mod audit;
mod bucket;
mod caller;
mod change;
mod connector;
mod entries;
mod error;
mod ingest_key;
mod last_time;
mod listing;
mod logged;
mod problems;
mod quota;
mod rates;
mod reader;
mod rows;
mod rules;
mod schema;
mod screens;
mod setup;
mod signing;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod transaction;
mod uses;
mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub use audit::acts::ActToCopy;
use audit::chain::Verifier;
pub use audit::chain::{AuditLogError, ChainHead, ChainMismatch, Verified};
pub use audit::{
    ACTIONS as AUDIT_ACTIONS, Actor, AuditEntry, Change as AuditChange, Filter as AuditFilter,
    OLD_ACTIONS as OLD_AUDIT_ACTIONS, action_names, current_action,
};
pub use base::key::{self, KeyHash};
pub use caller::Caller;
pub use change::key::{GRACE_SECONDS_MAX, NewKey, Rotation};
pub use connector::{Connector, Signs};
use entries::Entries;
pub use error::{CatalogError, FieldError, NamedBy, ResourceKind};
pub use ingest_key::{IngestKey, KeyState};
pub use problems::PublishedProblem;
pub use quota::{Quota, QuotaState};
pub use rates::{Rate, RateId};
pub use reader::{POLLS_PER_SECOND, ReadKey, Reader};
use replica::{Commits, ReplicaFile, SharedLog};
use rows::Rows;
pub use rules::Rules;
use rusqlite::Connection;
pub use schema::{FILE, FORMAT, make_later, streams_of};
use settings::{Limits, Settings};
pub use setup::{FIRST_KEY, FirstStream, SetUp};
pub use signing::Signing;
use sink::DeclaredSinks;
pub use sink::{Pause, Sink, shadowed as shadowed_sink};
use sqlite::{FailStop, FileWriter};
pub use stream::Stream;
pub use volume::{OverVolume, Volume, VolumeLeft, VolumeLimits, VolumeState, day_of};

/// Streams by their names.
pub type Streams = BTreeMap<Arc<str>, Arc<Stream>>;

/// Bytes in the write-ahead log before it is copied back.
const CHECKPOINT_BYTES: u32 = 4 << 20;

/// Everything that exists.
#[derive(Debug)]
pub struct Catalog {
    /// Replaced as a whole by each change. So each lookup sees one state, and never half of a change.
    entries: RwLock<Arc<Entries>>,
    store: Mutex<Store>,
    /// Readers of the audit log open the file apart from the writer, so that they wait for no change.
    path: PathBuf,
    /// What keys may whose connector has no limits of its own.
    limits: Limits,
    /// Several nodes have the keys: what each stores is kept elsewhere. Each node would otherwise overwrite what
    /// another has counted.
    is_shared: bool,
    /// What stands before the path in every URL that tools are given.
    public_url: Option<Box<str>>,
}

struct Store {
    connection: FileWriter,
    commits: Commits,
    declared: Rows,
    declared_sinks: DeclaredSinks,
    made: Rows,
    /// Hears of other streams before anybody can use them. The first item of a key would otherwise find a stream that
    /// the pool does not know.
    follower: Option<Follower>,
}

/// Makes an empty file at `path`, with all tables that opening it makes. Otherwise its copy as the base of a log would
/// not fit the entries of nodes that have made the tables.
///
/// # Errors
/// SQLite's.
pub fn make(path: &Path) -> Result<(), CatalogError> {
    Ok(schema::open(path)?.execute_batch(uses::LATER_TABLES)?)
}

/// The same as [`Catalog::verify_audit`] for a file that nobody need use: of a data folder or a backup. It opens no
/// writer, so that a backup is verified without a change of its format.
///
/// # Errors
/// See [`AuditLogError`].
pub fn verify_audit_of(path: &Path, expected: Option<KeyHash>) -> Result<Verified, AuditLogError> {
    let connection = sqlite::open_reader(path, &Arc::default())?;
    let found = sqlite::format(&connection)?;
    if found != FORMAT {
        let known = FORMAT;
        return Err(AuditLogError::Format { found, known });
    }
    Ok(chain_of(&connection, expected)?)
}

/// Reads the audit log in one read transaction: the oldest entries that are deleted meanwhile are not missing from it.
fn chain_of(reader: &Connection, expected: Option<KeyHash>) -> Result<Verified, rusqlite::Error> {
    let snapshot = reader.unchecked_transaction()?;
    let mut verifier = Verifier::new(expected);
    while verifier.read_on(&snapshot)? {}
    Ok(verifier.end())
}

type Follower = Box<dyn Fn(&Streams) + Send>;

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Catalog {
    /// Opens or makes `catalog.db` at `path`: what it holds, and what the configuration declares. The second
    /// part of the answer is what does not fit together, in sentences.
    ///
    /// # Errors
    /// The file cannot be opened, is not a catalog, or was written by a newer version.
    pub fn open(
        path: &Path,
        settings: &Settings,
        fail_stop: &FailStop,
    ) -> Result<(Self, Vec<String>), CatalogError> {
        Self::over(path, settings, fail_stop, None)
    }

    fn over(
        path: &Path,
        settings: &Settings,
        fail_stop: &FailStop,
        log: Option<&SharedLog>,
    ) -> Result<(Self, Vec<String>), CatalogError> {
        let connection = schema::open(path)?;
        let made = schema::load(&connection)?;
        let declared = Rows::declared(settings);
        let limits = settings.limits.clone();
        let (rows, mut warnings) = Rows::joined(&declared, &made);
        let declared_sinks = DeclaredSinks::of(settings);
        let (sinks, mut others) = declared_sinks.joined(&made.sinks);
        warnings.append(&mut others);
        let entries = Entries::build(rows, sinks, &limits, &Entries::default());
        let gone = uses::load(&connection, &entries, log.is_some())?;
        let commits = match log {
            Some(log) => Commits::to(log, &connection, ReplicaFile::Catalog)?,
            None => {
                uses::forget(&connection, &gone)?;
                Commits::Alone
            }
        };
        let catalog = Self {
            entries: RwLock::new(Arc::new(entries)),
            store: Mutex::new(Store {
                connection: FileWriter::new(connection, path, CHECKPOINT_BYTES, fail_stop)?,
                commits,
                declared,
                declared_sinks,
                made,
                follower: None,
            }),
            path: path.to_owned(),
            limits,
            is_shared: log.is_some(),
            public_url: settings.server.public_url.as_deref().map(Into::into),
        };
        Ok((catalog, warnings))
    }

    /// From now on `follower` is told of the streams whenever they change, before any key can use them.
    pub fn follow_streams(&self, follower: impl Fn(&Streams) + Send + 'static) {
        let mut store = self.store();
        follower(&self.now().streams);
        store.follower = Some(Box::new(follower));
    }

    /// Takes the streams, connectors, keys and sinks of a changed configuration. Keys that are not in it, or may do something
    /// else than before, are revoked. What was made at run time stays, and so do the items of a stream that is not in it.
    /// Returns what does not fit together.
    pub fn renew(&self, settings: &Settings) -> Vec<String> {
        let mut store = self.store();
        store.declared.renew(Rows::declared(settings));
        store.declared_sinks = DeclaredSinks::of(settings);
        let (_, mut warnings) = Rows::joined(&store.declared, &store.made);
        warnings.extend(store.declared_sinks.joined(&store.made.sinks).1);
        self.publish(&store);
        warnings
    }

    /// A page of the audit log, newest first: at most `limit` of the entries that are wanted. Blocks, and waits for no change:
    /// in a cluster, one may wait for a database that does not answer.
    ///
    /// # Errors
    /// SQLite's.
    pub fn audit(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditEntry>, CatalogError> {
        let reader = sqlite::open_reader(&self.path, &Arc::default())?;
        Ok(audit::page(&reader, filter, limit)?)
    }

    /// Reads the whole audit log as it is now, and whether it is as it was written; `expected` is a digest that should be in
    /// it. Blocks, and waits for no change; changes are made meanwhile, and are not in the answer.
    ///
    /// # Errors
    /// SQLite's.
    pub fn verify_audit(&self, expected: Option<KeyHash>) -> Result<Verified, CatalogError> {
        let reader = sqlite::open_reader(&self.path, &Arc::default())?;
        Ok(chain_of(&reader, expected)?)
    }

    /// Writes into the audit log what somebody did to something that is not in the catalog. Blocks. It comes after the
    /// act, because both files cannot be one transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn note(&self, change: &AuditChange, actor: &Actor) -> Result<(), CatalogError> {
        self.write(|store| Ok(audit::write(&store.connection, actor, change)?))
    }

    /// Gives the room of the write-ahead log back to a disk that is nearly full. Blocks.
    pub fn give_back(&self) {
        let mut store = self.store();
        if let Err(error) = store.connection.give_back() {
            store.connection.classify(&error);
        }
    }

    /// Leaves the file with an empty write-ahead log. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn close(&self) -> Result<(), CatalogError> {
        self.keep_uses();
        self.keep_place()?;
        Ok(self.store().connection.close()?)
    }

    /// Makes what the store holds the truth for all that is asked from now on. The follower comes first, so that no key
    /// is found before its stream.
    fn publish(&self, store: &Store) -> Arc<Entries> {
        let (rows, _) = Rows::joined(&store.declared, &store.made);
        let (sinks, _) = store.declared_sinks.joined(&store.made.sinks);
        let before = self.now();
        let entries = Arc::new(Entries::build(rows, sinks, &self.limits, &before));
        if let Some(follower) = &store.follower
            && entries.streams != before.streams
        {
            follower(&entries.streams);
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&entries);
        before.give_way_to(&entries);
        entries
    }

    fn read<T>(&self, look: impl FnOnce(&Entries) -> T) -> T {
        look(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lock is held for a clone alone, so that long lists do not stop a change.
    fn now(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
