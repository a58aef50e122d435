//! Sends items as Standard Webhooks: <https://www.standardwebhooks.com>, version 1.0.0.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to a request that held it, and comes again, if at all,
//! under the same `webhook-id`, which stands for the same items for ever.

mod signing;

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    ALL, Action, Batch, Form, Opened, Operations, Rejection, Retry, Sink, Span, WriteError,
    delivery, secrets,
};
use serde::Deserialize;
use signing::Key;

/// The secrets that sign, in the order of their signatures.
const SECRETS: [&str; 2] = ["signing", "signing_old"];
/// Requests of one call, which the host limits as well.
const REQUESTS_MAX: u32 = 1_000;
/// Characters of an answer that operators are shown.
const QUOTED_MAX: usize = 200;

static SINK: Opened<Webhook> = Opened::new();

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Settings {
    url: String,
    r#type: String,
    removed_type: String,
    removals: bool,
    per: Per,
    timeout_ms: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: String::new(),
            r#type: "item.received".to_owned(),
            removed_type: "item.removed".to_owned(),
            removals: true,
            per: Per::Item,
            timeout_ms: None,
        }
    }
}

/// What a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Per {
    Item,
    Batch,
}

/// The sink with its settings.
struct Webhook {
    settings: Settings,
    keys: Vec<Key>,
}

/// Of an item as JSON.
#[derive(Deserialize)]
struct Origin<'a> {
    #[serde(borrow)]
    received_at: Cow<'a, str>,
}

/// What the receiver says.
enum Verdict {
    Taken,
    Gone(String),
}

impl Webhook {
    fn new(settings: Settings) -> Result<Self, String> {
        let mut keys = Vec::new();
        for name in SECRETS {
            if let Some(secret) = secrets::get(name) {
                let key =
                    Key::new(&secret).map_err(|reason| format!("the secret {name} {reason}"))?;
                keys.push(key);
            } else if name == SECRETS[0] {
                return Err(
                    "there is no secret to sign with; name it in the sink's section: \
                            secrets = { signing = { env = \"SIGNING_SECRET\" } }"
                        .to_owned(),
                );
            }
        }
        Ok(Self { settings, keys })
    }

    /// Sends the items of a batch in their order, those of one request as payloads of their type.
    fn write(&self, batch: &Batch) -> Result<(), WriteError> {
        match self.settings.per {
            Per::Batch => self.write_runs(batch),
            Per::Item => self.write_items(batch),
        }
    }

    /// The type of what is asked of an item; none if the receiver does not want to hear of it.
    fn kind(&self, action: Action) -> Option<&str> {
        let settings = &self.settings;
        match action {
            Action::Update => Some(&settings.r#type),
            Action::Removal => settings.removals.then_some(&settings.removed_type),
        }
    }

    /// A request for each run of items of one type.
    fn write_runs(&self, batch: &Batch) -> Result<(), WriteError> {
        let mut start = 0;
        for run in batch.actions(ALL).chunk_by(|a, b| a == b) {
            let end = start + run.len() as u32;
            let part;
            let of_run = match end - start == batch.len() {
                true => batch,
                false => {
                    part = batch.select(&(start..end).collect::<Vec<_>>());
                    &part
                }
            };
            if let Some(kind) = self.kind(run[0]) {
                let data = of_run.json(ALL, Form::ItemArray);
                let sent = self.send(of_run, ALL, &of_run.id(), kind, &data)?;
                if let Verdict::Gone(reason) = sent {
                    return Err(gone(start..batch.len(), &reason));
                }
            }
            delivery::taken(end);
            start = end;
        }
        Ok(())
    }

    /// A request for each item.
    fn write_items(&self, batch: &Batch) -> Result<(), WriteError> {
        let len = batch.len();
        if len > REQUESTS_MAX {
            return Err(later(
                None,
                format!(
                    "a request for each of {len} items is too much for one call; set batch = {{ items_max = 100 }} in the sink's section"
                ),
            ));
        }
        let json = batch.json(ALL, Form::ItemLines);
        let items = json.lines().zip(batch.actions(ALL));
        for (index, (item, action)) in (0..).zip(items) {
            if let Some(kind) = self.kind(action) {
                // `request.position-end`, of this item whatever else is in the batch.
                let id = batch.select(&[index]).id();
                let id = id.rsplit_once('-').map_or(&*id, |(place, _)| place);
                let span = Span {
                    start: index,
                    count: 1,
                };
                if let Verdict::Gone(reason) = self.send(batch, span, id, kind, item)? {
                    return Err(gone(index..len, &reason));
                }
            }
            // Whatever becomes of those that follow.
            delivery::taken(index + 1);
        }
        Ok(())
    }

    /// Sends an item or a list of items under an id of theirs.
    fn send(
        &self,
        batch: &Batch,
        span: Span,
        id: &str,
        kind: &str,
        data: &str,
    ) -> Result<Verdict, WriteError> {
        let unreadable = |error| WriteError::Reject(format!("{error}"));
        let received_at = if self.settings.per == Per::Item {
            let origin: Origin<'_> = serde_json::from_str(data).map_err(unreadable)?;
            origin.received_at
        } else {
            let origins: Vec<Origin<'_>> = serde_json::from_str(data).map_err(unreadable)?;
            let newest = origins.into_iter().next_back();
            newest.map_or(Cow::default(), |origin| origin.received_at)
        };
        let kind = serde_json::Value::from(kind);
        let body = format!(r#"{{"type":{kind},"timestamp":"{received_at}","data":{data}}}"#);
        let timestamp = unix_seconds().to_string();
        let signatures: Vec<String> = self
            .keys
            .iter()
            .map(|key| key.signature(id, &timestamp, &body))
            .collect();
        let mut request = Request::new("POST", &self.settings.url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", &timestamp)
            .header("webhook-signature", &signatures.join(" "))
            .body(body);
        if let Some(timeout) = self.settings.timeout_ms {
            request = request.timeout(Duration::from_millis(timeout));
        }
        verdict(&request.send_items(batch, span)?)
    }
}

fn verdict(answer: &Response) -> Result<Verdict, WriteError> {
    let text: String = answer.text().chars().take(QUOTED_MAX).collect();
    let reason = format!("answered {}: {}", answer.status, text.trim());
    match answer.status {
        200..300 => Ok(Verdict::Taken),
        410 => Ok(Verdict::Gone(format!(
            "{reason} (the receiver wants no more)"
        ))),
        _ => Err(later(answer.retry_after(), reason)),
    }
}

/// These items, which the receiver does not want.
fn gone(range: Range<u32>, reason: &str) -> WriteError {
    let rejected = range.map(|index| Rejection {
        index,
        reason: reason.to_owned(),
    });
    WriteError::RejectItems(rejected.collect())
}

fn later(after: Option<Duration>, reason: String) -> WriteError {
    WriteError::Retry(Retry {
        after_ms: after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        reason,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "in a guest the wall clock is the host's"
)]
fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

impl Sink for Webhook {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        let settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        SINK.set(Webhook::new(settings)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        SINK.get()?.write(&batch)
    }
}

impl Operations for Webhook {}

headgate_sdk::export!(Webhook with operations);
