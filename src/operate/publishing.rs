//! Publishes problems: the problems of the status become items of a stream.
//!
//! The daemon runs [`Operator::publish_problems`] until it stops; API and command line call
//! [`Operator::problem_items`].
//!
//! **Invariant**: an entry is in `catalog.db` before it is in the journal. Its idempotency key there prevents a second
//! entry, wherever the daemon is killed. Entries with one id are of one node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::published::{ProblemItem, Published, ending, items, node_of};
use super::{Operator, in_background};
use base::clock::{self, Lived, Unix};
use catalog::{CatalogError, PublishedProblem};
use item::{Action, ItemMeta, Items, ItemsWriter};
use journal::log::Endpoint;
use journal::{Claim, JournalError, LogEntry, Outcome, Submission};
use settings::BUILT_IN_CONNECTORS;

/// Interval of checks, from the full second after the last one.
const EVERY: Duration = Duration::from_secs(4);
/// A resolved problem leaves the stream after this time.
const KEPT_SECONDS: NonZeroU32 = NonZeroU32::new(24 * 60 * 60).expect("a day");

/// The stream of problems, and its state.
#[derive(Debug)]
pub struct Problems {
    /// `None`: problems are not published.
    stream: Option<Arc<str>>,
    published: Mutex<Published>,
}

impl Problems {
    /// With this stream, `""` for none; of this node of a cluster, `None` for a daemon alone.
    pub fn of_stream(stream: &str, node: Option<&str>) -> Self {
        Self {
            stream: Some(stream).filter(|name| !name.is_empty()).map(Into::into),
            published: Mutex::new(Published::new(node)),
        }
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

struct Batch {
    id: [u8; 16],
    entries: Vec<PublishedProblem>,
}

#[derive(Default)]
struct Publishing {
    /// What is not in the journal yet.
    batches: VecDeque<Batch>,
    /// What is, and is not marked as published.
    unmarked: Vec<[u8; 16]>,
}

/// Why nothing is published now. The next check tries again.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Operator {
    /// The current problems as items of the stream, by their keys.
    pub async fn problem_items(&self) -> BTreeMap<String, ProblemItem> {
        let condition = self.condition().await;
        let mut found = items(&self.problems(&condition), self.node(), Unix::now());
        self.published.published().dated(&mut found);
        found
    }

    /// Compares the current problems with the published ones, and publishes the differences; does not end.
    pub async fn publish_problems(&self) {
        let mut publishing = Publishing::default();
        let mut is_restored = false;
        loop {
            if !is_restored {
                match self.restore_published().await {
                    Ok(batches) => {
                        publishing.batches = batches;
                        is_restored = true;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the stream of problems, retrying");
                    }
                }
            }
            let condition = self.condition().await;
            let now = (Lived::now(), Unix::now());
            let found = items(&self.problems(&condition), self.node(), now.1);
            self.published.published().compare(found, now);
            if is_restored
                && self.gate.check().is_ok()
                && let Some(stream) = &self.published.stream
                && let Err(error) = self.publish(stream, &mut publishing, now).await
            {
                tracing::warn!(%error, "cannot publish problems now");
            }
            tokio::time::sleep_until((clock::next_second() + EVERY).into()).await;
        }
    }

    /// Restores the published entries; returns those that were about to be published. Only entries of this node are,
    /// because a part of a batch under its id would make the rest a duplicate.
    async fn restore_published(&self) -> Result<VecDeque<Batch>, CatalogError> {
        let Some(stream) = self.published.stream.clone() else {
            return Ok(VecDeque::new());
        };
        let (catalog, ending) = (Arc::clone(&self.catalog), ending(self.node()));
        let rows = in_background(move || catalog.published_problems(&stream, &ending)).await?;
        let mut published = self.published.published();
        published.restore(&rows, Lived::now());
        let mut batches: BTreeMap<[u8; 16], Vec<PublishedProblem>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| published.is_own(&row.key)) {
            if let Some(id) = row.publishing {
                batches.entry(id).or_default().push(row);
            }
        }
        let batches = batches.into_iter();
        Ok(batches.map(|(id, entries)| Batch { id, entries }).collect())
    }

