//! Sends items to a URL, updates and removals together in the order of acceptance.
//!
//! What the settings make of an item is in `settings.rs`; the host fills its templates.
//!
//! **Invariant**: an item is acknowledged only after an answer of 2xx to the request that held it, which is what `ok_if`
//! asks for, and comes again, if at all, in the same request with the same `Idempotency-Key`.

mod settings;

use std::time::Duration;

use headgate_sdk::http::{Request, Response};
use headgate_sdk::{
    ALL, Action, Batch, Opened, Operations, Rejection, Retry, Sink, Span, WriteError, delivery,
};
use settings::{Forward, Shape};

/// Characters of an answer that operators are shown.
const QUOTED_MAX: usize = 200;

static FORWARD: Opened<Forward> = Opened::new();

/// Items of a batch that one request carries.
struct Carried<'a> {
    shape: &'a Shape,
    indexes: Vec<u32>,
}

/// What becomes of the items of a request.
enum Verdict {
    Taken,
    Later(Retry),
    Refused(String),
}

impl Forward {
    /// The requests for a batch, in the order of its items.
    fn requests(&self, batch: &Batch) -> Vec<Carried<'_>> {
        let mut requests: Vec<Carried<'_>> = Vec::new();
        for (index, action) in (0..).zip(batch.actions(ALL)) {
            let (shape, items_max) = match (action, &self.removals) {
                (Action::Removal, Some(shape)) => (shape, 1),
                (Action::Removal, None) if !self.says_removals() => continue,
                _ => (&self.updates, self.items_max),
            };
            match requests.last_mut() {
                Some(last)
                    if std::ptr::eq(last.shape, shape)
                        && last.indexes.len() < items_max as usize =>
                {
                    last.indexes.push(index);
                }
                _ => requests.push(Carried {
                    shape,
                    indexes: vec![index],
                }),
            }
        }
        requests
    }

    fn send(&self, batch: &Batch, carried: &Carried<'_>) -> Result<Verdict, WriteError> {
        let indexes = &carried.indexes;
        let (start, count) = (indexes[0], indexes.len() as u32);
        let is_run = indexes.last() == Some(&(start + count - 1));
        match is_run {
            true => self.send_span(batch, Span { start, count }, carried.shape),
            false => self.send_span(&batch.select(indexes), ALL, carried.shape),
        }
    }

    fn send_span(&self, batch: &Batch, span: Span, shape: &Shape) -> Result<Verdict, WriteError> {
        match self.request(batch, span, shape) {
            Ok(request) => Ok(self.verdict(&request.send_items(batch, span)?)),
            Err(reason) => Ok(Verdict::Refused(reason)),
        }
    }

    /// # Errors
    /// Why there can be no such request.
    fn request(&self, batch: &Batch, span: Span, shape: &Shape) -> Result<Request, String> {
        let cannot = |what: &str, why: String| format!("its {what} cannot be made: {why}");
        let url = shape.url.fill(batch, span);
        let mut request = Request::new(&shape.method, &url.map_err(|why| cannot("URL", why))?);
        let own_type = |name: &str| name.eq_ignore_ascii_case("content-type");
        if let Some((body, content_type)) = shape.body(batch, span)? {
            request = request.body(body);
            if !self.headers.iter().any(|(name, _)| own_type(name)) {
                request = request.header("content-type", content_type);
            }
        }
        for (name, value) in &self.headers {
            let value = value.fill(batch, span);
            let value = value.map_err(|why| cannot(&format!("header {name}"), why))?;
            request = request.header(name, &value);
        }
        if let Some(timeout) = self.settings.timeout_ms {
            request = request.timeout(Duration::from_millis(timeout));
        }
        Ok(request)
    }

    fn verdict(&self, answer: &Response) -> Verdict {
        let said = || {
            let text: String = answer.text().chars().take(QUOTED_MAX).collect();
            format!("answered {}: {}", answer.status, text.trim())
        };
        if answer.is_success() {
            return match &self.ok_if {
                Some(conditions) if !conditions.hold(&answer.text()) => {
                    Verdict::Refused(format!("{}: `ok_if` does not hold", said()))
                }
                _ => Verdict::Taken,
            };
        }
        let again = match &self.settings.retry_statuses {
            Some(statuses) => statuses.contains(&answer.status),
            // Neither redirects, which are not followed, nor client errors pass by themselves.
            None => matches!(answer.status, 408 | 425 | 429 | 500..),
        };
        if again {
            let after = answer.retry_after();
            Verdict::Later(Retry {
                after_ms: after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                reason: said(),
            })
        } else {
            Verdict::Refused(said())
        }
    }
}

struct HttpForward;

impl Sink for HttpForward {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        FORWARD.set(Forward::open(config)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let forward = FORWARD.get()?;
        let requests = forward.requests(&batch);
        let mut refused = Vec::new();
        let ends = requests.iter().skip(1).map(|next| next.indexes[0]);
        for (carried, end) in requests.iter().zip(ends.chain([batch.len()])) {
            match forward.send(&batch, carried)? {
                Verdict::Taken => {}
                Verdict::Later(retry) => return Err(WriteError::Retry(retry)),
                Verdict::Refused(reason) => {
                    for index in carried.indexes.iter().copied() {
                        let span = Span {
                            start: index,
                            count: 1,
                        };
                        delivery::refused(span, &reason);
                        refused.push(Rejection {
                            index,
                            reason: reason.clone(),
                        });
                    }
                }
            }
            // Whatever becomes of those that follow.
            delivery::taken(end);
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
