//! Sends items as Standard Webhooks: <https://www.standardwebhooks.com>, version 1.0.0.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to a request that held it, and comes again, if at all,
//! under the same `webhook-id`, which stands for the same items for ever.

mod signing;

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    ALL, Batch, Form, Opened, Rejection, Removals, Retry, Sink, Span, WriteError, delivery, secrets,
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

    /// Sends the items of a batch as payloads of a type.
    fn write(&self, batch: &Batch, kind: &str) -> Result<(), WriteError> {
        if self.settings.per == Per::Batch {
            let data = batch.json(ALL, Form::ItemArray);
            return match self.send(batch, ALL, &batch.id(), kind, &data)? {
                Verdict::Taken => Ok(()),
                Verdict::Gone(reason) => Err(WriteError::Reject(reason)),
            };
        }
        let len = batch.len();
        if len > REQUESTS_MAX {
            return Err(later(
                None,
                format!(
                    "a request for each of {len} items is too much for one call; set batch = {{ items_max = 100 }} in the sink's section"
                ),
            ));
        }
        for (index, item) in (0..).zip(batch.json(ALL, Form::ItemLines).lines()) {
            // `request.position-end`, of this item whatever else is in the batch.
            let id = batch.select(&[index]).id();
            let id = id.rsplit_once('-').map_or(&*id, |(place, _)| place);
            let span = Span {
                start: index,
                count: 1,
            };
            if let Verdict::Gone(reason) = self.send(batch, span, id, kind, item)? {
                return Err(WriteError::RejectItems(
                    (index..len)
                        .map(|index| Rejection {
                            index,
                            reason: reason.clone(),
                        })
                        .collect(),
                ));
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
        let sink = SINK.get()?;
        sink.write(&batch, &sink.settings.r#type)
    }
}

impl Removals for Webhook {
    fn remove(batch: Batch) -> Result<(), WriteError> {
        let sink = SINK.get()?;
        match sink.settings.removals {
            true => sink.write(&batch, &sink.settings.removed_type),
            false => Ok(()),
        }
    }
}

headgate_sdk::export!(Webhook with removals);