    /// Publishes pending and due entries. A batch stays pending until the journal has it. A repeat after an error has
    /// the same id, so it is a duplicate there.
    async fn publish(
        &self,
        stream: &Arc<str>,
        publishing: &mut Publishing,
        now: (Lived, Unix),
    ) -> Result<(), PublishError> {
        self.see_other_nodes(stream, now).await?;
        let due = self.published.published().due(now);
        if !due.is_empty() {
            let batches = by_node(due);
            let entries: Vec<_> = batches
                .iter()
                .flat_map(|one| &one.entries)
                .cloned()
                .collect();
            let (catalog, stream, writes) =
                (Arc::clone(&self.catalog), stream.clone(), entries.clone());
            in_background(move || catalog.publish_problems(&stream, &writes)).await?;
            self.published.published().note(&entries);
            publishing.batches.extend(batches);
        }
        while let Some(batch) = publishing.batches.front() {
            self.journal.submit(submission(stream, batch)).await?;
            publishing.unmarked.push(batch.id);
            publishing.batches.pop_front();
        }
        if !publishing.unmarked.is_empty() {
            let (catalog, ids) = (Arc::clone(&self.catalog), publishing.unmarked.clone());
            in_background(move || catalog.end_publishing(&ids)).await?;
            publishing.unmarked.clear();
        }
        Ok(())
    }

    /// In a cluster, compares with what the other nodes have published: the node that runs the sinks speaks for those
    /// that are gone. Otherwise the problems of a node that was removed would stay open.
    async fn see_other_nodes(
        &self,
        stream: &Arc<str>,
        now: (Lived, Unix),
    ) -> Result<(), CatalogError> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let (catalog, stream) = (Arc::clone(&self.catalog), stream.clone());
        let entries = in_background(move || catalog.problem_entries(&stream)).await?;
        let nodes = cluster.read().nodes;
        let runs_sinks = nodes.iter().any(|node| node.is_this && node.runs_sinks);
        let live: BTreeSet<String> = (nodes.into_iter())
            .filter(|node| node.is_live)
            .map(|node| node.name)
            .collect();
        let live = runs_sinks.then_some(&live);
        self.published.published().share(&entries, live, now);
        Ok(())
    }
}

/// Entries that are due, with an id for those of each node.
fn by_node(due: Vec<PublishedProblem>) -> Vec<Batch> {
    let mut nodes: BTreeMap<Option<String>, Vec<PublishedProblem>> = BTreeMap::new();
    for one in due {
        let node = node_of(&one.key).map(str::to_owned);
        nodes.entry(node).or_default().push(one);
    }
    let batch = |entries: Vec<PublishedProblem>| {
        let id = Uuid::now_v7().into_bytes();
        let with_id = |one: PublishedProblem| PublishedProblem {
            publishing: Some(id),
            ..one
        };
        Batch {
            id,
            entries: entries.into_iter().map(with_id).collect(),
        }
    };
    nodes.into_values().map(batch).collect()
}

/// The text in the digest must not change, because a batch that was pending before an upgrade is known by it.
fn submission(stream: &Arc<str>, batch: &Batch) -> Submission {
    let items = written(&batch.entries);
    let log = LogEntry {
        endpoint: Endpoint::Problems,
        items: u32::try_from(items.len()).unwrap_or(u32::MAX),
        ..LogEntry::of(
            Uuid::now_v7(),
            Unix::now(),
            BUILT_IN_CONNECTORS[0].into(),
            Arc::clone(stream),
            Outcome::Accepted,
        )
    };
    let digest: [u8; 32] = Sha256::digest([&b"told"[..], &batch.id].concat()).into();
    let mut scope = [0; 16];
    scope.copy_from_slice(&digest[..16]);
    Submission {
        log,
        arrived: Lived::now(),
        items,
        claim: Some(Claim {
            scope,
            payload: [0; 8],
        }),
        second: None,
        recheck: None,
    }
}

fn written(entries: &[PublishedProblem]) -> Items {
    let mut items = ItemsWriter::new(usize::MAX, 0);
    for one in entries {
        let meta = ItemMeta {
            expire_after_seconds: (!one.is_open).then_some(KEPT_SECONDS),
            is_whole: true,
            ..ItemMeta::default()
        };
        items
            .push_with(&one.key, &one.fields, Action::Upsert, meta)
            .expect("a few sentences are far smaller than what lengths of 32 bits can say");
    }
    items.into_items()
}
