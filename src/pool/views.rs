//! The views: for each stream two, with a column for each field that was ever seen: `stream_<name>` has what sources said,
//! `shown_<name>` what is shown, with overrides and holds.
//!
//! `apply` notes every item; an unknown set of field names (an item's `shape`) is looked at once. New fields are stored
//! by the transaction that brings the first item with them, which costs it a few rows. While there are few streams it
//! makes their views, too. With more, views are made after it, in transactions of their own
//! ([`Pool::refresh_views`](super::Pool::refresh_views)): the daemon calls that once a second, because every connection
//! reads the whole schema again after each change of it.
//!
//! SQLite reads JSON to a depth of 1,000, and one item beyond that would make its whole view
//! unreadable: `ingest::flatten` refuses it.
//!
//! **Invariant**: no text from outside enters SQL unquoted. A stored field whose view lacks it is found at the next
//! start.

mod sql;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use item::{Action, ItemMeta, ItemRef, members, shape};
use sql::{StreamView, free, identifier};

/// SQLite's own limit is 2,000. Fields beyond it are in `fields` all the same.
const COLUMNS_MAX: usize = 1_000;
/// Longer names make no column.
const NAME_BYTES_MAX: usize = 256;
/// Shapes remembered for each stream; when there are more, they are looked at again. A source can make any number of
/// them, so memory is bounded.
const SHAPES_MAX: usize = 10_000;

/// With so few streams a changed schema is read again within a millisecond: views are made by the transaction itself.
const FEW_STREAMS: usize = 64;

/// Views are made for so long in one transaction, at least one: lanes wait meanwhile.
const SLICE: Duration = Duration::from_millis(20);

/// Names of the views of what sources said begin so; those of what is shown with `shown_`.
const NAME_BEGIN: &str = "stream_";

/// Columns that every view has beside its fields.
const OWN_COLUMNS: [(&str, &str); 4] = [
    ("_key", "key"),
    ("_seq", "seq"),
    ("_created_at", "created_at"),
    ("_updated_at", "updated_at"),
];

#[derive(Debug, Default)]
pub(super) struct Views {
    streams: HashMap<Arc<str>, StreamView>,
    /// Names of views in use, in lower case: SQLite does not tell `A` from `a`.
    names: HashSet<String>,
    /// Streams with a name or fields that are not stored.
    noted: HashSet<Arc<str>>,
    /// What the open transaction stores, and what the file had of it before.
    storing: Vec<(Arc<str>, Stored)>,
    /// With at most so many streams a transaction makes the views of what it stores.
    pub(super) few: usize,
    /// The open transaction has made them.
    made_in_passing: bool,
    /// Streams whose view must be made again.
    stale: HashSet<Arc<str>>,
}

/// What the file knows of a stream's view.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    name: bool,
    fields: usize,
}

