//! The sinks while the daemon runs: a thread for each lane; started, changed and stopped as the configuration says.
//!
//! **Invariant**: a sink never has two lanes at once, and only a lane that has ended is forgotten.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::DaemonError;
use delivery::{Delivery, Lane, LaneState};

#[derive(Debug)]
pub(super) struct Sinks {
    delivery: Arc<Delivery>,
    stop: CancellationToken,
    /// The threads by the names of their sinks. One change at a time holds it.
    threads: Mutex<HashMap<Arc<str>, JoinHandle<()>>>,
}

impl Sinks {
    /// A lane for each sink, which all end with `stop`.
    pub(super) async fn start(
        delivery: &Arc<Delivery>,
        sinks: &[settings::Sink],
        stop: CancellationToken,
    ) -> Result<Self, DaemonError> {
        let started = Self {
            delivery: Arc::clone(delivery),
            stop,
            threads: Mutex::default(),
        };
        let mut threads = started.threads.lock().await;
        for lane in delivery.add(sinks, &started.stop).await? {
            spawn(&mut threads, lane)?;
        }
        drop(threads);
        Ok(started)
    }

    /// Makes the running sinks those of a changed configuration, or of changed files. What cannot be used is told, and
    /// leaves its sink as it is.
    pub(super) async fn apply(&self, sinks: &[settings::Sink]) {
        let mut threads = self.threads.lock().await;
        if self.stop.is_cancelled() {
            return;
        }
        for lane in self.delivery.lanes() {
            let crashed = lane.state() == LaneState::Crashed;
            let wanted = sinks.iter().any(|sink| *sink.name == **lane.name());
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
                tracing::info!(
                    sink = &**lane.name(),
                    "the sink is stopped: the configuration does not name it any more"
                );
            }
        }
        for sink in sinks {
            let name = sink.name.as_str();
            match self.delivery.lane(name) {
                Some(lane) => match self.delivery.change(&lane, sink).await {
                    Ok(()) => {}
                    Err(reason) => tracing::error!(
                        sink = name,
                        reason = %reason.escape_debug(),
                        "what is new for the sink cannot be used; it goes on as before"
                    ),
                },
                None => {
                    let added = self.delivery.add(std::slice::from_ref(sink), &self.stop);
                    let added = added.await.map_err(DaemonError::from);
                    let spawned = added.and_then(|lanes| {
                        let mut lanes = lanes.into_iter();
                        lanes.try_for_each(|lane| spawn(&mut threads, lane))
                    });
                    match spawned {
                        Ok(()) => tracing::info!(sink = name, "a new sink"),
                        Err(error) => {
                            tracing::error!(sink = name, %error, "the new sink cannot be started")
                        }
                    }
                }
            }
        }
    }

    /// Waits until all lanes have ended, or until the time is over: then some are still in a call.
    pub(super) async fn ended(&self, time_max: Duration) -> bool {
        let joined = async {
            let threads = std::mem::take(&mut *self.threads.lock().await);
            let join = || threads.into_values().for_each(|thread| drop(thread.join()));
            let _ = tokio::task::spawn_blocking(join).await;
        };
        tokio::time::timeout(time_max, joined).await.is_ok()
    }
}

/// How much more willing a thread that runs a plugin from a file is to wait for others, as the system counts it. One that
/// runs a built-in plugin is as good as any: requests would wait for what it writes.
const NICE: i32 = 5;

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
