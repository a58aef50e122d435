//! Trials of a sink: the newest item of its streams, or given items, through its selection and its plugin.
//!
//! **Invariant**: nothing is stored, and one trial runs at a time.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::sinks::patched;
use super::{By, OperateError, Operator};
use base::clock::{self, Unix};
use base::order::Seq;
use catalog::{AuditChange, CatalogError, ResourceKind};
use delivery::Tried;
use ingest::flatten::{FlattenLimits, flatten};
use item::ItemsWriter;
use item::batch::{Entry, Slice};
use settings::{BodyFault, Section, Settings};

pub const TRIAL_ITEMS_MAX: usize = 100;
/// The stream of given items, if the sink names none.
const STREAM: &str = "trial";
const NO_ITEM: &str =
    "the data pool has no item of its streams: set `items`, or send an item first";

#[derive(Debug, Default)]
pub struct TrialRequest {
    /// The items in the body; `None`: the newest existing item.
    pub items: Option<Vec<Value>>,
    /// Whether the requests of the sink are sent.
    pub send: bool,
}

impl Operator {
    /// Tries settings, whether or not a sink has them.
    ///
    /// # Errors
    /// The settings, or the items, are invalid. A rejection by the plugin is not an error.
    pub async fn try_section(
        &self,
        mut body: Map<String, Value>,
        request: TrialRequest,
        by: By,
    ) -> Result<Tried, OperateError> {
        body.entry("name").or_insert_with(|| STREAM.into());
        let section = Section::of_new(body).map_err(OperateError::Invalid)?;
        let sink = self.checked(&section)?;
        self.try_sink(sink, request, by).await
    }

    /// Tries a sink, with a patch of its section if it was made at run time.
    ///
    /// # Errors
    /// See [`OperateError`]. A rejection by the plugin is not an error.
    pub async fn try_named(
        &self,
        name: &str,
        patch: Map<String, Value>,
        request: TrialRequest,
        by: By,
    ) -> Result<Tried, OperateError> {
        let sink = self.catalog.sink(name).ok_or(OperateError::NoSink)?;
        let sink = match &sink.section {
            _ if patch.is_empty() => settings::Sink::clone(&sink.settings),
            None => {
                return Err(OperateError::Catalog(CatalogError::Declared(
                    ResourceKind::Sink,
                )));
            }
            Some(section) => {
                let section = patched(section, patch)?;
                self.checked(&section)?
            }
        };
        self.try_sink(sink, request, by).await
    }

    /// A trial without requests is not in the audit log, because nothing leaves the daemon.
    async fn try_sink(
        &self,
        sink: settings::Sink,
        request: TrialRequest,
        by: By,
    ) -> Result<Tried, OperateError> {
        let slices = match request.items {
            Some(items) => vec![self.given(&sink, &items)?],
            None => self.newest(&sink).await?.into_iter().collect(),
        };
        if slices.is_empty() {
            return Ok(Tried {
                error: Some(NO_ITEM.to_owned()),
                ..Tried::default()
            });
        }
        let _one = self.sink_changes.one_trial().await;
        let name = sink.name.clone();
        let mark = Uuid::now_v7().to_string();
        let tried = self
            .delivery
            .try_out(sink, slices, request.send, mark)
            .await;
        if request.send {
            let done = serde_json::json!({
                "items": tried.items, "requests": tried.seen.requests.len(), "error": tried.error,
            });
            let change = AuditChange::done("try", ResourceKind::Sink, name, done);
            self.record(by, change).await;
        }
        Ok(tried)
    }

    /// The items of a body, as a request of the first stream that the sink names.
    fn given(&self, sink: &settings::Sink, items: &[Value]) -> Result<Slice, OperateError> {
        let invalid = |message: String| {
            OperateError::Invalid(vec![BodyFault {
                field: "items",
                path: "items".to_owned(),
                message,
            }])
        };
        if !(1..=TRIAL_ITEMS_MAX).contains(&items.len()) {
            let message = format!("must be a list of 1 to {TRIAL_ITEMS_MAX} objects");
            return Err(invalid(message));
        }
        let limits = Settings::default().limits;
        let limits = FlattenLimits {
            flattened_bytes_max: limits.max_flattened_bytes,
            item_bytes_max: limits.max_item_bytes,
        };
        let body = Value::from(items.to_vec()).to_string();
        let items = flatten(body.as_bytes(), None, limits);
        let items = items.map_err(|error| invalid(format!("cannot be used: {error}")))?;
        let named = sink.streams.iter().find(|name| !name.ends_with('*'));
        let known = || self.streams_of(sink).into_iter().next();
        let stream = named.map(|name| name.as_str().into()).or_else(known);
        Ok(Slice::whole(Arc::new(Entry {
            seq: Seq::new(1),
            request_id: Uuid::now_v7(),
            stream: stream.unwrap_or_else(|| STREAM.into()),
            received_at: Unix::now(),
            arrived: None,
            items,
        })))
    }

    /// The newest item of its streams in the data pool.
    async fn newest(&self, sink: &settings::Sink) -> Result<Option<Slice>, OperateError> {
        let mut newest: Option<(Arc<str>, pool::Item)> = None;
        for stream in self.streams_of(sink) {
            let item = self.pool.newest_item(&stream).await?;
            let last = newest.as_ref().map(|(_, item)| item.seq);
            if let Some(item) = item.filter(|item| Some(item.seq) > last) {
                newest = Some((stream, item));
            }
        }
        let Some((stream, item)) = newest else {
            return Ok(None);
        };
        let bytes = item.key.len() + item.fields.len();
        let mut writer = ItemsWriter::new(bytes.saturating_mul(2).max(1 << 16), 0);
        if writer.push(&item.key, &item.fields).is_err() {
            return Ok(None);
        }
        Ok(Some(Slice::whole(Arc::new(Entry {
            seq: Seq::new(1),
            request_id: item.request_id.parse().unwrap_or_default(),
            stream,
            received_at: clock::parse_rfc3339(&item.updated_at).unwrap_or_else(Unix::now),
            arrived: None,
            items: writer.into_items(),
        }))))
    }

    /// The existing streams that the sink receives.
    fn streams_of(&self, sink: &settings::Sink) -> Vec<Arc<str>> {
        let streams = self.catalog.readable_streams();
        let own = streams.iter().filter(|stream| sink.matches(&stream.name));
        own.map(|stream| Arc::clone(&stream.name)).collect()
    }
}
