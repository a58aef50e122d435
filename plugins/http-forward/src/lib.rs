//! Sends items to a URL.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to the request that held it, and comes again, if
//! at all, in the same request with the same `Idempotency-Key`.

use std::collections::BTreeMap;
use std::time::Duration;

use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    Batch, Form, Opened, Rejection, Removals, Retry, Sink, Span, WriteError, delivery,
};
use serde::Deserialize;

/// Characters of an answer that operators are shown.
const QUOTED_MAX: usize = 200;

static SETTINGS: Opened<Settings> = Opened::new();

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Settings {
    url: String,
    method: String,
    form: String,
    headers: BTreeMap<String, String>,
    retry_statuses: Option<Vec<u16>>,
    max_items: u32,
    timeout_ms: Option<u64>,
    removals: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: String::new(),
            method: "POST".to_owned(),
            form: "item-array".to_owned(),
            headers: BTreeMap::new(),
            retry_statuses: None,
            max_items: 1_000,
            timeout_ms: None,
            removals: true,
        }
    }
}

/// What becomes of the items of a request.
enum Verdict {
    Taken,
    Later(Retry),
    Refused(String),
}

impl Settings {
    fn form(&self) -> (Form, &'static str) {
        match self.form.as_str() {
            "field-lines" => (Form::FieldLines, "application/x-ndjson"),
            "field-array" => (Form::FieldArray, "application/json"),
            "item-lines" => (Form::ItemLines, "application/x-ndjson"),
            _ => (Form::ItemArray, "application/json"),
        }
    }

    fn send(&self, batch: &Batch, span: Span) -> Result<Verdict, WriteError> {
        let (form, content_type) = self.form();
        let mut request = Request::new(&self.method, &self.url).body(batch.json(span, form));
        let own_type = |name: &String| name.eq_ignore_ascii_case("content-type");
        if !self.headers.keys().any(own_type) {
            request = request.header("content-type", content_type);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(timeout) = self.timeout_ms {
            request = request.timeout(Duration::from_millis(timeout));
        }
        Ok(self.verdict(&request.send_items(batch, span)?))
    }

    fn verdict(&self, answer: &Response) -> Verdict {
        if answer.is_success() {
            return Verdict::Taken;
        }
        let text: String = answer.text().chars().take(QUOTED_MAX).collect();
        let reason = format!("answered {}: {}", answer.status, text.trim());
        let again = match &self.retry_statuses {
            Some(statuses) => statuses.contains(&answer.status),
            // Neither redirects, which are not followed, nor client errors pass by themselves.
            None => matches!(answer.status, 408 | 425 | 429 | 500..),
        };
        if again {
            let after = answer.retry_after();
            Verdict::Later(Retry {
                after_ms: after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                reason,
            })
        } else {
            Verdict::Refused(reason)
        }
    }
}

struct HttpForward;

impl Sink for HttpForward {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        let settings = serde_json::from_str(config).map_err(|error| error.to_string())?;
        SETTINGS.set(settings);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let settings = SETTINGS.get()?;
        let len = batch.len();
        let mut refused = Vec::new();
        let mut start = 0;
        while start < len {
            let end = len.min(start.saturating_add(settings.max_items));
            let span = Span {
                start,
                count: end - start,
            };
            match settings.send(&batch, span)? {
                Verdict::Taken => {}
                Verdict::Later(retry) => return Err(WriteError::Retry(retry)),
                Verdict::Refused(reason) => {
                    delivery::refused(span, &reason);
                    refused.extend((start..end).map(|index| Rejection {
                        index,
                        reason: reason.clone(),
                    }));
                }
            }
            // Whatever becomes of those that follow.
            delivery::taken(end);
            start = end;
        }
        if refused.is_empty() {
            Ok(())
        } else {
            Err(WriteError::RejectItems(refused))
        }
    }
}

impl Removals for HttpForward {
    fn remove(batch: Batch) -> Result<(), WriteError> {
        let settings = SETTINGS.get()?;
        // Fields alone do not say what was removed.
        let says_which = matches!(settings.form().0, Form::ItemArray | Form::ItemLines);
        match settings.removals && says_which {
            true => Self::write(batch),
            false => Ok(()),
        }
    }
}

headgate_sdk::export!(HttpForward with removals);
