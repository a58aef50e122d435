//! The stream of the bench with a connector, a key and a read key, and their deletion.
//!
//! The bench creates it before the measurement, and deletes it afterwards in any case.
//!
//! **Invariant**: an object counts as created before the call that creates it, so that a response that was not awaited
//! leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::load::{KEYS, post};
use crate::client::{CallError, Client, Refusal};
use crate::error::CliError;
use base::clock::{self, Unix};
use wire::{ConnectorData, MadeKey, MadeReadKey, StreamData};

/// The description of the objects.
const DESCRIPTION: &str = "headgate bench; it can be deleted when no bench runs";
/// A rate above the capacity of any daemon.
const RATE: u64 = 1_000_000;
/// The expiry of the keys, in case they cannot be deleted.
const EXPIRES_AFTER: Duration = Duration::from_hours(24);
/// Items with this field are removals.
const REMOVED: &str = "removed";
/// Maximum wait for the data pool, and the pause between two checks.
pub(super) const POOL_MAX: Duration = Duration::from_secs(60);
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Maximum time for retries of a required request, and the pause between them.
const REFUSED_MAX: Duration = Duration::from_secs(20);
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

/// Created objects, in the order of their creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Stream,
    Connector,
    ReadKey,
}

/// The objects of the bench in the installation.
pub(super) struct Site<'a> {
    admin: &'a Client,
    url: String,
    keep_rate: bool,
    name: String,
    made: Vec<Part>,
    sender: Option<Arc<Client>>,
    reader: Option<Client>,
}

impl<'a> Site<'a> {
    pub(super) fn new(admin: &'a Client, url: &str, keep_rate: bool) -> Self {
        let id = Uuid::now_v7().simple().to_string();
        let (_, end) = id.split_at(20);
        Self {
            admin,
            url: url.to_owned(),
            keep_rate,
            name: format!("bench-{end}"),
            made: Vec::new(),
            sender: None,
            reader: None,
        }
    }

