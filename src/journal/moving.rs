//! Moves what a journal holds from a file into the database of a cluster, and back.
//!
//! Both engines have the same five parts (`Part`). A part is read and stored in batches of rows. Each row is counted where
//! it comes from and again where it was stored (`replica::Tally`), so that the two can be compared.
//!
//! **Invariant**: numbers and times stay what they are. Nothing of the source is changed.

mod times;

use std::path::Path;

use rusqlite::types::{Value, ValueRef};

use super::StorageError;
use super::file::moving::{FileRows, NewFile};
use super::postgres::moving as database;
use ::postgres::{DatabaseError, MoveIn, MoveOut, STATEMENT_MAX, within};
use replica::{MovedPart, Tally, TallyCounter};
pub(super) use times::{Gaps, Place, Points, spans};

/// Rows of a batch, at most, and bytes of it unless the first row is larger. The target has a transaction open
/// meanwhile, so no batch may take long.
pub(super) const ROWS_MAX: u32 = 2_000;
pub(super) const BYTES_MAX: usize = 8 << 20;
/// An idempotency key is remembered for so long, with the margin of a cluster.
pub(super) const CLAIMS_LIVE_MS: i64 = 86_460_000;

/// What both engines have, in the order in which it is moved: what others refer to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Requests,
    Payloads,
    Claims,
    Bodies,
    Quarantine,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    /// Of two bytes, and of four.
    Small,
    Medium,
    Flag,
    Text,
    /// Of 16 bytes.
    Id,
    /// Of 8 bytes.
    Digest,
    Bytes,
}

/// A column of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// In the database.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether the file has it as it is, and does not work it out of something else. What is derived can differ without
    /// a loss.
    pub(super) is_compared: bool,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_compared: true,
    }
}

const fn derived(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_compared: false,
    }
}

const REQUESTS: &[Column] = &[
    column("seq", Kind::Number),
    column("request_id", Kind::Id),
    column("received_ms", Kind::Number),
    column("connector", Kind::Text),
    column("stream", Kind::Text),
    column("outcome", Kind::Small),
    column("endpoint", Kind::Small),
    column("http_status", Kind::Small),
    column("items", Kind::Medium),
    column("bytes", Kind::Number),
    column("key", Kind::Text),
    column("client", Kind::Text),
    column("item_key", Kind::Text),
    column("idempotency_key", Kind::Text),
    column("duplicate_of", Kind::Id),
    column("errors", Kind::Text),
    column("headers", Kind::Text),
    column("sent_again_from", Kind::Id),
    column("sender", Kind::Text),
    derived("delivery", Kind::Text),
];
const PAYLOADS: &[Column] = &[
    column("seq", Kind::Number),
    column("crc32", Kind::Number),
    column("outcome", Kind::Small),
    column("received_ms", Kind::Number),
    column("request_id", Kind::Id),
    column("stream", Kind::Text),
    column("items", Kind::Bytes),
    derived("arrived_ms", Kind::Number),
];
const CLAIMS: &[Column] = &[
    column("scope", Kind::Id),
    column("request_id", Kind::Id),
    column("digest", Kind::Digest),
    column("lived_ms", Kind::Number),
    column("items", Kind::Medium),
];
const BODIES: &[Column] = &[
    column("seq", Kind::Number),
    column("bytes", Kind::Number),
    column("test", Kind::Flag),
    column("stream", Kind::Text),
    column("content_type", Kind::Bytes),
    column("item_key", Kind::Bytes),
    column("idempotency_key", Kind::Bytes),
    column("headers", Kind::Text),
    column("body", Kind::Bytes),
    derived("connector", Kind::Text),
    derived("lived_ms", Kind::Number),
];
const QUARANTINE: &[Column] = &[
    column("seq", Kind::Number),
    column("reason", Kind::Text),
    column("crc32", Kind::Number),
    column("items", Kind::Bytes),
    derived("stream", Kind::Text),
    derived("outcome", Kind::Small),
];

impl Part {
    pub(super) const ALL: [Self; 5] = [
        Self::Requests,
        Self::Payloads,
        Self::Claims,
        Self::Bodies,
        Self::Quarantine,
    ];

    /// Its table in the database.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Payloads => "payloads",
            Self::Claims => "claims",
            Self::Bodies => "bodies",
            Self::Quarantine => "quarantine",
        }
    }

    /// What people call it.
    fn name(self) -> &'static str {
        match self {
            Self::Requests => "request log",
            Self::Payloads => "waiting requests",
            Self::Claims => "idempotency keys",
            Self::Bodies => "refused bodies",
            Self::Quarantine => "quarantine",
        }
    }

    /// The first is the key, in whose order rows are read.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Requests => REQUESTS,
            Self::Payloads => PAYLOADS,
            Self::Claims => CLAIMS,
            Self::Bodies => BODIES,
            Self::Quarantine => QUARANTINE,
        }
    }

    /// The column that makes its rows large.
    pub(super) fn large(self) -> Option<&'static str> {
        match self {
            Self::Payloads | Self::Quarantine => Some("items"),
            Self::Bodies => Some("body"),
            Self::Requests | Self::Claims => None,
        }
    }

    /// What lies before every key.
    fn before(self) -> Value {
        match self {
            Self::Claims => Value::Blob(vec![0; 16]),
            _ => Value::Integer(-1),
        }
    }

    /// Counts the values of a row that are compared.
    fn count(self, counter: &mut TallyCounter, row: &Row) {
        let columns = self.columns().iter().zip(row);
        let compared = columns.filter(|(column, _)| column.is_compared);
        counter.add(compared.map(|(_, value)| ValueRef::from(value)));
    }
}

