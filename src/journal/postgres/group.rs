//! One group of requests: the arguments of one call of `accept`, which stores all of them in one transaction.
//!
//! **Invariant**: no two requests of a group have a claim in common, and a group that is called again is the same.

use std::collections::HashSet;

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::text::stored;
use crate::log::LogEntry;
use crate::queue::Job;
use crate::{Claim, JournalError, Receipt, Recheck, RejectedBody, Submission};
use ::postgres::DatabaseError;
use base::clock::Lived;
use base::order::Seq;

/// Numbers of one transaction: 4,096, of which the last belongs to an entry that is placed, and the first to none.
const REQUESTS_MAX: usize = 4_094;
/// About the bytes of one call. A request that is larger goes alone. The server has all of a call in memory.
const BYTES_MAX: usize = 32 << 20;

const ACCEPT: &str = "SELECT ord, seq, first_id, first_items FROM accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
     $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28) ORDER BY ord";
const KEEP_BODY: &str = "INSERT INTO bodies (seq, lived_ms, connector, bytes, test, stream, content_type, item_key, idempotency_key, \
     headers, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING";

pub(super) type To = oneshot::Sender<Result<Receipt, JournalError>>;

/// What of a request nothing but the log has.
struct Logged {
    connector: String,
    stream: String,
    key: String,
    client: String,
    item_key: Option<String>,
    idempotency_key: Option<String>,
    error: Option<String>,
    headers: Option<String>,
    sender: Option<String>,
    delivery: Option<String>,
}

impl Logged {
    fn of(log: &LogEntry) -> Self {
        let text = |text: &str| stored(text).into_owned();
        let some = |of: Option<&str>| of.map(text);
        let sender = log.sender.as_deref();
        Self {
            connector: text(&log.connector),
            stream: text(&log.stream),
            key: text(&log.key),
            client: log.client.to_string(),
            item_key: some(log.item_key.as_deref()),
            idempotency_key: some(log.idempotency_key.as_deref()),
            error: some(log.error.as_deref()),
            headers: some(log.headers.as_deref()),
            sender: (sender.and_then(|sender| serde_json::to_string(sender).ok()))
                .map(|json| text(&json)),
            delivery: sender.and_then(|sender| some(sender.delivery.as_deref())),
        }
    }
}

/// The columns of a call.
#[derive(Debug, Default)]
pub(super) struct Columns {
    ids: Vec<Uuid>,
    received: Vec<i64>,
    connectors: Vec<String>,
    streams: Vec<String>,
    outcomes: Vec<i16>,
    endpoints: Vec<i16>,
    statuses: Vec<i16>,
    items: Vec<i32>,
    bytes: Vec<i64>,
    keys: Vec<String>,
    clients: Vec<String>,
    item_keys: Vec<Option<String>>,
    idempotency_keys: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    headers: Vec<Option<String>>,
    again: Vec<Option<Uuid>>,
    senders: Vec<Option<String>>,
    deliveries: Vec<Option<String>>,
    checksums: Vec<Option<i64>>,
    arrived: Vec<Option<i64>>,
    payloads: Vec<Option<Vec<u8>>>,
    scopes: Vec<Option<Uuid>>,
    seconds: Vec<Option<Uuid>>,
    digests: Vec<Option<i64>>,
    /// Scopes of all claims. A second request with one of them waits for the next group, so that no two of a group have
    /// a claim in common.
    held: HashSet<Uuid>,
    /// Bodies of refused requests, each with the place of its request.
    kept: Vec<(usize, RejectedBody)>,
    size: usize,
}

/// What is called together, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) columns: Columns,
    pub(super) waiting: Vec<Waiting>,
}

/// Who waits for a request of a group.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// None: what is only logged.
    pub(super) to: Option<To>,
    pub(super) recheck: Option<Recheck>,
}

/// A request of a group that is committed.
pub(super) struct Committed {
    pub(super) seq: Seq,
    pub(super) receipt: Receipt,
    /// Whether the lanes get it.
    pub(super) is_entry: bool,
}

impl Group {
    /// Takes a job in; gives it back if it belongs into the next group, or is none that is stored with others.
    pub(super) fn add(&mut self, job: Job) -> Result<(), Job> {
        let columns = &mut self.columns;
        match job {
            Job::Submit(mut submission, to) if columns.fit(&submission) => {
                self.waiting.push(Waiting {
                    to: Some(to),
                    recheck: submission.recheck.take(),
                });
                columns.submit(*submission);
            }
            Job::Log(entry, body) if columns.len() < REQUESTS_MAX => {
                if let Some(body) = body {
                    columns.size += body.byte_len();
                    columns.kept.push((columns.len(), *body));
                }
                columns.log(&entry, None, [None; 2]);
                self.waiting.push(Waiting::default());
            }
            other => return Err(other),
        }
        Ok(())
    }

