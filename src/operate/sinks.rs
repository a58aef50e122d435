//! The sinks: creating, changing, pausing and deleting one.
//!
//! A change is in the catalog first; the daemon then applies the catalog to the running sinks, as after a reload.
//!
//! **Invariant**: undelivered data of a sink is kept until an operator discards it here. A change in the catalog is
//! carried out even if the client has disconnected.

mod changes;
mod checked;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::asks::Task;
use super::{By, OperateError, Operator, in_background};
use catalog::{Actor, AuditChange, Catalog, CatalogError, ResourceKind, Sink};
pub use changes::SinkChanges;
pub(super) use checked::patched;
use delivery::{LaneState, LaneStatus, Refilled};
use pool::Undelivered;
use settings::{Section, Start};

/// Data that was kept for a deleted sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkBacklog {
    /// Requests, at most.
    pub lag: u64,
    pub retries: u64,
    pub dead_letters: u64,
}

impl Operator {
    /// The lane of a configured sink.
    ///
    /// # Errors
    /// [`OperateError::NoSink`]; [`OperateError::Elsewhere`].
    pub fn lane(&self, sink: &str) -> Result<Arc<LaneStatus>, OperateError> {
        self.delivery.lane(sink).ok_or_else(|| self.no_lane(sink))
    }

    /// Whether a sink exists or has data, configured or not.
    ///
    /// # Errors
    /// [`OperateError::NoSink`], or the pool cannot be read.
    pub async fn require_sink(&self, sink: &str) -> Result<(), OperateError> {
        if self.delivery.lane(sink).is_some() || self.is_elsewhere(sink) {
            return Ok(());
        }
        let known = self.pool.known_sinks().await?;
        match known.iter().any(|known| known.name == sink) {
            true => Ok(()),
            false => Err(OperateError::NoSink),
        }
    }

