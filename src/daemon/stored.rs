//! The files of a data folder: opened, repaired, restored.
//!
//! **Invariant**: a file that turns out to be damaged when it is opened is made anew once, and no file is touched
//! without the lock of its folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::node::{Node, RunningNode};
use super::{DaemonError, files, retention, upgrade};
use backup::restore::{Restored, restore};
use catalog::Catalog;
use journal::{Journal, PostgresOptions};
use observe::metrics::Metrics;
use pool::{Pool, PoolError};
use repair::Verdict;
use settings::{Engine, Settings};
use sqlite::FailStop;

/// The three files.
pub(super) struct Stored {
    pub(super) catalog: Arc<Catalog>,
    pub(super) pool: Arc<Pool>,
    pub(super) journal: Arc<Journal>,
    pub(super) fail_stop: FailStop,
    /// Where the files are copies, and the journal is in a database.
    pub(super) node: Option<RunningNode>,
}

impl Stored {
    /// Opens them: those of a daemon alone, or the copies of a node.
    pub(super) async fn open(
        data_dir: &Path,
        settings: &Settings,
        metrics: &Arc<Metrics>,
        node: Option<Node>,
    ) -> Result<Self, DaemonError> {
        match node {
            None => Self::open_files(data_dir, settings, metrics).await,
            Some(node) => Self::open_copies(data_dir, settings, metrics, node).await,
        }
    }

    /// Opens the copies of a node, which have everything that its cluster has. The journal is opened last, because its
    /// lowest number comes from the pool.
    async fn open_copies(
        data_dir: &Path,
        settings: &Settings,
        metrics: &Arc<Metrics>,
        node: Node,
    ) -> Result<Self, DaemonError> {
        let fail_stop = FailStop::default();
        let path = data_dir.join(catalog::FILE);
        let opened = Catalog::open_logged(&path, settings, &fail_stop, &node.log)?;
        let catalog = with_warnings(opened);
        let path = data_dir.join(pool::FILE);
        let pool = Pool::open_logged(&path, &fail_stop, &node.log).await?;
        let node = node.run(&catalog, &pool, metrics).await?;
        let options = PostgresOptions {
            database: node.database().clone(),
            node: node.id(),
            log: Some(node.log().clone()),
            commit_wait: Duration::from_secs(settings.cluster.commit_wait_seconds),
            pending_bytes_max: settings.limits.max_pending_bytes,
            seq_floor: pool.highest_seq()?,
            log_retention: retention(settings),
            log_retention_bytes: settings.storage.log_retention_bytes,
        };
        let journal = Journal::open_postgres(options, Arc::clone(metrics)).await?;
        Ok(Self {
            catalog,
            pool,
            journal,
            fail_stop,
            node: Some(node),
        })
    }

    /// Opens the files of a daemon alone, after those that are damaged were repaired. Each file is rebuilt once at
    /// most. Otherwise a file that stays damaged would never let the start end.
    pub(super) async fn open_files(
        data_dir: &Path,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, DaemonError> {
        repair::at_start(data_dir)?;
        // Each may turn out to be damaged when it is opened.
        let mut repaired = Vec::new();
        loop {
            let error = match Self::open_once(data_dir, settings, metrics).await {
                Ok(stored) => return Ok(stored),
                Err(error) => error,
            };
            let Some(file) = error.damaged_file().filter(|file| !repaired.contains(file)) else {
                return Err(error);
            };
            repaired.push(file);
            if !repair::rebuild(data_dir, file, &error.to_string())? {
                return Err(error);
            }
        }
    }

    async fn open_once(
        data_dir: &Path,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, DaemonError> {
        upgrade::run(data_dir, &upgrade::look(data_dir)?, |_, _| ())?;
        let fail_stop = FailStop::default();
        let path = data_dir.join(catalog::FILE);
        let catalog = with_warnings(Catalog::open(&path, settings, &fail_stop)?);
        let pool = Pool::open(&data_dir.join(pool::FILE), &fail_stop).await?;
        let journal = Journal::open(
            &data_dir.join(journal::FILE),
            journal_options(settings, &pool)?,
            Arc::clone(metrics),
            &fail_stop,
        )
        .await?;
        Ok(Self {
            catalog,
            pool,
            journal,
            fail_stop,
            node: None,
        })
    }
}

/// The node that the settings make of this daemon, if they do; its files can be opened then.
pub(super) async fn join(
    data_dir: &Path,
    settings: &Settings,
    metrics: &Arc<Metrics>,
) -> Result<Option<Node>, DaemonError> {
    match settings.storage.engine {
        Engine::File => Ok(None),
        Engine::Postgres => Ok(Some(Node::join(data_dir, settings, metrics).await?)),
    }
}

/// What does not fit together is told.
fn with_warnings((catalog, warnings): (Catalog, Vec<String>)) -> Arc<Catalog> {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Arc::new(catalog)
}

/// Repairs what is damaged of a data folder that no daemon uses, and says what it found. Without `yes` nothing is done.
///
/// # Errors
/// [`DaemonError::DataFolder`], [`DaemonError::Repair`].
pub fn repair_folder(
    data_dir: &Path,
    yes: bool,
) -> Result<Vec<(&'static str, Verdict)>, DaemonError> {
    let _lock = files::Lock::take(data_dir)?;
    if yes {
        repair::at_start(data_dir)?;
    }
    let mut found = Vec::new();
    for file in repair::files() {
        let verdict = repair::check(data_dir, file, true)?;
        if let (Verdict::Damaged(problem), true) = (&verdict, yes) {
            repair::rebuild(data_dir, file, problem)?;
        }
        found.push((file, verdict));
    }
    Ok(found)
}

/// Makes a data folder of a backup. `data_dir` must be missing or empty.
///
/// # Errors
/// [`DaemonError::DataFolder`], [`DaemonError::Restore`]; nothing that was written is left then.
pub fn restore_into(data_dir: &Path, backup: &Path) -> Result<Restored, DaemonError> {
    let claimed = files::Claimed::empty(data_dir)?;
    let restored = restore(backup, &claimed.path)?;
    claimed.keep();
    Ok(restored)
}

fn journal_options(settings: &Settings, pool: &Pool) -> Result<journal::Options, PoolError> {
    Ok(journal::Options {
        durability: settings.storage.durability,
        pending_bytes_max: settings.limits.max_pending_bytes,
        seq_floor: pool.highest_seq()?,
        log_retention: retention(settings),
        log_retention_bytes: settings.storage.log_retention_bytes,
    })
}
