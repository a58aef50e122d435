//! Operator actions and views, independent of HTTP and the command line.
//!
//! The admin API and the admin pages call it and only translate, so they show and do the same.
//!
//! **Invariant**: an act is in the audit log before its response, with its actor. Only that access was given may be
//! written after it, while the database of a cluster takes no entries.
#![deny(unsafe_code)]

pub mod access;
pub mod acts;
mod asks;
mod backups;
pub mod certificates;
mod cluster;
pub mod condition;
pub mod content;
mod dead_letters;
mod error;
mod expiry;
mod items;
pub mod limits;
mod login_throttle;
mod plugin_store;
mod plugins;
pub mod problem;
mod published;
mod publishing;
pub mod renderers;
pub mod requests;
mod resend;
mod retries;
pub mod screens;
pub mod search;
mod sinks;
mod status;
mod streams;
mod trial;
pub mod trigger;
mod unreadable;

use std::any::Any;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use backup::Backups;
use base::clock::Unix;
use base::opaque::Opaque;
use catalog::{
    Actor, AuditChange, AuditEntry, AuditFilter, Catalog, CatalogError, KeyHash, Verified,
};
use delivery::Delivery;
use ingest::{Gate, Ingest};
use journal::Journal;
use journal::log::Client;
use live::Live;
use observe::metrics::Metrics;
use pool::Pool;
use settings::{InUse, Storage};

use access::Access;
pub use asks::TakenAsk;
use certificates::Certificates;
pub use cluster::{ClaimError, can_take_sinks};
pub use dead_letters::LettersSent;
pub use error::OperateError;
pub use expiry::{ExpireError, ExpiredItems};
pub use items::{HistoryPage, RemoveError};
pub use login_throttle::LoginThrottle;
pub use plugin::store::StoreError as PluginStoreError;
pub use plugin::{host_of, is_called};
pub use plugin_store::{NewComponent, PluginChangeError};
pub use plugins::UsedPlugin;
pub use problem::ProblemKind;
pub use published::ProblemItem;
pub use publishing::Problems;
use requests::Requests;
pub use sinks::{SinkBacklog, SinkChanges};
pub use trial::{TRIAL_ITEMS_MAX, TrialRequest};

/// Maximum time that somebody who is given access waits for the audit log of a cluster. Operators need the pages while
/// the standby is away.
const RECORDED_WITHIN: Duration = Duration::from_secs(2);

/// Facts that do not change while the daemon runs.
#[derive(Debug)]
pub struct About {
    /// Name of the configuration profile.
    pub profile: String,
    /// The address of the service listener: `http://127.0.0.1:8080` or `unix:/…`.
    pub service_address: String,
    pub data_dir: String,
    /// Name of this node: of its own choice in a cluster, otherwise that of the host.
    pub node: String,
    /// `fsync` or `os`; in a cluster `standby` or `local`.
    pub durability: &'static str,
    /// When the daemon started, by the wall clock.
    pub started_at: Unix,
    /// When the daemon started, by the uptime clock. Durations are measured by it, because the wall clock can be set.
    pub started: Instant,
    pub storage: Storage,
    pub component_bytes_max: usize,
}

/// Acts for operators. What it is made of is not looked into by the compiler for each handler that has one.
#[derive(Debug, Clone)]
pub struct Operator(Opaque<OperatorParts>);

/// The parts of the daemon that operators see and change.
#[derive(Debug)]
pub struct OperatorParts {
    pub catalog: Arc<Catalog>,
    pub journal: Arc<Journal>,
    pub pool: Arc<Pool>,
    pub delivery: Arc<Delivery>,
    pub ingest: Arc<Ingest>,
    pub live: Arc<Live>,
    pub backups: Arc<Backups>,
    /// Whether requests are accepted now.
    pub gate: Arc<Gate>,
    /// The tokens and their roles.
    pub access: Arc<Access>,
    pub login_throttle: Arc<LoginThrottle>,
    pub metrics: Arc<Metrics>,
    pub requests: Requests,
    /// Facts that do not change while the daemon runs.
    pub about: Arc<About>,
    /// The configuration, and the result of the last reload.
    pub configuration: Arc<InUse>,
    pub certificates: Arc<Certificates>,
    /// Changes of sinks, which the daemon applies.
    pub sink_changes: Arc<SinkChanges>,
    pub published: Arc<Problems>,
    /// What this node knows of its cluster; `None`: it is not in one.
    pub cluster: Option<::cluster::Status>,
    /// The database of that cluster.
    pub database: Option<postgres::Database>,
    /// What operators ask on its nodes that do not run the sinks.
    pub asks: Option<postgres::Asks>,
    /// Locked while acts are copied into the audit log.
    pub act_audit: Arc<acts::ActAudit>,
}

