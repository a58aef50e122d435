//! Items in the formats of feeds, for a guest.
//!
//! **Invariant**: a guest has handles of the text, never the bytes. It reads only the streams of the data pool that its
//! sink receives.

use std::sync::Arc;

use wasmtime::component::Resource;

use super::Host;
use super::bindings::headgate::sink::batches::Span;
use super::bindings::headgate::sink::tables;
use ::pool::{Item, Pool};
use ::table::{
    Column, Format, Query, QueryError, Row, Writer, body, columns, columns_of, fields, find,
};
use base::clock;
use item::batch::Batch;
use item::{members, string_into};
use select::FieldEntry;
use settings::Sink;

/// Text that the host holds for a guest. A whole stream would not fit into the memory of a guest.
#[expect(unreachable_pub, reason = "the bindings re-export it")]
pub struct GuestText(pub(super) String);

#[expect(unreachable_pub, reason = "the bindings re-export it")]
pub struct GuestTable {
    query: Query,
}

/// The streams and selection of a sink. A copy of the settings without secrets suffices for this.
#[derive(Debug)]
pub(crate) struct Receives {
    sink: Sink,
}

impl Receives {
    pub(crate) fn of(sink: &Sink) -> Self {
        Self {
            sink: Sink {
                streams: sink.streams.clone(),
                except: sink.except.clone(),
                r#where: sink.r#where.clone(),
                fields: sink.fields.clone(),
                mode: sink.mode,
                plugin: sink.plugin.clone(),
                ..Sink::default()
            },
        }
    }
}

impl GuestTable {
    /// The columns of rows with these fields, with names as in JSON.
    fn columns(&self, fields: Vec<String>, has_key: bool) -> Vec<Column> {
        columns_of(&self.query, has_key, fields)
    }

    fn rows(&self, batch: &Batch, span: Span, names: &[String], has_key: bool) -> String {
        let columns = self.columns(quoted(names), has_key);
        let mut out = String::new();
        for (slice, _, item) in batch.range(span.into()) {
            let received_at = clock::rfc3339(slice.entry.received_at);
            let one = Item {
                key: item.key.to_owned(),
                fields: item.fields.to_owned(),
                updated_at: received_at,
                seq: base::order::ChangeSeq::MIN,
                request_id: slice.entry.request_id.to_string(),
                overridden: String::new(),
            };
            let own = self.query.is_of_own_fields().then(|| {
                let fields = members(item.fields).map(|(name, _)| name.to_owned());
                self.columns(fields.collect(), has_key)
            });
            let stream: &str = &slice.entry.stream;
            let columns = own.as_deref().unwrap_or(&columns);
            let row = Row {
                item: &one,
                stream,
                position: 1,
            };
            let begin = out.len();
            Writer::new(&self.query, stream, columns).row(row, &mut out);
            if !out[begin..].ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }
}

fn quoted(names: &[String]) -> Vec<String> {
    let quoted = names.iter().map(|name| {
        let mut quoted = String::with_capacity(name.len() + 2);
        string_into(name, &mut quoted);
        quoted
    });
    quoted.collect()
}

impl Host {
    fn text(&mut self, text: String) -> wasmtime::Result<Resource<GuestText>> {
        self.hold(text.len())?;
        Ok(self.table.push(GuestText(text))?)
    }

