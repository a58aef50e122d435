//! What both listeners say while files are upgraded, or a node waits for others, which may take minutes: that the
//! process lives, and how far it is.
//!
//! **Invariant**: nothing but `/healthz` is answered with success, and both listeners are free again before the daemon
//! binds them for its own.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

use super::upgrade::{self, Upgrade};
use super::{ConnectionLimits, DaemonError, bind_both, routes};
use base::process;
use http::health::Progress;
use http::listen::{Bound, Places, Stopper};
use observe::metrics::Metrics;
use settings::{Engine, Networks, Settings};
use sqlite::beside;

/// How often the supervisor is notified that it has to wait, and for how long more. systemd ends a start that takes too
/// long, unless it is asked for more time.
const NOTIFIED_EVERY: Duration = Duration::from_secs(5);
const WAITS_FOR: Duration = Duration::from_secs(60);
/// How long an answer that is on its way has when the upgrade is done.
const GRACE: Duration = Duration::from_secs(1);

/// How far the upgrade is.
#[derive(Debug)]
struct State {
    data_dir: PathBuf,
    /// The place of the file that is upgraded, of how many, and what is done with it.
    at: Mutex<(usize, String, PathBuf)>,
    count: usize,
    started: Instant,
}

impl State {
    fn sentence(&self) -> String {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, what, path) = &*at;
        let size = |path: &Path| path.metadata().map_or(0, |found| found.len()) >> 20;
        format!(
            "upgrading {what} (file {place} of {}, {} MiB, {} MiB written, {} s); requests are accepted when it is done",
            self.count,
            size(path),
            size(&beside(path, "-wal")),
            self.started.elapsed().as_secs()
        )
    }
}

/// What is to be upgraded before anything else. The copies of a node are upgraded where the log says so.
///
/// # Errors
/// Those of [`upgrade::look`].
pub(super) fn look(data_dir: &Path, settings: &Settings) -> Result<Vec<Upgrade>, DaemonError> {
    match settings.storage.engine {
        Engine::File => upgrade::look(data_dir),
        Engine::Postgres => Ok(Vec::new()),
    }
}

/// Upgrades the files, if there is something to upgrade, while both listeners say so. What fails is reported by the
/// start, which tries it again.
///
/// # Errors
/// Those of [`upgrade::look`]; a listener cannot be bound.
pub(super) async fn run(data_dir: &Path, settings: &Settings) -> Result<(), DaemonError> {
    let upgrades = look(data_dir, settings)?;
    if upgrades.is_empty() {
        return Ok(());
    }
    let state = Arc::new(State {
        data_dir: data_dir.to_owned(),
        at: Mutex::default(),
        count: upgrades.len(),
        started: Instant::now(),
    });
    let shared = Arc::clone(&state);
    let upgrade = move || {
        repair::at_start(&shared.data_dir)?;
        upgrade::run(&shared.data_dir, &upgrades, |place, upgrade| {
            let path = shared.data_dir.join(upgrade.file());
            let mut at = shared.at.lock().unwrap_or_else(PoisonError::into_inner);
            *at = (place, upgrade.sentence(), path);
        })
    };
    // Begins when both listeners are bound.
    let working = async { tokio::task::spawn_blocking(upgrade).await };
    let progress: Progress = Arc::new(move || state.sentence());
    match serve_while(settings, &progress, working).await? {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the upgrade did not finish"),
        Err(error) => tracing::error!(%error, "the upgrade failed because of a defect"),
    }
    Ok(())
}

/// Says on both listeners, in the log and to the supervisor how far `working` is, until it is done. The listeners are
/// free then.
///
/// # Errors
/// A listener cannot be bound; what was done until then stays so.
pub(super) async fn serve_while<T>(
    settings: &Settings,
    progress: &Progress,
    working: impl Future<Output = T>,
) -> Result<T, DaemonError> {
    let tasks = TaskTracker::new();
    let stoppers = listen(settings, progress, &tasks).await?;
    tokio::pin!(working);
    let done = loop {
        tokio::select! {
            done = &mut working => break done,
            () = tokio::time::sleep(NOTIFIED_EVERY) => {}
        }
        let sentence = progress();
        tracing::info!("{sentence}");
        notify(&format!(
            "STATUS={sentence}\nEXTEND_TIMEOUT_USEC={}\n",
            WAITS_FOR.as_micros()
        ));
    };
    for stopper in &stoppers {
        stopper.stop(GRACE);
    }
    tasks.close();
    tasks.wait().await;
    Ok(done)
}

/// Serves both listeners.
async fn listen(
    settings: &Settings,
    progress: &Progress,
    tasks: &TaskTracker,
) -> Result<[Stopper; 2], DaemonError> {
    let (service, admin) = bind_both(settings).await?;
    let metrics = Arc::new(Metrics::new());
    let connections = ConnectionLimits::of(settings, process::open_files_max());
    let serve = |bound: Bound, max: usize| {
        let places = Places {
            max,
            of_address_max: max,
            exempt: Networks::default(),
        };
        let routes = routes::upgrading(progress);
        let (stopper, serving) = bound.serve(
            routes,
            &settings.server,
            places,
            (&metrics, |all| &all.listeners.service),
        );
        tasks.spawn(serving);
        stopper
    };
    Ok([
        serve(service, connections.service),
        serve(admin, connections.admin),
    ])
}

/// Notifies the supervisor that started this process, in the protocol of `sd_notify`, if it listens.
pub(super) fn notify(text: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = address.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&address),
    };
    let sent = address.and_then(|to| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &to));
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot notify the supervisor");
    }
}
