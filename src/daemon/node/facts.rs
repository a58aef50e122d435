//! What this node says of itself to the others, every second.
//!
//! **Invariant**: two nodes with the same declared configuration, the same components and the same admin tokens say the
//! same digests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use cluster::{Copy, Said};
use observe::metrics::Metrics;
use operate::access::Access;
use replica::SharedLog;
use settings::Settings;

/// Of a file that may be a component: its name, its size, and when it was changed.
type Seen = (String, u64, Option<SystemTime>);
type ShortDigest = [u8; 16];

/// What is known of this node; the log, the copies and the admin tokens are known later than the rest.
#[derive(Debug)]
pub(super) struct Facts {
    config: ShortDigest,
    plugins: Components,
    metrics: Arc<Metrics>,
    pub(super) log: OnceLock<SharedLog>,
    pub(super) copy: OnceLock<Copy>,
    pub(super) access: OnceLock<Arc<Access>>,
}

impl Facts {
    pub(super) fn of(settings: &Settings, metrics: &Arc<Metrics>) -> Self {
        Self {
            config: declared(settings),
            plugins: Components {
                folder: settings.storage.plugins_dir(),
                digest: Mutex::default(),
            },
            metrics: Arc::clone(metrics),
            log: OnceLock::new(),
            copy: OnceLock::new(),
            access: OnceLock::new(),
        }
    }

    /// As it is now.
    pub(super) fn say(&self) -> Said {
        let log = self.log.get();
        let delay = self.copy.get().and_then(Copy::delay);
        Said {
            place: log.map_or(0, |log| log.place().n),
            catalog: log.map_or(0, SharedLog::catalog),
            delay: delay.unwrap_or_default(),
            renderers: self.metrics.renderers.get().unsigned_abs(),
            config: self.config,
            plugins: self.plugins.digest(),
            tokens: self.access.get().map(|access| access.digest()),
        }
    }
}

/// Of what the configuration declares and other nodes must declare, too. Secrets of sinks may differ. Keys are compared
/// by their digests, because the text has them masked.
fn declared(settings: &Settings) -> ShortDigest {
    let Settings {
        streams,
        connectors,
        read_keys,
        sinks,
        ..
    } = settings;
    let mut hash = Sha256::new();
    // Secrets are masked in it.
    let text = serde_json::to_vec(&(streams, connectors, read_keys, sinks));
    hash.update(text.unwrap_or_default());
    let keys = connectors.iter().flat_map(|connector| &connector.keys);
    for key in keys {
        hash.update(key.digest().unwrap_or_default());
    }
    for key in read_keys {
        hash.update(key.digest().unwrap_or_default());
    }
    short(hash)
}

/// The components of the plugins folder.
#[derive(Debug)]
struct Components {
    folder: PathBuf,
    /// Of these files as they were then.
    digest: Mutex<(Vec<Seen>, ShortDigest)>,
}

impl Components {
    /// Read again only where a file was changed. A component can have megabytes, and this is asked every second.
    fn digest(&self) -> ShortDigest {
        let seen = look(&self.folder);
        let mut known = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != seen {
            let mut hash = Sha256::new();
            for (name, ..) in &seen {
                hash.update(name);
                let content = std::fs::read(self.folder.join(name));
                hash.update(Sha256::digest(content.unwrap_or_default()));
            }
            *known = (seen, short(hash));
        }
        known.1
    }
}

fn look(folder: &Path) -> Vec<Seen> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let components = entries.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = entry.metadata().ok()?;
        let is_component = name.ends_with(".wasm") && metadata.is_file();
        is_component.then(|| (name, metadata.len(), metadata.modified().ok()))
    });
    let mut seen: Vec<Seen> = components.collect();
    seen.sort();
    seen
}

fn short(hash: Sha256) -> ShortDigest {
    let mut short = ShortDigest::default();
    let bytes = short.len();
    short.copy_from_slice(&hash.finalize()[..bytes]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::Stream;

    #[test]
    fn a_digest_changes_with_what_it_is_of_and_with_nothing_else() {
        let mut settings = Settings::default();
        let before = declared(&settings);
        settings.server.shutdown_seconds += 1;
        assert_eq!(declared(&settings), before);
        settings.streams.push(Stream {
            name: "orders".to_owned(),
            ..Stream::default()
        });
        assert_ne!(declared(&settings), before);
        let folder = tempfile::tempdir().expect("a folder");
        let components = Components {
            folder: folder.path().to_owned(),
            digest: Mutex::default(),
        };
        let empty = components.digest();
        std::fs::write(folder.path().join("notes.txt"), "x").expect("it writes");
        assert_eq!(components.digest(), empty);
        std::fs::write(folder.path().join("mine.wasm"), "x").expect("it writes");
        let one = components.digest();
        assert_ne!(one, empty);
        std::fs::write(folder.path().join("mine.wasm"), "xy").expect("it writes");
        assert_ne!(components.digest(), one);
    }
}
