//! Sends items to a URL, updates and removals together in the order of acceptance.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to the request that held it, and comes again, if
//! at all, in the same request with the same `Idempotency-Key`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    ALL, Action, Batch, Form, Opened, Operations, Rejection, Retry, Sink, Span, WriteError,
    delivery,
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

/// Which items of a batch the receiver is sent.
enum Wanted {
    /// All, so many.
    All(u32),
    /// Those with these indexes, of so many.
    Some { indexes: Vec<u32>, len: u32 },
}

impl Wanted {
    /// How many.
    fn len(&self) -> u32 {
        match self {
            Self::All(len) => *len,
            Self::Some { indexes, .. } => indexes.len() as u32,
        }
    }

    /// The index of one of them in the batch; behind the last one, that of the end.
    fn index(&self, at: u32) -> u32 {
        match self {
            Self::All(_) => at,
            Self::Some { indexes, len } => indexes.get(at as usize).copied().unwrap_or(*len),
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

    /// The items that the receiver is sent.
    fn wanted(&self, batch: &Batch) -> Wanted {
        // Fields alone do not say what was removed.
        let says_which = matches!(self.form().0, Form::ItemArray | Form::ItemLines);
        if self.removals && says_which {
            return Wanted::All(batch.len());
        }
        let actions = batch.actions(ALL);
        if !actions.contains(&Action::Removal) {
            return Wanted::All(batch.len());
        }
        let updates = (0..)
            .zip(actions)
            .filter(|(_, action)| *action == Action::Update);
        Wanted::Some {
            indexes: updates.map(|(index, _)| index).collect(),
            len: batch.len(),
        }
    }

    /// Sends some of the wanted items.
    fn send(
        &self,
        batch: &Batch,
        wanted: &Wanted,
        range: Range<u32>,
    ) -> Result<Verdict, WriteError> {
        let Wanted::Some { indexes, .. } = wanted else {
            let span = Span {
                start: range.start,
                count: range.end - range.start,
            };
            return self.send_span(batch, span);
        };
        let indexes = &indexes[range.start as usize..range.end as usize];
        self.send_span(&batch.select(indexes), ALL)
    }

    fn send_span(&self, batch: &Batch, span: Span) -> Result<Verdict, WriteError> {
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
        let wanted = settings.wanted(&batch);
        let len = wanted.len();
        let mut refused = Vec::new();
        let mut start = 0;
        while start < len {
            let end = len.min(start.saturating_add(settings.max_items));
            match settings.send(&batch, &wanted, start..end)? {
                Verdict::Taken => {}
                Verdict::Later(retry) => return Err(WriteError::Retry(retry)),
                Verdict::Refused(reason) => {
                    for index in (start..end).map(|at| wanted.index(at)) {
                        delivery::refused(
                            Span {
                                start: index,
                                count: 1,
                            },
                            &reason,
                        );
                        refused.push(Rejection {
                            index,
                            reason: reason.clone(),
                        });
                    }
                }
            }
            // Whatever becomes of those that follow.
            delivery::taken(wanted.index(end));
            start = end;
        }
        if refused.is_empty() {
            Ok(())
        } else {
            Err(WriteError::RejectItems(refused))
        }
    }
}

impl Operations for HttpForward {}

headgate_sdk::export!(HttpForward with operations);
