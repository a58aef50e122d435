//! How the copies of a node come to the head of the log, and the log to the format of this version.
//!
//! A node of a newer version may start beside older ones. As long as one of them lives that does not know its format, it
//! keeps its copies at the head as they are, and serves nobody: its code is for the newer tables. It is one of the nodes
//! meanwhile, with the format that it knows. When all that live know it, one of those that wait raises the log, and each
//! upgrades its own copies at that entry.
//!
//! **Invariant**: the format of the log is raised only when every node that lives knows it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::{DaemonError, upgrading};
use cluster::{Members, NodeStatus, Status};
use http::health::Progress;
use replica::log::{AppendError, Log};
use replica::{AtRestError, CHANGE_VERSION, CopiesAtRest, ReplicaFile};
use settings::Settings;

/// The newest format of the log that this version knows.
pub(in crate::daemon) const FORMAT: i32 = log_format(CHANGE_VERSION, pool::FORMAT, catalog::FORMAT);
/// A start that takes longer says so on both listeners.
const SHORT: Duration = Duration::from_secs(2);
/// From one look at the log and the other nodes to the next.
const EVERY: Duration = Duration::from_millis(500);

/// All that an entry is read by, as one number: it rises with each of them, and none of them ever falls.
const fn log_format(entries: u8, pool: i64, catalog: i64) -> i32 {
    assert!(pool < 1_000 && catalog < 1_000);
    entries as i32 * 1_000_000 + pool as i32 * 1_000 + catalog as i32
}

/// The files of a node or of a directory, in the order of [`ReplicaFile::ALL`], which nobody has open.
pub(in crate::daemon) fn copies_at_rest(files: [&Path; 2]) -> CopiesAtRest<'_> {
    CopiesAtRest {
        files,
        format: FORMAT,
        upgrade: |file, path| make(file, path).map_err(|error| error.to_string()),
    }
}

/// Makes a file, or brings one of an older format to the format of this version.
fn make(file: ReplicaFile, path: &Path) -> Result<(), DaemonError> {
    match file {
        ReplicaFile::Pool => pool::copy::make(path)?,
        ReplicaFile::Catalog => catalog::make(path)?,
    }
    Ok(())
}

/// A node that has not opened its copies yet.
pub(super) struct Arrival<'a> {
    pub(super) copies: CopiesAtRest<'a>,
    pub(super) log: Log,
    pub(super) members: &'a mut Members,
    pub(super) status: &'a Status,
}

/// How far it is.
enum ArrivalStep {
    /// The copies can be opened.
    Arrived,
    /// There is more to do at once.
    Again,
    /// Other nodes have to go first: a sentence.
    Waits(String),
}

impl Arrival<'_> {
    /// Returns when the copies have everything that the log had, in the format of this version. If that takes long, both
    /// listeners say what it waits for.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub(super) async fn run(mut self, settings: &Settings) -> Result<(), DaemonError> {
        let sentence = Arc::new(Mutex::new(
            "bringing the copies of this node to the state of the cluster; requests are accepted when they have it".to_owned(),
        ));
        let shown = Arc::clone(&sentence);
        let progress: Progress =
            Arc::new(move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
        {
            let mut arriving = std::pin::pin!(self.arrive(&sentence));
            match tokio::time::timeout(SHORT, &mut arriving).await {
                Ok(arrived) => arrived?,
                Err(_) => upgrading::serve_while(settings, &progress, arriving).await??,
            }
        }
        self.log.close().await;
        Ok(())
    }

    async fn arrive(&mut self, sentence: &Mutex<String>) -> Result<(), DaemonError> {
        loop {
            match self.step().await? {
                ArrivalStep::Arrived => return Ok(()),
                ArrivalStep::Again => {}
                ArrivalStep::Waits(why) => {
                    {
                        let mut said = sentence.lock().unwrap_or_else(PoisonError::into_inner);
                        if *said != why {
                            tracing::info!("{why}");
                            *said = why;
                        }
                    }
                    tokio::time::sleep(EVERY).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<ArrivalStep, DaemonError> {
        // Asked before the copies are brought there: what it says of the format, they have then.
        let format = self.log.head().await?.format;
        let Some(place) = self.copies.bring_to_head(&mut self.log).await? else {
            for (file, path) in ReplicaFile::ALL.into_iter().zip(self.copies.files) {
                make(file, path)?;
            }
            self.copies.begin_log(&mut self.log).await?;
            return Ok(ArrivalStep::Again);
        };
        if format == FORMAT {
            return Ok(ArrivalStep::Arrived);
        }
        if let Err(error) = self.members.announce().await {
            return Ok(ArrivalStep::Waits(format!(
                "{error}; this node continues when the database answers"
            )));
        }
        if let Some(why) = waits_for(&self.status.read().nodes) {
            return Ok(ArrivalStep::Waits(why));
        }
        match self.log.raise(place, FORMAT).await {
            Ok(place) => {
                tracing::info!(
                    entry = place.n,
                    "the copies of all nodes are upgraded to the format of this version"
                );
                Ok(ArrivalStep::Again)
            }
            // Another node has appended something, or has raised it.
            Err(AppendError::Behind | AppendError::Differs) => Ok(ArrivalStep::Again),
            Err(AppendError::Newer(newer)) => Err(AtRestError::Newer(newer).into()),
            Err(AppendError::Database(error)) => Err(error.into()),
            Err(error) => Err(DaemonError::Copy(error.to_string())),
        }
    }
}

/// Which nodes have to be upgraded or stopped before the log is raised, as a sentence; none: all that live know the format.
fn waits_for(nodes: &[NodeStatus]) -> Option<String> {
    let older = (nodes.iter())
        .filter(|node| node.is_live && !node.is_this && node.format < FORMAT)
        .map(NodeStatus::name_and_version);
    let older: Vec<String> = older.collect();
    (!older.is_empty()).then(|| {
        format!(
            "this node waits until these nodes are upgraded or stopped, because they cannot read what headgate {} writes: {}",
            env!("CARGO_PKG_VERSION"),
            older.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
