//! One group: everything that waits for the writer, in one transaction.
//!
//! Payloads of one transaction share a row, see `journal/file/payloads.rs`.
//!
//! **Invariant**: log entry, payload and idempotency claim of a request are written by the same
//! transaction, and the claim is looked up in it, so two requests with one key are never both new.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Statement};
use uuid::Uuid;

use super::claims::{Claims, Held};
use super::payloads::{self, Joined};
use super::rejected_bodies::Bodies;
use super::segments::Segments;
use super::writer::{Answer, Answers};
use crate::log::{Client, LogEntry, Outcome};
use crate::queue::Job;
use crate::recent::Recent;
use crate::{JournalError, Receipt, Shared, Submission};
use base::clock::Lived;
use base::order::Seq;
use item::batch::Entry;

const INSERT_REQUEST: &str = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, \
     http_status, items, bytes, key, client, item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";

pub(super) struct Group<'a> {
    connection: &'a Connection,
    claims: &'a mut Claims,
    bodies: &'a mut Bodies,
    last_seq: Seq,
    spans: &'a mut Segments,
    /// Who called last, as the log has it: most often the same as before. So its text is made once and not for each
    /// entry.
    client: (Client, String),
    payloads: &'a mut Joined,
    /// Every sink has the requests up to here.
    released: Seq,
    recent: &'a Mutex<Recent>,
}

/// The statements that most jobs need, looked up once for the group. A lookup for each job would cost as much as a part
/// of the insert.
struct Statements<'a> {
    request: RequestStatement<'a>,
    payload: CachedStatement<'a>,
}

/// What was bound for the last entry stays bound: most often the next one has the same.
struct RequestStatement<'a> {
    statement: CachedStatement<'a>,
    connector: Option<Arc<str>>,
    stream: Option<Arc<str>>,
    key: Option<Arc<str>>,
    client: Option<Client>,
    item_key: Option<Arc<str>>,
    headers: Option<Arc<str>>,
    /// Which of the columns that mostly are empty are not, a bit each.
    filled: u32,
}

impl<'a> RequestStatement<'a> {
    fn new(connection: &'a Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            statement: connection.prepare_cached(INSERT_REQUEST)?,
            connector: None,
            stream: None,
            key: None,
            client: None,
            item_key: None,
            headers: None,
            filled: 0,
        })
    }

    fn execute(
        &mut self,
        seq: Seq,
        log: &LogEntry,
        client: &str,
        duplicate_of: Option<Uuid>,
    ) -> Result<(), rusqlite::Error> {
        let statement = &mut self.statement;
        statement.raw_bind_parameter(1, seq.to_column())?;
        statement.raw_bind_parameter(2, &log.request_id.as_bytes()[..])?;
        statement.raw_bind_parameter(3, log.received_at.to_column())?;
        bind_text(statement, 4, &mut self.connector, Some(&log.connector))?;
        bind_text(statement, 5, &mut self.stream, Some(&log.stream))?;
        statement.raw_bind_parameter(6, log.outcome.code())?;
        statement.raw_bind_parameter(7, log.endpoint.code())?;
        statement.raw_bind_parameter(8, log.http_status)?;
        statement.raw_bind_parameter(9, log.items)?;
        statement.raw_bind_parameter(10, log.bytes.cast_signed())?;
        bind_text(statement, 11, &mut self.key, Some(&log.key))?;
        if self.client.replace(log.client) != Some(log.client) {
            statement.raw_bind_parameter(12, client)?;
        }
        bind_text(statement, 13, &mut self.item_key, log.item_key.as_ref())?;
        bind_text(statement, 17, &mut self.headers, log.headers.as_ref())?;
        let sender = (log.sender.as_ref()).and_then(|sender| serde_json::to_string(sender).ok());
        let blob = |id: &Option<Uuid>| id.map(|id| Value::Blob(id.as_bytes().to_vec()));
        let optional: [(usize, Option<&str>, Option<Value>); 5] = [
            (14, log.idempotency_key.as_deref(), None),
            (15, None, blob(&duplicate_of)),
            (16, log.error.as_deref(), None),
            (18, None, blob(&log.sent_again_from)),
            (19, sender.as_deref(), None),
        ];
        for (column, text, value) in optional {
            let bit = 1 << column;
            let is_filled = text.is_some() || value.is_some();
            match text {
                Some(text) => statement.raw_bind_parameter(column, text)?,
                None if is_filled || self.filled & bit != 0 => {
                    statement.raw_bind_parameter(column, value)?;
                }
                None => continue,
            }
            self.filled = (self.filled & !bit) | (u32::from(is_filled) << column);
        }
        statement.raw_execute()?;
        Ok(())
    }
}

