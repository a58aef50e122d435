//! PUTs of items by operators, and their undo: data first, then the act.
//!
//! The pool has stored an intent before the data is submitted. Who dies in between leaves it, and
//! [`Operator::finish_puts`] records the act, here after the next start or on any node of a cluster.
//!
//! **Invariant**: the data of an intent is stored once. An intent is deleted without an act only if its data was not
//! accepted, and nobody can submit it any more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::super::Operator;
use super::{ActError, Acting};
use ingest::OperatorData;
use ingest::error::AcceptError;
use journal::Outcome;
use pool::PoolError;
use pool::acts::{Acted, PutIntent, Repeatable};

/// How long the response to a PUT waits for the pool. The data is on disk by then, so a pool that is behind must not
/// delay the response.
const PUT_WITHIN: Duration = Duration::from_secs(1);
/// So old an intent is whose caller has died or given up, if its data is stored: nobody else records its act by then.
const STORED_AFTER: Duration = Duration::from_secs(10);
/// The same if its data is not stored: that is the longest that a request may be on its way, for example while it waits
/// for a standby. Until then a repeat with its `Idempotency-Key` goes on with it.
const NOT_STORED_AFTER: Duration = Duration::from_mins(10);
/// Intents per round.
const INTENTS: u32 = 1_000;

/// Since when this process knows of intents, by their ids.
#[derive(Debug, Default)]
pub(super) struct PutsSeen(Mutex<HashMap<Uuid, Instant>>);

impl PutsSeen {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A caller of this process is about to store it. Without this, another call would take the intent for one from
    /// before the start, and would finish it at once.
    pub(super) fn begin(&self, id: Uuid) {
        self.lock().insert(id, Instant::now());
    }

    /// How long it has been known. What no caller of this process has begun is another node's, where there are others;
    /// else it is from before the start, and nobody is at work on it.
    fn age(&self, id: Uuid, has_others: bool) -> Duration {
        let mut seen = self.lock();
        match seen.get(&id) {
            Some(since) => since.elapsed(),
            None if has_others => {
                seen.insert(id, Instant::now());
                Duration::ZERO
            }
            None => Duration::MAX,
        }
    }

    /// Nobody can tell whether its data is stored: it may be on its way for longer.
    fn begin_again(&self, id: Uuid) {
        if let Some(since) = self.lock().get_mut(&id) {
            *since = Instant::now();
        }
    }

    /// These are all that there are; what began just now may come yet. Others are removed, because each PUT adds an
    /// entry.
    fn keep_only(&self, there: &[PutIntent]) {
        let there: HashSet<Uuid> = there.iter().map(PutIntent::request_id).collect();
        let mut seen = self.lock();
        seen.retain(|id, since| there.contains(id) || since.elapsed() < NOT_STORED_AFTER);
    }
}

impl Operator {
    /// Submits the data of a PUT or of its undo, waits briefly for the pool, and has the act recorded. The call may
    /// be a repeat of the one that began. It continues that one instead of storing the data once more. The listener is
    /// registered before the data is submitted, so that no change is missed.
    pub(super) async fn submit_put(
        &self,
        intent: PutIntent,
        again: Option<Repeatable>,
        acting: &Acting,
    ) -> Result<Acted, ActError> {
        let by = &acting.by;
        if let Err(error) = self.gate.check() {
            if intent.request_id() == by.request_id {
                // Nothing was submitted. If that cannot be written, it is found out later.
                let _ = self.in_pool(move |pool| pool.not_submitted(&intent)).await;
            }
            return Err(error.into());
        }
        let listener = (self.pool.changes()).listen(&[Arc::clone(&intent.stream)], None);
        let settings = self.catalog.stream(&intent.stream);
        let expires = settings.and_then(|stream| stream.settings.expire_after_seconds);
        let expires = expires.and_then(std::num::NonZeroU32::new);
        let act = OperatorData {
            id: intent.request_id(),
            stream: &intent.stream,
            key: &intent.key,
            fields: intent.fields.as_deref(),
        };
        let stored = (self.ingest).put_for_operator(act, by.request_id, by.client, expires);
        let data = match stored.await {
            Ok(accepted) => accepted.receipt.request_id,
            // It may be stored.
            Err(error @ AcceptError::Unavailable { .. }) => return Err(error.into()),
            Err(error) => {
                let forgotten = self.in_pool(move |pool| pool.not_submitted(&intent));
                forgotten.await?;
                return Err(error.into());
            }
        };
        self.wait_for(listener, &intent, data).await?;
        let recorded = move |pool: &pool::Pool| pool.submitted(&intent, data, again.as_ref());
        Ok(self.in_pool(recorded).await?)
    }