/// The actor of a call, and its request.
#[derive(Debug, Clone)]
pub struct By {
    /// The credential: `admin token` or `admin page`, or `token NAME` or `page of token NAME`.
    pub who: Arc<str>,
    /// The address of the client.
    pub client: Client,
    pub request_id: Uuid,
}

impl By {
    /// The actor in the audit log.
    pub fn actor(&self) -> Actor {
        Actor {
            who: Arc::clone(&self.who),
            client: self.client.to_string(),
        }
    }
}

impl Deref for Operator {
    type Target = OperatorParts;

    fn deref(&self) -> &OperatorParts {
        &self.0
    }
}

impl From<OperatorParts> for Operator {
    fn from(parts: OperatorParts) -> Self {
        Self(Opaque::new(parts))
    }
}

impl Operator {
    /// Changes the catalog. A change that has begun is made or rejected as a whole, even if the client has
    /// disconnected; renderers whose keys ended are notified. It runs on a thread that a dropped call does not cancel.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then.
    pub async fn change<T: Send + 'static>(
        &self,
        by: By,
        work: impl FnOnce(&Catalog, &Actor) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let (catalog, live) = (Arc::clone(&self.catalog), Arc::clone(&self.live));
        let pool = Arc::clone(&self.pool);
        let changed = in_background(move || {
            let changed = work(&catalog, &by.actor());
            live.recheck_keys();
            if let Err(error) = pool.write_history() {
                tracing::warn!(%error, "what is set of the history of streams counts a little later");
            }
            changed
        });
        changed.await
    }

    /// Records in the audit log a change outside the catalog. The change is made: a failure of the audit log is only
    /// logged.
    pub async fn record(&self, by: By, change: AuditChange) {
        let catalog = Arc::clone(&self.catalog);
        in_background(move || {
            if let Err(error) = catalog.note(&change, &by.actor()) {
                tracing::error!(%error, ?change, "cannot write an action to the audit log");
            }
        })
        .await;
    }

    /// Records that somebody was given access. If the database of a cluster does not take the entry in time, it is
    /// written later, and the user does not wait.
    pub async fn record_access(&self, by: By, change: AuditChange) {
        let recording = self.record(by, change);
        match self.cluster {
            None => recording.await,
            Some(_) => drop(tokio::time::timeout(RECORDED_WITHIN, recording).await),
        }
    }

    /// A page of the audit log, newest first: at most `limit` matching entries, and whether there are more.
    pub async fn audit(
        &self,
        filter: AuditFilter,
        limit: u32,
    ) -> Result<(Vec<AuditEntry>, bool), CatalogError> {
        let catalog = Arc::clone(&self.catalog);
        // One more tells whether there is a next page.
        let mut entries = in_background(move || catalog.audit(&filter, limit + 1)).await?;
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        Ok((entries, more))
    }

    /// Whether the audit log is unchanged, and has the digest `expected`, if that is given.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn verify_audit(&self, expected: Option<KeyHash>) -> Result<Verified, CatalogError> {
        let catalog = Arc::clone(&self.catalog);
        in_background(move || catalog.verify_audit(expected)).await
    }
}

/// Runs a function that blocks. Boxed, so that the compiler does not look into what the function has for each handler
/// that waits; and without its type, so that a task of the runtime is compiled once and not for each function.
pub fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    let done = run(Box::new(|| Box::new(work())));
    Box::pin(async {
        match done.await.downcast() {
            Ok(done) => *done,
            Err(_) => unreachable!("it has the type of what `work` returns"),
        }
    })
}

type Done = Box<dyn Any + Send>;

async fn run(work: Box<dyn FnOnce() -> Done + Send>) -> Done {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Blocking work is cancelled only when the runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
