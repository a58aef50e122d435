//! The sinks while the daemon runs: a thread for each lane; started, changed and stopped as the configuration says.
//!
//! **Invariant**: a sink never has two lanes at once, and only a lane that has ended is forgotten.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::DaemonError;
use catalog::{Catalog, Sink};
use delivery::{Delivery, ForgetError, Hold, Lane, LaneState};
use operate::SinkChanges;

#[derive(Debug)]
pub(super) struct Sinks {
    delivery: Arc<Delivery>,
    catalog: Arc<Catalog>,
    stop: CancellationToken,
    /// Of several nodes only one runs them.
    run_here: AtomicBool,
    /// The threads by the names of their sinks. One change at a time holds it.
    threads: Mutex<HashMap<Arc<str>, JoinHandle<()>>>,
}

impl Sinks {
    /// A lane for each sink of the catalog, which all end with `stop`. What was to be deleted is gone before. None
    /// where they do not run here: [`set_run_here`](Self::set_run_here).
    pub(super) async fn start(
        delivery: &Arc<Delivery>,
        catalog: &Arc<Catalog>,
        stop: CancellationToken,
        run_here: bool,
    ) -> Result<Self, DaemonError> {
        let started = Self {
            delivery: Arc::clone(delivery),
            catalog: Arc::clone(catalog),
            stop,
            run_here: AtomicBool::new(run_here),
            threads: Mutex::default(),
        };
        if !run_here {
            return Ok(started);
        }
        started.delete_marked().await;
        let sinks = catalog.sinks();
        let mut threads = started.threads.lock().await;
        started.add(&mut threads, &sinks).await?;
        drop(threads);
        Ok(started)
    }

    /// Whether they run on this node.
    pub(super) fn run_here(&self) -> bool {
        self.run_here.load(Ordering::Acquire)
    }

    /// They do from now on, or do no longer; [`apply`](Self::apply) next.
    pub(super) fn set_run_here(&self, run_here: bool) {
        self.run_here.store(run_here, Ordering::Release);
    }

    /// Makes the running sinks those of the catalog whenever somebody asks for it, until everything stops.
    pub(super) async fn follow(self: Arc<Self>, changes: Arc<SinkChanges>) {
        let mut seen = 0;
        while let Some(asked) = self
            .stop
            .run_until_cancelled(changes.asked_after(seen))
            .await
        {
            seen = asked;
            self.apply().await;
            changes.set_done(seen);
        }
        // Nobody waits for what is not done any more.
        changes.set_done(u64::MAX);
    }

    /// Lets go of what is kept for sinks that somebody deleted. What cannot be written is done by the next start. The
    /// mark in the catalog goes last, so that a kill in between leaves the rest to the next start.
    async fn delete_marked(&self) {
        for name in self.catalog.sinks_to_delete() {
            let (delivery, catalog) = (Arc::clone(&self.delivery), Arc::clone(&self.catalog));
            let sink = name.clone();
            let deleting = move || {
                let done = match delivery.forget(&sink) {
                    // The configuration has one of this name by now, which goes on with what is kept.
                    Ok(_) | Err(ForgetError::Configured) => Ok(()),
                    Err(error) => Err(error.to_string()),
                };
                done.and_then(|()| {
                    catalog
                        .forget_sink(&sink)
                        .map_err(|error| error.to_string())
                })
            };
            match tokio::task::spawn_blocking(deleting).await {
                Ok(Ok(())) => tracing::info!(sink = &*name, "sink deleted"),
                Ok(Err(error)) => {
                    tracing::error!(
                        sink = &*name,
                        error,
                        "sink not deleted yet; the next start continues"
                    )
                }
                Err(error) => tracing::error!(sink = &*name, %error, "cannot delete the sink yet"),
            }
        }
    }