    /// Waits briefly until the row of an item is from this request, or is removed.
    async fn wait_for(
        &self,
        listener: pool::changes::Listener,
        intent: &PutIntent,
        data: Uuid,
    ) -> Result<(), ActError> {
        /// What is not told wakes nobody.
        const LOOK_AGAIN: Duration = Duration::from_millis(50);
        let (is_there, data) = (intent.fields.is_some(), data.to_string());
        let applied = async {
            loop {
                let (stream, key) = (Arc::clone(&intent.stream), intent.key.clone());
                let data = data.clone();
                let look = self.in_pool(move |pool| match is_there {
                    true => pool.has_applied(&stream, &key, &data),
                    false => Ok(pool.source_fields(&stream, &key)?.is_none()),
                });
                if look.await? {
                    return Ok(());
                }
                let _ = tokio::time::timeout(LOOK_AGAIN, listener.wakeup.woken()).await;
            }
        };
        // Who was answered too early sees it a little later.
        tokio::time::timeout(PUT_WITHIN, applied)
            .await
            .unwrap_or(Ok(()))
    }

    /// Records the acts of PUTs, and of their undos, whose data is stored and whose callers have died or given up, also
    /// on other nodes. Several nodes may do so at once: an act is recorded once. What nobody can tell yet waits.
    pub(super) async fn finish_puts(&self) {
        let intents = match self.in_pool(|pool| pool.put_intents(INTENTS)).await {
            Ok(intents) => intents,
            Err(error) => return tracing::warn!(%error, "cannot read PUTs that are under way"),
        };
        let seen = &self.act_audit.puts;
        seen.keep_only(&intents);
        for intent in intents {
            let id = intent.request_id();
            let age = seen.age(id, self.journal.is_shared());
            if age < STORED_AFTER {
                continue;
            }
            let is_stored = match self.is_stored(&intent).await {
                Ok(is_stored) => is_stored,
                Err(reason) => {
                    seen.begin_again(id);
                    tracing::debug!(
                        reason,
                        "cannot tell yet whether the item of a PUT is stored"
                    );
                    continue;
                }
            };
            let finished = match is_stored {
                true => self.finish_put(intent).await,
                false if age < NOT_STORED_AFTER => Ok(()),
                false => self.in_pool(move |pool| pool.not_submitted(&intent)).await,
            };
            match finished {
                Ok(()) => {}
                // It is done when the database answers, or the disk has room.
                Err(error) if error.passes() => {
                    return tracing::debug!(%error, "cannot record an act yet");
                }
                Err(error) => return tracing::error!(%error, "cannot record an act"),
            }
        }
    }

    async fn finish_put(&self, intent: PutIntent) -> Result<(), PoolError> {
        let (stream, key) = (Arc::clone(&intent.stream), intent.key.clone());
        self.in_pool(move |pool| pool.submitted(&intent, intent.request_id(), None))
            .await?;
        tracing::info!(%stream, key, "recorded an act whose caller had no response");
        Ok(())
    }

    /// Whether the data of an intent was accepted, or else why nobody can tell.
    async fn is_stored(&self, intent: &PutIntent) -> Result<bool, String> {
        let id = intent.request_id();
        let claimed = self.ingest.has_act(id, &intent.stream).await;
        if claimed.map_err(|error| error.to_string())? {
            return Ok(true);
        }
        // It was long ago, or the stream is another one by now.
        let logged = self.journal.log_get(id).await;
        let logged = logged.map_err(|error| error.to_string())?;
        Ok(logged
            .is_some_and(|row| matches!(row.entry.outcome, Outcome::Accepted | Outcome::Removed)))
    }
}