    /// Deletes the data of a sink that is not configured; returns what it was.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn forget_sink(&self, sink: &str, by: By) -> Result<Undelivered, OperateError> {
        if self.is_elsewhere(sink) {
            return Err(OperateError::Configured);
        }
        let (delivery, name) = (Arc::clone(&self.delivery), sink.to_owned());
        let catalog = Arc::clone(&self.catalog);
        let forgotten = in_background(move || {
            let forgotten = delivery.forget(&name)?;
            // That somebody paused it, or a section that no version can read.
            catalog.forget_sink(&name).map_err(OperateError::Catalog)?;
            Ok::<_, OperateError>(forgotten)
        });
        let forgotten = forgotten.await?;
        let forgotten = forgotten.ok_or(OperateError::NoSink)?;
        let done = json!({ "retries": forgotten.retries, "dead_letters": forgotten.dead_letters });
        self.record(
            by,
            AuditChange::done("forget", ResourceKind::Sink, sink, done),
        )
        .await;
        Ok(forgotten)
    }

    /// Creates a sink from the settings in a body. When this returns, its cursor is stored, and it receives every
    /// request that is accepted from then on. Its plugin is started before anything is stored, so that a sink which
    /// cannot start is an error of the call.
    ///
    /// # Errors
    /// See [`OperateError`]; nothing was changed then.
    pub async fn create_sink(
        &self,
        body: Map<String, Value>,
        by: By,
    ) -> Result<Arc<Sink>, OperateError> {
        let _one = self.sink_changes.one_change().await;
        let section = Section::of_new(body).map_err(OperateError::Invalid)?;
        if let Some(name) = section.get("name").and_then(Value::as_str) {
            self.require_free(name)?;
        }
        let sink = self.usable(&section).await?;
        if sink.start == Start::State || sink.is_latest() {
            self.require_state(&sink)?;
        }
        let name = sink.name.clone();
        let created = name.clone();
        self.change_sinks(by, move |catalog, actor| {
            catalog.create_sink(&created, section, actor)
        })
        .await?;
        if self.is_elsewhere(&name) {
            // The node that runs it makes its lane a moment later.
            let delivery = Arc::clone(&self.delivery);
            in_background(move || delivery.begin_elsewhere(&sink)).await?;
        }
        self.running(&name)
    }

    /// Changes a sink by a JSON merge patch of its settings. Its lane uses them at the end of the current batch.
    ///
    /// # Errors
    /// See [`OperateError`]; nothing was changed then.
    pub async fn change_sink(
        &self,
        name: &str,
        patch: Map<String, Value>,
        by: By,
    ) -> Result<Arc<Sink>, OperateError> {
        let _one = self.sink_changes.one_change().await;
        let before = self.made_sink(name)?;
        let section = patched(&before, patch)?;
        let sink = self.usable(&section).await?;
        if sink.start == Start::State || sink.is_latest() {
            self.require_state(&sink)?;
        }
        let changed = name.to_owned();
        self.change_sinks(by, move |catalog, actor| {
            catalog.change_sink(&changed, section, actor)
        })
        .await?;
        self.running(name)
    }

    /// Pauses or resumes a sink.
    ///
    /// # Errors
    /// See [`OperateError`]; nothing was changed then.
    pub async fn pause_sink(
        &self,
        name: &str,
        paused: bool,
        by: By,
    ) -> Result<Arc<Sink>, OperateError> {
        let _one = self.sink_changes.one_change().await;
        self.catalog.sink(name).ok_or(OperateError::NoSink)?;
        let changed = name.to_owned();
        self.change_sinks(by, move |catalog, actor| {
            catalog.pause_sink(&changed, paused, actor)
        })
        .await?;
        self.running(name)
    }

    /// Refills a sink from the data pool; then it receives the requests that were accepted after that.
    ///
    /// # Errors
    /// See [`OperateError`]; nothing was changed then.
    pub async fn refill_sink(&self, name: &str, by: By) -> Result<Refilled, OperateError> {
        if self.is_elsewhere(name) {
            let refilled = self.ask(name, Task::Refill, &by).await;
            return refilled.map(|(number, items)| Refilled { number, items });
        }
        let _one = self.sink_changes.one_change().await;
        let lane = self.lane(name)?;
        if lane.state() == LaneState::Crashed {
            return Err(OperateError::Crashed);
        }
        let (sink, writes_pool) = lane.reach();
        if writes_pool != Some(false) {
            return Err(OperateError::NothingToFill);
        }
        self.require_state(&sink)?;
        let refilled = self.delivery.refill(&lane).await?;
        let done = json!({ "fill": refilled.number, "items": refilled.items });
        self.record(
            by,
            AuditChange::done("refill", ResourceKind::Sink, name, done),
        )
        .await;
        Ok(refilled)
    }

    /// Deletes a sink that was created at run time, or the data of one that is no longer configured; returns its
    /// backlog. Without `discard`, a sink that was created at run time must have no undelivered data. A sink is marked
    /// before its data is deleted, so that the next start continues after a kill.
    ///
    /// # Errors
    /// See [`OperateError`]; nothing was changed then.
    pub async fn delete_sink(
        &self,
        name: &str,
        discard: bool,
        by: By,
    ) -> Result<SinkBacklog, OperateError> {
        let _one = self.sink_changes.one_change().await;
        let Some(sink) = self.catalog.sink(name) else {
            let Undelivered {
                retries,
                dead_letters,
            } = self.forget_sink(name, by).await?;
            return Ok(SinkBacklog {
                lag: 0,
                retries,
                dead_letters,
            });
        };
        if sink.shadows {
            // The declared one goes on with what is kept for the name.
            let gone = name.to_owned();
            self.change_sinks(by, move |catalog, actor| {
                catalog.mark_sink(&gone, json!({}), actor)
            })
            .await?;
            self.deleted_elsewhere(name).await;
            return Ok(SinkBacklog::default());
        }
        if sink.is_declared() {
            return Err(OperateError::Catalog(CatalogError::Declared(
                ResourceKind::Sink,
            )));
        }
        let waiting = self.waiting_for(name).await?;
        if waiting != SinkBacklog::default() && !discard {
            return Err(OperateError::NotEmpty(waiting));
        }
        let gone = json!({
            "lag": waiting.lag, "retries": waiting.retries, "dead_letters": waiting.dead_letters,
        });
        let deleted = name.to_owned();
        self.change_sinks(by, move |catalog, actor| {
            catalog.mark_sink(&deleted, gone, actor)
        })
        .await?;
        self.deleted_elsewhere(name).await;
        Ok(waiting)
    }

    /// The undelivered data of a sink, including that in the journal.
    async fn waiting_for(&self, name: &str) -> Result<SinkBacklog, OperateError> {
        // In this order: what the cursor has passed is then seen among retries and dead letters.
        self.see_elsewhere().await?;
        let lane = self.delivery.shown_of(name);
        let lane = lane.ok_or_else(|| self.no_lane(name))?;
        // What follows the data pool finds there what it has not.
        if lane.sink().is_latest() {
            return Ok(SinkBacklog::default());
        }
        let unread = self.journal.lag(lane.cursor());
        let left = self.delivery.filling(name, Some(&lane.sink())).await?;
        let lag = unread + left.map_or(0, |(_, left)| left.rows + left.waiting);
        let undelivered = self.pool.undelivered(name).await?;
        Ok(SinkBacklog {
            lag,
            retries: undelivered.retries,
            dead_letters: undelivered.dead_letters,
        })
    }

    /// Changes sinks of the catalog, and waits until the changes are applied, even if the client has disconnected. The
    /// daemon is asked on the thread that writes, so that no written change stays unapplied.
    async fn change_sinks(
        &self,
        by: By,
        work: impl FnOnce(&Catalog, &Actor) -> Result<(), CatalogError> + Send + 'static,
    ) -> Result<(), OperateError> {
        let (catalog, changes) = (Arc::clone(&self.catalog), Arc::clone(&self.sink_changes));
        let changed = in_background(move || {
            work(&catalog, &by.actor())?;
            Ok(changes.ask())
        });
        let asked = changed.await.map_err(OperateError::Catalog)?;
        self.sink_changes.wait_for(asked).await;
        Ok(())
    }

    /// A sink and its lane.
    fn running(&self, name: &str) -> Result<Arc<Sink>, OperateError> {
        let sink = self.catalog.sink(name).ok_or(OperateError::NoSink)?;
        match self.delivery.lane(name) {
            Some(_) => Ok(sink),
            None if self.is_elsewhere(name) && !self.runs_sinks() => Ok(sink),
            None => Err(OperateError::NotStarted),
        }
    }

    /// A sink that was created at run time.
    fn made_sink(&self, name: &str) -> Result<Arc<Section>, OperateError> {
        let sink = self.catalog.sink(name).ok_or(OperateError::NoSink)?;
        let declared = || OperateError::Catalog(CatalogError::Declared(ResourceKind::Sink));
        sink.section.clone().ok_or_else(declared)
    }
}