    /// Makes the running sinks those of the catalog, which has those of the configuration, and takes changed files.
    /// What cannot be used is told, and leaves its sink as it is.
    pub(super) async fn apply(&self) {
        let mut threads = self.threads.lock().await;
        if self.stop.is_cancelled() {
            return;
        }
        let run_here = self.run_here();
        let sinks = match run_here {
            true => self.catalog.sinks(),
            false => Vec::new(),
        };
        for lane in self.delivery.lanes() {
            let crashed = lane.state() == LaneState::Crashed;
            let wanted = sinks.iter().any(|sink| *sink.name() == **lane.name());
            if wanted && !crashed {
                continue;
            }
            lane.stop();
            if let Some(thread) = threads.remove(lane.name()) {
                // It ends at the edge of a batch; a call has a deadline.
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
            self.delivery.remove(lane.name());
            if !wanted {
                let why = match run_here {
                    true => "it is no longer configured",
                    false => "this node no longer runs the sinks",
                };
                tracing::info!(sink = &**lane.name(), "the sink is stopped: {why}");
            }
        }
        if !run_here {
            return;
        }
        self.delete_marked().await;
        let mut missing = Vec::new();
        for sink in sinks {
            let Some(lane) = self.delivery.lane(sink.name()) else {
                missing.push(sink);
                continue;
            };
            // Before it may do anything with what is new.
            lane.hold(Hold::of(&sink));
            if let Err(reason) = self.delivery.change(&lane, &of_lane(&sink)).await {
                tracing::error!(
                    sink = sink.name(),
                    reason = %reason.escape_debug(),
                    "new sink settings or plugin failed; keeping the previous ones"
                );
            }
        }
        self.add_missing(&mut threads, missing).await;
    }

    /// What cannot be started is told.
    async fn add_missing(
        &self,
        threads: &mut HashMap<Arc<str>, JoinHandle<()>>,
        missing: Vec<Arc<Sink>>,
    ) {
        if missing.is_empty() {
            return;
        }
        // Together: all sinks of a data pool that is new begin with the first request.
        if self.add(threads, &missing).await.is_err() {
            for sink in &missing {
                let is_there = self.delivery.lane(sink.name()).is_some();
                if !is_there && let Err(error) = self.add(threads, &[Arc::clone(sink)]).await {
                    tracing::error!(sink = sink.name(), %error, "cannot start the new sink");
                }
            }
        }
        for sink in missing {
            if threads.contains_key(sink.name()) {
                tracing::info!(sink = sink.name(), "a new sink");
            }
        }
    }

    /// Makes their lanes, and a thread for each.
    async fn add(
        &self,
        threads: &mut HashMap<Arc<str>, JoinHandle<()>>,
        sinks: &[Arc<Sink>],
    ) -> Result<(), DaemonError> {
        let settings: Vec<settings::Sink> = sinks.iter().map(|sink| of_lane(sink)).collect();
        let lanes = self.delivery.add(&settings, &self.stop).await?;
        for (sink, lane) in sinks.iter().zip(lanes) {
            lane.status().hold(Hold::of(sink));
            spawn(threads, lane)?;
        }
        Ok(())
    }

    /// Waits until all lanes have ended, or until the time is over: then some are still in a call. A call of a plugin
    /// can take as long as its deadline.
    pub(super) async fn ended(&self, time_max: Duration) -> bool {
        let joined = async {
            let threads = std::mem::take(&mut *self.threads.lock().await);
            let join = || threads.into_values().for_each(|thread| drop(thread.join()));
            let _ = tokio::task::spawn_blocking(join).await;
        };
        tokio::time::timeout(time_max, joined).await.is_ok()
    }
}

/// The settings that a lane works with. They are always enabled, because its hold says whether it works.
fn of_lane(sink: &Sink) -> settings::Sink {
    settings::Sink {
        enabled: true,
        ..settings::Sink::clone(&sink.settings)
    }
}

/// How much more willing a thread that runs a plugin from a file is to wait for others, as the system counts it. One
/// that runs a built-in plugin is as good as any: requests would wait for what it writes.
const NICE: i32 = 5;

/// A panic of a lane ends this sink alone, and the status shows it as crashed.
fn spawn(threads: &mut HashMap<Arc<str>, JoinHandle<()>>, lane: Lane) -> Result<(), DaemonError> {
    let runtime = Handle::current();
    let status = lane.status();
    let name = Arc::clone(status.name());
    let is_nice = !settings::BUILT_IN_PLUGINS.contains(&&*status.sink().plugin);
    let thread = std::thread::Builder::new()
        .name(format!("sink-{name}"))
        .spawn(move || {
            if is_nice {
                let _ = rustix::process::setpriority_process(None, NICE);
            }
            let run = AssertUnwindSafe(|| runtime.block_on(lane.run()));
            if std::panic::catch_unwind(run).is_err() {
                status.crashed();
            }
        })
        .map_err(DaemonError::Thread)?;
    threads.insert(name, thread);
    Ok(())
}
