//! The way of a request alone, in a folder that lives no longer: no listener, no sink.
//!
//! `headgate preset test` sends deliveries through it, to see what they come to.
//!
//! **Invariant**: it is the daemon's own pipeline. Nothing of it is left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::parts::ingest;
use super::stored::Stored;
use super::{DaemonError, files};
use base::clock::Unix;
use ingest::{Address, Gate, Head, Ingest, Reply};
use item::Items;
use journal::log::{Client, Endpoint};
use observe::metrics::Metrics;
use observe::telemetry::Tracer;
use settings::Settings;
use webhook::Headers;

pub struct Pipeline {
    ingest: Arc<Ingest>,
    stored: Stored,
    folder: PathBuf,
    _lock: files::Lock,
}

/// A delivery to the address of a connector.
pub struct Delivered {
    pub stream: &'static str,
    pub connector: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Pipeline {
    /// Opens it in the folder of these settings, which it deletes at its end. The folder is locked, so that no daemon
    /// uses what is deleted at the end.
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub async fn open(settings: &Settings) -> Result<Self, DaemonError> {
        let folder = files::open_folder(&settings.storage.data_dir)?;
        let lock = files::Lock::take(&folder)?;
        let metrics = Arc::new(Metrics::new());
        let (tracer, _) = Tracer::new(&settings.telemetry.otlp, &metrics);
        let stored = Stored::open_files(&folder, settings, &metrics).await?;
        let gate = Arc::new(Gate::default());
        let settled = Box::new(|_: &str| None);
        Ok(Self {
            ingest: ingest(&stored, settings, &gate, &metrics, tracer, settled),
            stored,
            folder,
            _lock: lock,
        })
    }

    /// What is stored of a delivery; none: it is answered and not stored.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn send(&self, sent: Delivered) -> Result<Option<Items>, String> {
        let pairs: Vec<(&str, &[u8])> = (sent.headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let headers = Headers(&pairs);
        let header = |name: &str| headers.get(name).map(str::as_bytes);
        let admitted = self.ingest.admit(Head {
            request_id: Uuid::now_v7(),
            received_at: Unix::now(),
            endpoint: Endpoint::Webhook,
            stream: Some(sent.stream),
            authorization: header("authorization"),
            access_token: None,
            certificate: None,
            address: Some(Address {
                connector: &sent.connector,
                method: "POST",
                target: &sent.target,
                headers,
            }),
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            content_length: Some(sent.body.len() as u64),
            item_key: header("x-item-key"),
            idempotency_key: header("idempotency-key"),
            client: Client::Many,
            headers: None,
            trace: None,
        });
        let answer = match admitted {
            Ok(admitted) => (self.ingest.store(admitted, Ok(Bytes::from(sent.body)))).await,
            Err(refusal) => self.ingest.refuse(refusal),
        };
        match answer.result.map_err(|error| error.to_string())? {
            Reply::Challenge(_) => Ok(None),
            Reply::Accepted(accepted) => self.items(accepted.receipt.request_id).await,
        }
    }

    async fn items(&self, request_id: Uuid) -> Result<Option<Items>, String> {
        let journal = &self.stored.journal;
        let failed = |error: journal::StorageError| error.to_string();
        let row = journal.log_get(request_id).await.map_err(failed)?;
        let row = row.ok_or("the request is not in the log")?;
        let entry = journal.entry(row.seq).await.map_err(failed)?;
        let entry = entry.ok_or("its items are not in the journal")?;
        Ok(Some(entry.items.clone()))
    }

    pub async fn close(self) {
        self.stored.journal.close().await;
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    // What cannot be deleted lies among what the machine deletes itself.
    let _ = std::fs::remove_dir_all(folder);
}
