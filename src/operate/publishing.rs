//! Publishes problems: the problems of the status become items of a stream.
//!
//! The daemon runs [`Operator::publish_problems`] until it stops; API and command line call
//! [`Operator::problem_items`].
//!
//! **Invariant**: an entry is in `catalog.db` before it is in the journal. Its idempotency key there prevents a second
//! entry, wherever the daemon is killed.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::published::{ProblemItem, Published, items};
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
#[derive(Debug, Default)]
pub struct Problems {
    /// `None`: problems are not published.
    stream: Option<Arc<str>>,
    published: Mutex<Published>,
}

impl Problems {
    /// With this stream; `""`: none.
    pub fn of_stream(stream: &str) -> Self {
        Self {
            stream: Some(stream).filter(|name| !name.is_empty()).map(Into::into),
            published: Mutex::default(),
        }
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries with one id.
struct Batch {
    id: [u8; 16],
    told: Vec<PublishedProblem>,
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
        let mut batches = VecDeque::new();
        let mut is_restored = false;
        loop {
            if !is_restored {
                match self.restore_published().await {
                    Ok(telling) => {
                        batches = telling;
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
                && let Err(error) = self.publish(stream, &mut batches, now).await
            {
                tracing::warn!(%error, "cannot publish problems now");
            }
            tokio::time::sleep_until((clock::next_second() + EVERY).into()).await;
        }
    }

    /// Restores the published entries; returns those that were about to be published.
    async fn restore_published(&self) -> Result<VecDeque<Batch>, CatalogError> {
        let Some(stream) = self.published.stream.clone() else {
            return Ok(VecDeque::new());
        };
        let catalog = Arc::clone(&self.catalog);
        let rows = in_background(move || catalog.published_problems(&stream)).await?;
        self.published.published().restore(&rows, Lived::now());
        let mut batches: BTreeMap<[u8; 16], Vec<PublishedProblem>> = BTreeMap::new();
        for row in rows {
            if let Some(id) = row.telling {
                batches.entry(id).or_default().push(row);
            }
        }
        let batches = batches.into_iter();
        Ok(batches.map(|(id, told)| Batch { id, told }).collect())
    }

    /// Publishes pending and due entries.
    async fn publish(
        &self,
        stream: &Arc<str>,
        batches: &mut VecDeque<Batch>,
        now: (Lived, Unix),
    ) -> Result<(), PublishError> {
        let mut due = self.published.published().due(now);
        if !due.is_empty() {
            let id = Uuid::now_v7().into_bytes();
            for one in &mut due {
                one.telling = Some(id);
            }
            let (catalog, stream, told) = (Arc::clone(&self.catalog), stream.clone(), due.clone());
            in_background(move || catalog.publish_problems(&stream, &told)).await?;
            self.published.published().note(&due);
            batches.push_back(Batch { id, told: due });
        }
        if batches.is_empty() {
            return Ok(());
        }
        while let Some(batch) = batches.front() {
            self.journal.submit(submission(stream, batch)).await?;
            batches.pop_front();
        }
        let catalog = Arc::clone(&self.catalog);
        Ok(in_background(move || catalog.end_publishing()).await?)
    }
}

fn submission(stream: &Arc<str>, batch: &Batch) -> Submission {
    let items = written(&batch.told);
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

fn written(told: &[PublishedProblem]) -> Items {
    let mut items = ItemsWriter::new(usize::MAX, 0);
    for one in told {
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