    /// The name of all objects.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn admin(&self) -> &'a Client {
        self.admin
    }

    /// The client that sends to the stream.
    pub(super) fn sender(&self) -> Result<&Arc<Client>, CliError> {
        self.sender.as_ref().ok_or_else(not_made)
    }

    /// The client that reads the stream.
    pub(super) fn reader(&self) -> Result<&Client, CliError> {
        self.reader.as_ref().ok_or_else(not_made)
    }

    /// Creates the stream, the connector and the keys.
    pub(super) async fn make(&mut self) -> Result<(), CliError> {
        let name = self.name.clone();
        self.made.push(Part::Stream);
        let rule = json!({ "field": REMOVED, "is": ["yes"] });
        let body = json!({ "name": name, "description": DESCRIPTION, "delete_when": rule });
        let _: StreamData = self.create("/api/admin/streams", body).await?;
        self.made.push(Part::Connector);
        let mut body = json!({
            "name": name, "description": DESCRIPTION, "kind": "ingest", "item_key": "id",
            "bytes_per_second": 0, "bytes_per_day": 0,
        });
        if !self.keep_rate {
            body["requests_per_second"] = RATE.into();
            body["burst"] = RATE.into();
        }
        let _: ConnectorData = self.create("/api/admin/connectors", body).await?;
        let expires_at = clock::rfc3339(Unix::now() + EXPIRES_AFTER);
        let path = format!("/api/admin/connectors/{name}/keys");
        let body = json!({ "name": "bench", "stream": name, "expires_at": expires_at });
        let made: MadeKey = self.create(&path, body).await?;
        let missing = || self.admin.foreign("the key has no secret".to_owned());
        let key = made.secret.ok_or_else(missing)?;
        self.sender = Some(Arc::new(Client::new(&self.url, &key)?));
        self.made.push(Part::ReadKey);
        let body = json!({
            "name": name, "description": DESCRIPTION, "streams": [name], "expires_at": expires_at,
        });
        let made: MadeReadKey = self.create("/api/admin/read-keys", body).await?;
        self.reader = Some(Client::new(&self.url, &made.secret)?);
        Ok(())
    }

    async fn create<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T, CliError> {
        Ok(self.admin.change(Method::POST, path, Some(&body)).await?)
    }

    /// Waits until all items are in the data pool; returns the time in milliseconds.
    pub(super) async fn settle(&self) -> Result<f64, CliError> {
        let settled = settled(self.sender()?, self.reader()?, &self.name, POOL_MAX).await?;
        let settled = settled.ok_or_else(|| {
            CliError::failed(format!(
                "the accepted requests are not in the data pool after {} s: see `headgate sink list` for the state of its sink",
                POOL_MAX.as_secs()
            ))
        });
        Ok(settled?.as_secs_f64() * 1e3)
    }

    /// Removes the items and deletes all objects; an error names what is left.
    pub(super) async fn remove(&mut self) -> Result<(), CliError> {
        let emptied = self.empty().await;
        while let Some(part) = self.made.last().copied() {
            let gone = self.delete(part).await;
            // The object does not exist if its creation failed.
            let was_none = |error: &CallError| matches!(error, CallError::Refused(refusal) if refusal.status == 404);
            match gone {
                Ok(()) => {}
                Err(error) if was_none(&error) => {}
                Err(error) => {
                    return Err(CliError::failed(format!("{error}; {}", self.left())));
                }
            }
            self.made.pop();
        }
        emptied
    }

    /// Removes the items, and waits until the removals are applied.
    async fn empty(&self) -> Result<(), CliError> {
        if self.sender.is_none() {
            return Ok(());
        }
        let keys = (0..KEYS)
            .map(|key| key.to_string())
            .chain(["mark".to_owned()]);
        let items = keys
            .map(|key| json!({ "id": key, REMOVED: "yes" }))
            .collect();
        must_accept(self.sender()?, Value::Array(items)).await?;
        let begun = Instant::now();
        let path = format!("/api/admin/streams/{}", self.name);
        while begun.elapsed() < POOL_MAX {
            let stream: StreamData = self.admin.get(&path).await?;
            if stream.items == 0 {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Err(CliError::failed(format!(
            "the items of {} were to be removed, and are still in the data pool after {} s: they go when its sink has \
             caught up; `headgate sink list` shows how it is",
            self.name,
            POOL_MAX.as_secs()
        )))
    }

    async fn delete(&self, part: Part) -> Result<(), CallError> {
        let (kind, query) = match part {
            Part::Stream => ("streams", "?force=true"),
            Part::Connector => ("connectors", ""),
            Part::ReadKey => ("read-keys", ""),
        };
        let path = format!("/api/admin/{kind}/{}{query}", self.name);
        let deleted = self.admin.change(Method::DELETE, &path, None).await;
        deleted.map(|_: IgnoredAny| ())
    }

    /// The objects that are left, and how to delete them.
    pub(super) fn left(&self) -> String {
        let name = &self.name;
        let verbs = self.made.iter().rev().map(|part| match part {
            Part::Stream => format!("`headgate stream delete {name} --force`"),
            Part::Connector => format!("`headgate connector delete {name} --yes`"),
            Part::ReadKey => format!("`headgate read-key delete {name}`"),
        });
        let verbs: Vec<String> = verbs.collect();
        match verbs.is_empty() {
            true => "nothing is left behind".to_owned(),
            false => format!(
                "to delete the remains of the benchmark, run {}",
                verbs.join(", ")
            ),
        }
    }
}

/// Waits until the data pool has everything that was accepted before; returns the time, or `None` after `time_max`.
pub(super) async fn settled(
    sender: &Client,
    reader: &Client,
    stream: &str,
    time_max: Duration,
) -> Result<Option<Duration>, CliError> {
    let begun = Instant::now();
    // Requests are applied in order, so this item arrives last.
    must_accept(sender, json!({ "id": "mark" })).await?;
    let path = format!("/api/streams/{stream}/items/mark");
    while begun.elapsed() < time_max {
        let item = reader.call(Method::GET, &path, HeaderMap::new(), Bytes::new());
        match item.await?.status {
            200 => return Ok(Some(begun.elapsed())),
            _ => tokio::time::sleep(LOOK_PAUSE).await,
        }
    }
    Ok(None)
}

/// Retries a request until it is accepted: the load before it may have used up a rate limit.
async fn must_accept(sender: &Client, body: Value) -> Result<(), CliError> {
    let begun = Instant::now();
    let body = Bytes::from(body.to_string());
    loop {
        let answer = post(sender, body.clone()).await?;
        match answer.status {
            202 => return Ok(()),
            429 | 503 if begun.elapsed() < REFUSED_MAX => {
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
            _ => return Err(CallError::Refused(Refusal::decode(&answer)).into()),
        }
    }
}

fn not_made() -> CliError {
    CliError::failed("the bench has no key yet")
}