    /// Refuses the requests that are no longer admitted.
    pub(super) fn refuse_changed(&mut self) {
        let is_admitted = |waiting: &Waiting| {
            let recheck = waiting.recheck.as_ref();
            recheck.is_none_or(Recheck::is_admitted)
        };
        let kept: Vec<bool> = self.waiting.iter().map(is_admitted).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        self.columns.retain(&kept);
        let waiting = std::mem::take(&mut self.waiting).into_iter().zip(kept);
        for (waiting, is_kept) in waiting {
            match (is_kept, waiting.to) {
                (true, to) => self.waiting.push(Waiting { to, ..waiting }),
                (false, Some(to)) => _ = to.send(Err(JournalError::NotAdmitted)),
                (false, None) => {}
            }
        }
    }
}

impl Columns {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn fit(&self, submission: &Submission) -> bool {
        let claims = [submission.claim, submission.second];
        let mut scopes = claims.iter().flatten().map(scope);
        self.ids.is_empty()
            || (self.len() < REQUESTS_MAX
                && self.size + submission.items.byte_len() <= BYTES_MAX
                && !scopes.any(|scope| self.held.contains(&scope)))
    }

    fn submit(&mut self, submission: Submission) {
        let is_entry = submission.log.outcome.action().is_some();
        let payload = is_entry.then(|| (submission.arrived, submission.items.as_bytes().to_vec()));
        let mut claims = [submission.claim, submission.second];
        if claims[0].map(|claim| claim.scope) == claims[1].map(|claim| claim.scope) {
            claims[1] = None;
        }
        self.log(&submission.log, payload, claims);
    }

    fn log(
        &mut self,
        log: &LogEntry,
        payload: Option<(Lived, Vec<u8>)>,
        claims: [Option<Claim>; 2],
    ) {
        let texts = Logged::of(log);
        self.ids.push(log.request_id);
        self.received.push(log.received_at.to_column());
        self.connectors.push(texts.connector);
        self.streams.push(texts.stream);
        self.outcomes.push(small(log.outcome.code()));
        self.endpoints.push(small(log.endpoint.code()));
        self.statuses.push(small(i64::from(log.http_status)));
        self.items
            .push(i32::try_from(log.items).unwrap_or(i32::MAX));
        self.bytes.push(log.bytes.cast_signed());
        self.keys.push(texts.key);
        self.clients.push(texts.client);
        self.item_keys.push(texts.item_key);
        self.idempotency_keys.push(texts.idempotency_key);
        self.errors.push(texts.error);
        self.headers.push(texts.headers);
        self.again.push(log.sent_again_from);
        self.senders.push(texts.sender);
        self.deliveries.push(texts.delivery);
        let (arrived, payload) = payload.unzip();
        self.size += log.byte_len() + payload.as_ref().map_or(0, Vec::len);
        let checksum = payload.as_ref().map(|bytes| crc32fast::hash(bytes));
        self.checksums.push(checksum.map(i64::from));
        self.arrived.push(arrived.map(Lived::to_column));
        self.payloads.push(payload);
        let [first, second] = claims.map(|claim| claim.as_ref().map(scope));
        self.held.extend([first, second].into_iter().flatten());
        self.scopes.push(first);
        self.seconds.push(second);
        let digest = claims[0].or(claims[1]);
        self.digests
            .push(digest.map(|claim| i64::from_be_bytes(claim.payload)));
    }

    /// Drops the requests that are not kept.
    fn retain(&mut self, kept: &[bool]) {
        fn of<T>(column: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            column.retain(|_| kept.next().is_some_and(|kept| *kept));
        }
        of(&mut self.ids, kept);
        of(&mut self.received, kept);
        of(&mut self.connectors, kept);
        of(&mut self.streams, kept);
        of(&mut self.outcomes, kept);
        of(&mut self.endpoints, kept);
        of(&mut self.statuses, kept);
        of(&mut self.items, kept);
        of(&mut self.bytes, kept);
        of(&mut self.keys, kept);
        of(&mut self.clients, kept);
        of(&mut self.item_keys, kept);
        of(&mut self.idempotency_keys, kept);
        of(&mut self.errors, kept);
        of(&mut self.headers, kept);
        of(&mut self.again, kept);
        of(&mut self.senders, kept);
        of(&mut self.deliveries, kept);
        of(&mut self.checksums, kept);
        of(&mut self.arrived, kept);
        of(&mut self.payloads, kept);
        of(&mut self.scopes, kept);
        of(&mut self.seconds, kept);
        of(&mut self.digests, kept);
        let place = |at: usize| kept[..at].iter().filter(|kept| **kept).count();
        self.kept.retain(|(at, _)| kept[*at]);
        for (at, _) in &mut self.kept {
            *at = place(*at);
        }
    }