/// Binds a text, unless that is bound already. At first none is. A comparison costs less than copying the text into the
/// statement.
fn bind_text(
    statement: &mut Statement<'_>,
    at: usize,
    bound: &mut Option<Arc<str>>,
    text: Option<&Arc<str>>,
) -> Result<(), rusqlite::Error> {
    if bound.as_ref() == text {
        return Ok(());
    }
    statement.raw_bind_parameter(at, text.map(|text| &**text))?;
    *bound = text.cloned();
    Ok(())
}

impl<'a> Group<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        claims: &'a mut Claims,
        bodies: &'a mut Bodies,
        last_seq: Seq,
        spans: &'a mut Segments,
        payloads: &'a mut Joined,
        shared: &'a Shared,
    ) -> Self {
        // What a failed transaction left.
        payloads.clear();
        Self {
            connection,
            claims,
            bodies,
            last_seq,
            spans,
            client: (Client::Many, String::new()),
            payloads,
            released: shared.released(),
            recent: &shared.recent,
        }
    }

    /// The highest sequence number given out. Counts only if [`Group::write`] succeeded.
    pub(super) fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Writes and commits the jobs. On an error those that were not looked at stay in `jobs`. A function of its own in
    /// every build: it is a stage of the budget of a request.
    #[inline(never)]
    pub(super) fn write(
        &mut self,
        jobs: &mut Vec<Job>,
        answers: &mut Answers,
    ) -> Result<(), rusqlite::Error> {
        sqlite::begin(self.connection)?;
        let mut statements = Statements {
            request: RequestStatement::new(self.connection)?,
            payload: Joined::statement(self.connection)?,
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
        self.payloads.write(&mut statements.payload)?;
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
            Job::SubmitIf(submission, condition, to) => {
                let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
                let written = answers.receipts.iter().filter_map(|one| one.entry.as_ref());
                let holds = condition.apply(*submission, &recent, written);
                drop(recent);
                match holds {
                    Some(submission) => {
                        return self.job(
                            statements,
                            Job::Submit(Box::new(submission), to),
                            answers,
                        );
                    }
                    None => _ = to.send(Err(JournalError::Unsettled)),
                }
            }
            Job::Ask(claims, answer) => {
                let now = Lived::now();
                let mut held = false;
                for claim in claims.iter().flatten() {
                    held |= self.claims.find(self.connection, claim, now)?.is_some();
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
            Job::Quarantine { seq, reason } => {
                payloads::quarantine(self.connection, seq, &reason, self.released)?;
            }
            Job::Flush(answer) => answers.flushes.push(answer),
        }
        Ok(())
    }

    /// The clock is read only where there is a claim, because most requests have none.
    fn submission(
        &mut self,
        statements: &mut Statements<'_>,
        submission: Submission,
    ) -> Result<(Receipt, Option<Arc<Entry>>), rusqlite::Error> {
        let Submission {
            mut log,
            arrived,
            items,
            claim,
            second,
            recheck: _,
        } = submission;
        let now = match claim.or(second) {
            Some(_) => Lived::now(),
            None => Lived::MIN,
        };
        for claim in [&claim, &second].into_iter().flatten() {
            if let Some(held) = self.claims.find(self.connection, claim, now)? {
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
                at: now,
            };
            self.claims.insert(self.connection, claim, held)?;
        }
        self.log(statements, &log, None)?;
        let receipt = Receipt {
            request_id: log.request_id,
            items: log.items,
            replayed: false,
        };
        if log.outcome.action().is_none() {
            return Ok((receipt, None));
        }
        let payload = &mut statements.payload;
        self.payloads.add(payload, self.last_seq, &log, &items)?;
        let entry = Entry {
            seq: self.last_seq,
            request_id: log.request_id,
            stream: log.stream,
            received_at: log.received_at,
            arrived: Some(arrived),
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
        (statements.request).execute(self.last_seq, log, client, duplicate_of)?;
        self.spans.add(self.connection, self.last_seq, log, client)
    }
}

#[cfg(test)]
mod tests;
