//! Looks the files through after a start and once a day, so that damage is found before anybody needs what it hides.
//!
//! **Invariant**: it takes only time that nobody else wants, reads nothing but what was committed, and ends when the
//! daemon does. A damaged file blows the fuse, as if a sink or a request had met the damage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use base::clock::Unix;
use observe::metrics::Metrics;
use sqlite::FailStop;

const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// The least that a thread can ask for.
const PRIORITY: i32 = 19;

pub(super) struct Scrub {
    pub(super) data_dir: PathBuf,
    pub(super) metrics: Arc<Metrics>,
    pub(super) fail_stop: FailStop,
}

impl Scrub {
    pub(super) async fn run(self, stop: CancellationToken) {
        let scrub = Arc::new(self);
        loop {
            Arc::clone(&scrub).look_once(&stop).await;
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Looks at every file on a thread of its own, whose priority is its own too. A blocking thread of the runtime
    /// would keep the priority for the work after it.
    async fn look_once(self: Arc<Self>, stop: &CancellationToken) {
        let stopped = Arc::new(AtomicBool::new(false));
        let (done, mut ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("scrub".to_owned());
        let spawned = thread.spawn({
            let stopped = Arc::clone(&stopped);
            move || {
                let _ = rustix::process::setpriority_process(None, PRIORITY);
                self.look(&stopped);
                drop(done);
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "daily file check did not start");
            return;
        }
        tokio::select! {
            _ = &mut ended => return,
            () = stop.cancelled() => stopped.store(true, Ordering::Relaxed),
        }
        let _ = ended.await;
    }

    fn look(&self, stopped: &Arc<AtomicBool>) {
        for file in repair::files().filter(|file| self.data_dir.join(file).exists()) {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            match repair::look_beside(&self.data_dir, file, stopped) {
                Ok(None) => {}
                Ok(Some(problem)) => {
                    return self.fail_stop.damaged(&self.data_dir.join(file), &problem);
                }
                Err(_) if stopped.load(Ordering::Relaxed) => return,
                Err(error) => {
                    tracing::warn!(file, %error, "cannot scan the file");
                }
            }
        }
        let now = Unix::now().seconds();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.metrics.files_checked_at.set(now);
    }
}