    /// Calls once, for a node whose lookups include the catalog's entries up to `catalog`: what became of each request.
    pub(super) async fn call(
        &self,
        connection: &mut PgConnection,
        (node, number, catalog): (Uuid, i64, i64),
    ) -> Result<Vec<PgRow>, DatabaseError> {
        if self.kept.is_empty() {
            return self.accept(connection, (node, number, catalog)).await;
        }
        let mut transaction = connection.begin().await?;
        let rows = (self.accept(&mut transaction, (node, number, catalog))).await?;
        for (at, body) in &self.kept {
            let Some(row) = rows.get(*at) else {
                continue;
            };
            let headers = body.headers.as_ref();
            sqlx::query(KEEP_BODY)
                .bind(row.try_get::<i64, _>("seq")?)
                .bind(Lived::now().to_column())
                .bind(&self.connectors[*at])
                .bind(i64::try_from(body.byte_len()).unwrap_or(i64::MAX))
                .bind(body.test)
                .bind(&*body.stream)
                .bind(body.content_type.as_deref())
                .bind(body.item_key.as_deref())
                .bind(body.idempotency_key.as_deref())
                .bind(headers.and_then(|pairs| serde_json::to_string(pairs).ok()))
                .bind(&body.body[..])
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(rows)
    }

    async fn accept(
        &self,
        connection: &mut PgConnection,
        (node, number, catalog): (Uuid, i64, i64),
    ) -> Result<Vec<PgRow>, DatabaseError> {
        let has_claims = !self.held.is_empty();
        let rows = sqlx::query(ACCEPT)
            .bind(node)
            .bind(number)
            .bind(catalog)
            .bind(Lived::now().to_column())
            .bind(&self.ids)
            .bind(&self.received)
            .bind(&self.connectors)
            .bind(&self.streams)
            .bind(&self.outcomes)
            .bind(&self.endpoints)
            .bind(&self.statuses)
            .bind(&self.items)
            .bind(&self.bytes)
            .bind(&self.keys)
            .bind(&self.clients)
            .bind(&self.item_keys)
            .bind(&self.idempotency_keys)
            .bind(&self.errors)
            .bind(&self.headers)
            .bind(&self.again)
            .bind(&self.senders)
            .bind(&self.deliveries)
            .bind(&self.checksums)
            .bind(&self.arrived)
            .bind(&self.payloads)
            .bind(has_claims.then_some(&self.scopes))
            .bind(has_claims.then_some(&self.seconds))
            .bind(has_claims.then_some(&self.digests))
            .fetch_all(connection)
            .await?;
        Ok(rows)
    }

    /// What became of each request, in their order, once they are committed.
    pub(super) fn committed(&self, rows: &[PgRow]) -> Result<Vec<Committed>, sqlx::Error> {
        let mut committed = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let first: Option<Uuid> = row.try_get("first_id")?;
            let items: i32 = row.try_get("first_items")?;
            committed.push(Committed {
                seq: Seq::from_column(row.try_get("seq")?),
                receipt: Receipt {
                    request_id: first.unwrap_or(self.ids[at]),
                    items: items.unsigned_abs(),
                    replayed: first.is_some(),
                },
                is_entry: first.is_none() && self.arrived[at].is_some(),
            });
        }
        Ok(committed)
    }
}

fn scope(claim: &Claim) -> Uuid {
    Uuid::from_bytes(claim.scope)
}

fn small(number: i64) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// A request that is decided from what is settled, and stored alone. It goes alone, because its number is given and not
/// that of its transaction.
pub(super) struct Placed {
    pub(super) submission: Submission,
    pub(super) seq: Seq,
}

impl Placed {
    /// Places it once.
    pub(super) async fn call(
        &self,
        connection: &mut PgConnection,
        node: Uuid,
    ) -> Result<(), DatabaseError> {
        const PLACE: &str = "SELECT place($1, (SELECT fence FROM log_head WHERE owner = $1), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
        let Submission {
            log,
            items,
            arrived,
            ..
        } = &self.submission;
        let texts = Logged::of(log);
        let payload = &items.as_bytes()[..];
        sqlx::query(PLACE)
            .bind(node)
            .bind(self.seq.to_column())
            .bind(log.request_id)
            .bind(log.received_at.to_column())
            .bind(texts.connector)
            .bind(texts.stream)
            .bind(small(log.outcome.code()))
            .bind(small(log.endpoint.code()))
            .bind(small(i64::from(log.http_status)))
            .bind(i32::try_from(log.items).unwrap_or(i32::MAX))
            .bind(log.bytes.cast_signed())
            .bind(texts.key)
            .bind(texts.client)
            .bind(texts.error)
            .bind(log.sent_again_from)
            .bind(i64::from(crc32fast::hash(payload)))
            .bind(arrived.to_column())
            .bind(payload)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// What it comes to.
    pub(super) fn receipt(&self) -> Receipt {
        Receipt {
            request_id: self.submission.log.request_id,
            items: self.submission.log.items,
            replayed: false,
        }
    }
}