/// A part that is being read: how far, and what was counted.
struct Reading {
    part: Part,
    /// Rows behind it are next. By key and not by number of rows, so that each batch is found in the index.
    key: Value,
    counter: TallyCounter,
}

impl Reading {
    /// From its first row.
    fn of(part: Part) -> Self {
        Self {
            part,
            key: part.before(),
            counter: TallyCounter::default(),
        }
    }

    /// Counts the next rows. False: there are none, and the part is read.
    fn count(&mut self, rows: &[Row]) -> bool {
        let Some(last) = rows.last() else {
            return false;
        };
        self.key = last[0].clone();
        for row in rows {
            self.part.count(&mut self.counter, row);
        }
        true
    }
}

/// The values of a row, in the order of [`Part::columns`].
pub(super) type Row = Vec<Value>;

/// Is called with what is being done.
pub type MoveProgress<'a> = &'a mut dyn FnMut(&str);

/// A row of this part is not what it should be.
pub(super) fn unreadable(part: Part, key: &Value, column: &str) -> StorageError {
    let key = match key {
        Value::Integer(number) => number.to_string(),
        _ => "?".to_owned(),
    };
    StorageError::Row(format!(
        "the column {column} of row {key} of {} cannot be read",
        part.table()
    ))
}

/// A journal that is to be moved into a cluster, and that nobody writes.
pub struct JournalAtRest {
    rows: FileRows,
    place: Place,
}

impl JournalAtRest {
    /// Opens the journal at `path`, and collects its idempotency keys. Blocks for as long as there are many: it is called
    /// before the transaction in which the journal is stored, which a server ends when it is idle.
    ///
    /// # Errors
    /// The file's.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let rows = FileRows::open(path)?;
        let place = rows.place()?;
        Ok(Self { rows, place })
    }

    /// Stores everything that it has in the cluster: log entries, requests that wait, idempotency keys of the last day, refused
    /// bodies, and payloads that could not be read. What was stored is read again. Between two statements a batch is read.
    /// The counts are of what the server has, because only that survives.
    ///
    /// # Errors
    /// The file's or the database's: then nothing will be committed.
    pub async fn move_in(
        self,
        target: &mut MoveIn,
        progress: MoveProgress<'_>,
    ) -> Result<Vec<MovedPart>, StorageError> {
        let connection = target.connection();
        bounded(database::begin_in(connection, &self.place)).await?;
        let mut moved = Vec::new();
        for part in Part::ALL {
            progress(part.name());
            let mut reading = Reading::of(part);
            loop {
                let rows = self.rows.after(part, &reading.key)?;
                if !reading.count(&rows) {
                    break;
                }
                bounded(database::store(connection, part, rows)).await?;
            }
            moved.push(MovedPart {
                name: part.name(),
                source: reading.counter.end(),
                target: stored_tally(connection, part).await?,
            });
        }
        Ok(moved)
    }
}

/// Makes a journal at `path` of everything that the cluster has at one moment. It gives no number to a request that the cluster
/// may give to another. What was written is read again.
///
/// # Errors
/// The file's or the database's: the file is of no use then.
pub async fn move_out(
    source: &mut MoveOut,
    path: &Path,
    progress: MoveProgress<'_>,
) -> Result<Vec<MovedPart>, StorageError> {
    let connection = source.snapshot().await.map_err(StorageError::Database)?;
    let place = bounded(database::place(connection)).await?;
    let mut target = NewFile::make(path, place.oldest)?;
    let mut tallies = Vec::new();
    for part in Part::ALL {
        progress(part.name());
        let mut reading = Reading::of(part);
        loop {
            let rows = bounded(database::after(connection, part, &reading.key)).await?;
            if !reading.count(&rows) {
                break;
            }
            target.store(part, rows)?;
        }
        tallies.push((part, reading.counter.end()));
    }
    target.end(&place)?;
    let written = FileRows::open(path)?;
    let moved = tallies.into_iter().map(|(part, source)| {
        Ok(MovedPart {
            name: part.name(),
            source,
            target: written.tally(part)?,
        })
    });
    moved.collect()
}

/// What [`JournalAtRest::move_in`] would store of the journal at `path`, which nobody writes.
///
/// # Errors
/// The file's.
pub fn tallies(path: &Path) -> Result<Vec<(&'static str, Tally)>, StorageError> {
    let source = FileRows::open(path)?;
    let parts = Part::ALL.into_iter();
    let tallies = parts.map(|part| Ok((part.name(), source.tally(part)?)));
    tallies.collect()
}

/// Whether the journal at `path` can be moved: a daemon of this version has finished what there is to do at a start.
///
/// # Errors
/// The file's.
pub fn is_current(path: &Path) -> Result<bool, StorageError> {
    FileRows::is_current(path)
}

impl FileRows {
    /// What the file has of a part.
    fn tally(&self, part: Part) -> Result<Tally, StorageError> {
        let mut reading = Reading::of(part);
        while reading.count(&self.after(part, &reading.key)?) {}
        Ok(reading.counter.end())
    }
}

/// What the database has of a part.
async fn stored_tally(
    connection: &mut sqlx::PgConnection,
    part: Part,
) -> Result<Tally, StorageError> {
    let mut reading = Reading::of(part);
    while reading.count(&bounded(database::after(connection, part, &reading.key)).await?) {}
    Ok(reading.counter.end())
}

/// The answer of the database, if it comes in time.
async fn bounded<T>(
    asking: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, StorageError> {
    let answer = within(STATEMENT_MAX, asking).await;
    answer.map_err(StorageError::Database)
}
