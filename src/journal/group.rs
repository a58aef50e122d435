//! One group: everything that waits for the writer, in one transaction.
//!
//! **Invariant**: log entry, payload and idempotency claim of a request are written by the same
//! transaction, and the claim is looked up in it, so two requests with one key are never both new.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};
use uuid::Uuid;

use super::claims::{Claims, Held};
use super::log::{Client, LogEntry, Outcome};
use super::queue::Job;
use super::rejected::Bodies;
use super::spans::Spans;
use super::writer::{Answer, Answers};
use super::{Receipt, Submission};
use crate::batch::Entry;
use crate::{clock, sqlite};

const INSERT_REQUEST: &str = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, \
     http_status, items, bytes, key, client, item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
const INSERT_PAYLOAD: &str = "INSERT INTO payloads (seq, crc32, items) VALUES (?1, ?2, ?3)";

pub(super) struct Group<'a> {
    connection: &'a Connection,
    claims: &'a mut Claims,
    bodies: &'a mut Bodies,
    last_seq: u64,
    spans: Spans,
    /// Who called last, as the log has it: most often the same as before.
    client: (Client, String),
}

/// The statements that most jobs need, looked up once for the group.
struct Statements<'a> {
    request: CachedStatement<'a>,
    payload: CachedStatement<'a>,
}

impl<'a> Group<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        claims: &'a mut Claims,
        bodies: &'a mut Bodies,
        last_seq: u64,
        spans: Spans,
    ) -> Self {
        Self {
            connection,
            claims,
            bodies,
            last_seq,
            spans,
            client: (Client::Many, String::new()),
        }
    }

    /// The highest sequence number given out. Counts only if [`Group::write`] succeeded.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The stretch of the log that is not closed yet. Counts only if [`Group::write`] succeeded.
    pub(super) fn spans(&self) -> Spans {
        self.spans
    }

    /// Writes and commits the jobs. On an error those that were not looked at stay in `jobs`.
    pub(super) fn write(
        &mut self,
        jobs: &mut Vec<Job>,
        answers: &mut Answers,
    ) -> Result<(), rusqlite::Error> {
        sqlite::begin(self.connection)?;
        let mut statements = Statements {
            request: self.connection.prepare_cached(INSERT_REQUEST)?,
            payload: self.connection.prepare_cached(INSERT_PAYLOAD)?,
        };
        answers.receipts.reserve(jobs.len());
        let mut waiting = jobs.drain(..);
        let mut written = Ok(());
        for job in waiting.by_ref() {
            written = self.job(&mut statements, job, answers);
            if written.is_err() {
                break;
            }
        }
        let rest: Vec<Job> = waiting.collect();
        jobs.extend(rest);
        written?;
        sqlite::commit(self.connection)
    }

    fn job(
        &mut self,
        statements: &mut Statements<'_>,
        job: Job,
        answers: &mut Answers,
    ) -> Result<(), rusqlite::Error> {
        match job {
            Job::Submit(submission, to) => match self.submission(statements, *submission) {
                Ok((receipt, entry)) => answers.receipts.push(Answer { to, receipt, entry }),
                Err(error) => {
                    answers.refused.push(to);
                    return Err(error);
                }
            },
            Job::Ask(claims, answer) => {
                let now_ms = clock::lived_ms();
                let mut held = false;
                for claim in claims.iter().flatten() {
                    held |= self.claims.find(self.connection, claim, now_ms)?.is_some();
                }
                let _ = answer.send(held);
            }
            Job::Log(entry, body) => {
                self.log(statements, &entry, None)?;
                if let Some(body) = body {
                    self.bodies
                        .keep(self.connection, self.last_seq, &entry, &body)?;
                }
            }
            Job::Quarantine { seq, reason } => self.quarantine(seq, &reason)?,
            Job::Flush(answer) => answers.flushes.push(answer),
        }
        Ok(())
    }

    fn submission(
        &mut self,
        statements: &mut Statements<'_>,
        submission: Submission,
    ) -> Result<(Receipt, Option<Arc<Entry>>), rusqlite::Error> {
        let Submission {
            mut log,
            items,
            claim,
            second,
        } = submission;
        let now_ms = match claim.or(second) {
            Some(_) => clock::lived_ms(),
            None => 0,
        };
        for claim in [&claim, &second].into_iter().flatten() {
            if let Some(held) = self.claims.find(self.connection, claim, now_ms)? {
                log.outcome = Outcome::Duplicate;
                if held.payload != claim.payload {
                    log.error = Some(
                        "the payload differs from the one that this idempotency key first came with; the first one stands".into(),
                    );
                }
                self.log(statements, &log, Some(held.request_id))?;
                let receipt = Receipt {
                    request_id: held.request_id,
                    items: held.items,
                    replayed: true,
                };
                return Ok((receipt, None));
            }
        }
        for claim in [&claim, &second].into_iter().flatten() {
            let held = Held {
                request_id: log.request_id,
                items: log.items,
                payload: claim.payload,
                at_ms: now_ms,
            };
            self.claims.insert(self.connection, claim, held)?;
        }
        self.log(statements, &log, None)?;
        let receipt = Receipt {
            request_id: log.request_id,
            items: log.items,
            replayed: false,
        };
        let Some(action) = log.outcome.action() else {
            return Ok((receipt, None));
        };
        let bytes = items.as_bytes();
        statements.payload.execute(rusqlite::params![
            self.last_seq.cast_signed(),
            crc32fast::hash(bytes),
            &bytes[..],
        ])?;
        let entry = Entry {
            seq: self.last_seq,
            request_id: log.request_id,
            stream: log.stream,
            received_ms: log.received_ms,
            action,
            items,
        };
        Ok((receipt, Some(Arc::new(entry))))
    }

    fn log(
        &mut self,
        statements: &mut Statements<'_>,
        log: &LogEntry,
        duplicate_of: Option<Uuid>,
    ) -> Result<(), rusqlite::Error> {
        self.last_seq += 1;
        if self.client.0 != log.client {
            self.client = (log.client, log.client.to_string());
        }
        let client = &*self.client.1;
        statements.request.execute(rusqlite::params![
            self.last_seq.cast_signed(),
            &log.request_id.as_bytes()[..],
            log.received_ms.cast_signed(),
            &*log.connector,
            &*log.stream,
            log.outcome.code(),
            log.endpoint.code(),
            log.http_status,
            log.items,
            log.bytes.cast_signed(),
            &*log.key,
            client,
            log.item_key.as_deref(),
            log.idempotency_key.as_deref(),
            duplicate_of.as_ref().map(|id| &id.as_bytes()[..]),
            log.error.as_deref(),
            log.headers.as_deref(),
            log.sent_again_from.as_ref().map(|id| &id.as_bytes()[..]),
            (log.sender.as_ref()).and_then(|sender| serde_json::to_string(sender).ok()),
        ])?;
        self.spans.add(self.connection, self.last_seq, log, client)
    }

    fn quarantine(&self, seq: u64, reason: &str) -> Result<(), rusqlite::Error> {
        self.connection.execute(
            "INSERT OR IGNORE INTO quarantine (seq, reason, crc32, items) SELECT seq, ?2, crc32, items FROM payloads WHERE seq = ?1",
            rusqlite::params![seq.cast_signed(), reason],
        )?;
        self.connection
            .execute("DELETE FROM payloads WHERE seq = ?1", [seq.cast_signed()])?;
        Ok(())
    }
}