impl Views {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut views = Self {
            few: FEW_STREAMS,
            ..Self::default()
        };
        let mut statement = connection.prepare("SELECT stream, view FROM views")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stream: String = row.get(0)?;
            let name: String = row.get(1)?;
            views.names.insert(name.to_ascii_lowercase());
            let view = views.streams.entry(stream.into()).or_default();
            view.name = Some(name);
            view.stored.name = true;
        }
        let mut statement =
            connection.prepare("SELECT stream, name FROM view_fields ORDER BY stream, position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stream: String = row.get(0)?;
            let view = views.streams.entry(stream.into()).or_default();
            view.add(row.get(1)?);
            view.stored.fields = view.fields.len();
        }
        let mut statement =
            connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'view'")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let schema: HashMap<String, String> = rows.collect::<Result<_, _>>()?;
        for (stream, view) in &mut views.streams {
            let made = view.sql(stream);
            view.made = made.iter().any(|(name, _)| schema.contains_key(name));
            let mut all = made.iter();
            if made.is_empty() || !all.all(|(name, sql)| schema.get(name) == Some(sql)) {
                views.stale.insert(Arc::clone(stream));
            }
        }
        Ok(views)
    }

    /// The streams that have items, or had some.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Arc<str>> {
        self.streams.keys()
    }

    /// Takes notice of the fields of a stream's items. Cheap for shapes that were seen before.
    pub(super) fn note<'a>(
        &mut self,
        stream: &Arc<str>,
        items: impl Iterator<Item = &'a ItemRef<'a>>,
    ) {
        if !self.streams.contains_key(stream) {
            self.streams
                .insert(Arc::clone(stream), StreamView::default());
        }
        let Some(view) = self.streams.get_mut(stream) else {
            return;
        };
        let mut changed = view.name.is_none();
        for item in items {
            if view.shapes.contains(&item.shape) {
                continue;
            }
            if view.shapes.len() >= SHAPES_MAX {
                view.shapes.clear();
            }
            view.shapes.insert(item.shape);
            for (name, _) in members(item.fields) {
                if view.fields.len() < COLUMNS_MAX
                    && name.len() <= NAME_BYTES_MAX
                    && !view.known.contains(name)
                {
                    view.add(name.to_owned());
                    changed = true;
                }
            }
        }
        if changed {
            self.noted.insert(Arc::clone(stream));
        }
    }

    /// Stores what was noted. Runs inside a transaction of the caller, who says how it [`ended`](Self::ended).
    pub(super) fn store(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let first = self.storing.len();
        for stream in self.noted.drain() {
            if let Some(view) = self.streams.get(&stream) {
                self.storing.push((stream, view.stored));
            }
        }
        for (stream, stored) in &self.storing[first..] {
            let Some(view) = self.streams.get_mut(stream) else {
                continue;
            };
            if !stored.name {
                let names = &mut self.names;
                let name = view
                    .name
                    .get_or_insert_with(|| free(names, &format!("{NAME_BEGIN}{stream}")));
                connection
                    .prepare_cached("INSERT INTO views (stream, view) VALUES (?1, ?2)")?
                    .execute([&**stream, name])?;
            }
            let mut insert = connection.prepare_cached(
                "INSERT INTO view_fields (stream, position, name) VALUES (?1, ?2, ?3)",
            )?;
            for (position, field) in view.fields.iter().enumerate().skip(stored.fields) {
                insert.execute(rusqlite::params![&**stream, position.cast_signed(), field])?;
            }
            view.stored = Stored {
                name: true,
                fields: view.fields.len(),
            };
        }
        Ok(())
    }

    /// The transaction is committed, or rolled back: then the next one stores the same.
    pub(super) fn ended(&mut self, committed: bool) {
        while let Some((stream, before)) = self.storing.pop() {
            if committed && self.made_in_passing {
                if let Some(view) = self.streams.get_mut(&stream) {
                    view.made = true;
                }
            } else if committed {
                self.stale.insert(stream);
            } else if let Some(view) = self.streams.get_mut(&stream) {
                view.stored = before;
                self.noted.insert(stream);
            }
        }
        self.made_in_passing = false;
    }

    /// Makes the views of what the transaction stores, if there are few streams.
    pub(super) fn make_few(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        self.made_in_passing = !self.storing.is_empty() && self.streams.len() <= self.few;
        if self.made_in_passing {
            for (stream, _) in &self.storing {
                self.make_one(connection, stream)?;
            }
        }
        Ok(())
    }

    /// Makes views that lack something, until the time is over. Runs inside a transaction of the caller, who calls
    /// [`made`](Self::made) with what this returns when it is committed.
    pub(super) fn make(&self, connection: &Connection) -> Result<Vec<Arc<str>>, rusqlite::Error> {
        let begun = Instant::now();
        let mut made = Vec::new();
        for stream in &self.stale {
            self.make_one(connection, stream)?;
            made.push(Arc::clone(stream));
            if begun.elapsed() >= SLICE {
                break;
            }
        }
        Ok(made)
    }

    fn make_one(&self, connection: &Connection, stream: &str) -> Result<(), rusqlite::Error> {
        let Some(view) = self.streams.get(stream) else {
            return Ok(());
        };
        for (view_name, sql) in view.sql(stream) {
            let name = identifier(&view_name);
            let done = match view.made {
                true => connection.execute_batch(&format!("DROP VIEW IF EXISTS {name}; {sql}")),
                false => connection.execute_batch(&sql),
            };
            match done {
                // Somebody else has put something of this name into the file: that is no reason to stop.
                Err(error) if is_refused(&error) => {
                    tracing::warn!(view = view_name, %error, "the view cannot be created");
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// The transaction that made these is committed.
    pub(super) fn made(&mut self, streams: Vec<Arc<str>>) {
        for stream in streams {
            self.stale.remove(&stream);
            if let Some(view) = self.streams.get_mut(&stream) {
                view.made = true;
            }
        }
    }

    /// Whether a view lacks something.
    pub(super) fn are_stale(&self) -> bool {
        !self.stale.is_empty()
    }
}

/// SQLite does not take the statement, whatever the state of the disk.
fn is_refused(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqlInputError { .. } => true,
        error => error.sqlite_error_code() == Some(rusqlite::ErrorCode::Unknown),
    }
}

/// Learns the fields of every stream from the items, because what the file knows of them is not whole. The views are
/// made at the next start.
pub(super) fn learn(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch("DELETE FROM view_fields; DELETE FROM views;")?;
    let mut views = Views::load(connection)?;
    let mut statement =
        connection.prepare("SELECT stream, fields FROM items ORDER BY stream, accepted_seq")?;
    let mut rows = statement.query([])?;
    let mut stream: Arc<str> = "".into();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        if *stream != *name {
            stream = name.into();
        }
        let fields = row.get_ref(1)?.as_str()?;
        let item = ItemRef {
            key: "",
            fields,
            shape: shape(fields),
            action: Action::Upsert,
            meta: ItemMeta::default(),
            sent_version: "",
        };
        views.note(&stream, std::iter::once(&item));
    }
    views.store(connection)
}