    /// Whether rows have a column for the key: not if the settings select the fields.
    fn has_key(&self) -> bool {
        let fields = self.context.receives.sink.fields.as_ref();
        fields.is_none_or(|fields| fields.fields().leaves_out())
    }
}

/// The feed of a stream, within the selection of a sink.
async fn feed(
    receives: &Receives,
    pool: Option<&Pool>,
    query: Query,
    stream: String,
) -> wasmtime::Result<Result<String, String>> {
    let sink = &receives.sink;
    let Some(pool) = pool.filter(|_| sink.is_latest()) else {
        let why = "the items of the data pool are for sinks with mode = \"latest\"";
        return Ok(Err(why.to_owned()));
    };
    if !sink.matches(&stream) {
        return Ok(Err("the sink does not receive this stream".to_owned()));
    }
    let conditions = (sink.r#where.as_ref()).map(|one| one.conditions().clone());
    let chosen = sink.fields.as_ref().map(|one| one.fields().clone());
    let query = query
        .with_conditions(conditions.unwrap_or_default())
        .with_fields(chosen.unwrap_or_default());
    let found = match find(pool, &stream, &query).await? {
        Ok(found) => found,
        Err(sentence) => return Ok(Err(sentence)),
    };
    let fields = fields(pool, &stream, &query).await?;
    let writing = move || body(&query, &stream, &columns(&query, fields), &found);
    Ok(tokio::task::spawn_blocking(writing).await?)
}

impl tables::Host for Host {
    fn chosen_fields(&mut self) -> wasmtime::Result<Vec<String>> {
        let Some(chosen) = &self.context.receives.sink.fields else {
            return Ok(Vec::new());
        };
        let names = chosen.fields().entries().iter().map(|entry| match entry {
            FieldEntry::One { name, source } => {
                Some((name.clone()).unwrap_or_else(|| source.name().into_owned()))
            }
            FieldEntry::Beginning(_) => None,
        });
        let names: Option<Vec<String>> = names.collect();
        let is_list = !chosen.fields().leaves_out();
        Ok(names.filter(|_| is_list).unwrap_or_default())
    }

    fn follows_latest(&mut self) -> wasmtime::Result<bool> {
        Ok(self.context.receives.sink.is_latest())
    }
}

impl tables::HostText for Host {
    fn of(&mut self, text: String) -> wasmtime::Result<Resource<GuestText>> {
        self.text(text)
    }

    fn len(&mut self, text: Resource<GuestText>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&text)?.0.len() as u64)
    }

    fn drop(&mut self, text: Resource<GuestText>) -> wasmtime::Result<()> {
        self.table.delete(text)?;
        Ok(())
    }
}

impl tables::HostTable for Host {
    /// `where`, `fields` and `key` of the guest do not count, because the sink's section decides what it sees.
    fn open(
        &mut self,
        form: String,
        parameters: Vec<(String, String)>,
    ) -> wasmtime::Result<Result<Resource<GuestTable>, String>> {
        self.charge()?;
        let Some(format) = Format::of(&form) else {
            return Ok(Err(format!("there is no form `{form}`")));
        };
        let parameter = |name: &str| {
            let is_own = matches!(name, "where" | "fields" | "key");
            let mut named = parameters.iter().filter(|(own, _)| own == name && !is_own);
            named.next().map(|(_, value)| value.clone())
        };
        let query = match Query::read(format, parameter) {
            Ok(query) => query,
            Err(QueryError::Syntax(error)) => return Ok(Err(error.to_string())),
            Err(QueryError::Other(sentence)) => return Ok(Err(sentence)),
        };
        Ok(Ok(self.table.push(GuestTable { query })?))
    }

    fn head(
        &mut self,
        table: Resource<GuestTable>,
        fields: Vec<String>,
    ) -> wasmtime::Result<Resource<GuestText>> {
        self.charge()?;
        let has_key = self.has_key();
        let table = self.table.get(&table)?;
        let columns = table.columns(quoted(&fields), has_key);
        let mut head = String::new();
        Writer::new(&table.query, "", &columns).begin(0, &mut head);
        self.text(head)
    }

    fn rows(
        &mut self,
        table: Resource<GuestTable>,
        batch: Resource<Batch>,
        range: Span,
        fields: Vec<String>,
    ) -> wasmtime::Result<Resource<GuestText>> {
        self.charge()?;
        let has_key = self.has_key();
        let batch = self.table.get(&batch)?;
        let rows = self.table.get(&table)?.rows(batch, range, &fields, has_key);
        self.text(rows)
    }

    async fn whole(
        &mut self,
        table: Resource<GuestTable>,
        stream: String,
    ) -> wasmtime::Result<Result<Resource<GuestText>, String>> {
        let query = self.table.get(&table)?.query.clone();
        let receives = Arc::clone(&self.context.receives);
        let pool = self.context.pool.clone();
        match feed(&receives, pool.as_deref(), query, stream).await? {
            Ok(text) => Ok(Ok(self.text(text)?)),
            Err(sentence) => Ok(Err(sentence)),
        }
    }

    fn drop(&mut self, table: Resource<GuestTable>) -> wasmtime::Result<()> {
        self.table.delete(table)?;
        Ok(())
    }
}
