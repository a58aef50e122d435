//! Acts of operators: parsing a call, making the act, and copying it into the audit log. The data of PUTs is in
//! `acts/put.rs`.
//!
//! The admin API, the operate API and the pages call it.
//!
//! **Invariant**: an unknown, null or empty member of a body is rejected, so that a wrong name never means the whole
//! stream. An act is on disk before its response, and is copied into the audit log once, whichever node dies meanwhile.

mod body;
mod put;

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{By, Operator, in_background};
use base::order::ChangeSeq;
use catalog::{ActToCopy, AuditChange, ResourceKind};
use ingest::error::AcceptError;
use pool::acts::{
    Act, ActProgress, ActRefused, Acted, Author, ItemActs, NextEnd, Record, Repeatable,
};
use pool::{Item, PoolError};

pub use body::{ACT_BYTES_MAX, fields, read};
use put::PutsSeen;

/// Acts per copy into the audit log.
const AUDITED: u32 = 200;

/// What this process knows of acts that are on their way into the audit log.
#[derive(Debug, Default)]
pub struct ActAudit {
    /// Locked while acts are copied: this process copies them once.
    alone: tokio::sync::Mutex<()>,
    puts: PutsSeen,
}

/// Why an act was not made, or its result is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The body is invalid, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// The act is not possible now.
    #[error(transparent)]
    Refused(#[from] ActRefused),
    /// Its data was not accepted.
    #[error(transparent)]
    NotAccepted(#[from] AcceptError),
    /// The pool cannot be read or written.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// An operator, and the call.
#[derive(Debug, Clone)]
pub struct Acting {
    /// The name of a token or of an operate key.
    pub name: Arc<str>,
    /// The name is that of an operate key.
    pub by_key: bool,
    pub by: By,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
}

impl Acting {
    fn author(&self) -> Author {
        let kind = match self.by_key {
            true => "key",
            false => "token",
        };
        Author {
            operator: format!("{kind} {}", self.name).into(),
            name: Arc::clone(&self.name),
            client: self.by.client.to_string(),
            request_id: self.by.request_id,
        }
    }

    /// The digest is that of the verb and the body, so that a key which is reused for another call is rejected.
    fn repeatable(&self, verb: &str, body: &[u8]) -> Option<Repeatable> {
        let key = self.idempotency_key.clone()?;
        let mut digest = Sha256::new();
        digest.update(verb.as_bytes());
        digest.update([0]);
        digest.update(body);
        Some(Repeatable {
            key,
            digest: digest.finalize().into(),
        })
    }
}

impl Operator {
    /// Makes the act of this verb and body in an existing stream.
    ///
    /// # Errors
    /// See [`ActError`]. Nothing was changed then, except by a PUT or its undo: if its data was stored, the act is
    /// recorded by [`complete_acts`](Self::complete_acts), or by a repeat of the call.
    pub async fn act(
        &self,
        stream: &str,
        verb: &str,
        body: &[u8],
        acting: &Acting,
    ) -> Result<Acted, ActError> {
        let act = read(verb, body).map_err(ActError::Invalid)?;
        let repeatable = acting.repeatable(verb, body);
        self.make_act(stream, act, repeatable, acting).await
    }

    /// Replaces a whole item with the object `body`, as data.
    ///
    /// # Errors
    /// See [`act`](Self::act).
    pub async fn put_item(
        &self,
        stream: &str,
        key: &str,
        body: &[u8],
        acting: &Acting,
    ) -> Result<Acted, ActError> {
        let act = Act::Put {
            key: key.to_owned(),
            fields: fields(body).map_err(ActError::Invalid)?,
        };
        let repeatable = acting.repeatable(&format!("PUT {key}"), body);
        self.make_act(stream, act, repeatable, acting).await
    }

    /// A PUT is noted before its intent is stored. Otherwise the intent would count as another node's, or as one from
    /// before the start.
    async fn make_act(
        &self,
        stream: &str,
        act: Act,
        repeatable: Option<Repeatable>,
        acting: &Acting,
    ) -> Result<Acted, ActError> {
        if matches!(act, Act::Put { .. } | Act::Undo { .. }) {
            self.act_audit.puts.begin(acting.by.request_id);
        }
        let (author, stream): (Author, Arc<str>) = (acting.author(), stream.into());
        let made = self.in_pool({
            let repeatable = repeatable.clone();
            move |pool| pool.act(&stream, &act, &author, repeatable.as_ref())
        });
        let acted = match made.await?? {
            ActProgress::Done(acted) => acted,
            ActProgress::Submit(intent) => self.submit_put(intent, repeatable, acting).await?,
        };
        self.audit_acts().await;
        Ok(acted)
    }

    /// An item as it is shown, with its overrides and holds.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub async fn item_with_acts(
        &self,
        stream: &str,
        key: &str,
    ) -> Result<(Option<Item>, ItemActs), PoolError> {
        let item = self.pool.item(stream, key).await?;
        let (stream, key) = (stream.to_owned(), key.to_owned());
        let acts = self
            .in_pool(move |pool| pool.item_acts(&stream, &key))
            .await?;
        Ok((item, acts))
    }

    /// Ends overrides and holds that have expired; returns when the next one expires. The next end is read first, so
    /// that a round in which nothing has expired writes nothing.
    pub async fn end_acts(&self) -> NextEnd {
        let ended = self.in_pool(|pool| {
            let next = pool.next_end()?;
            if !next.is_over() {
                return Ok((next, false));
            }
            pool.end_acts()?;
            Ok::<_, PoolError>((pool.next_end()?, true))
        });
        match ended.await {
            Ok((next, has_ended)) => {
                if has_ended {
                    self.audit_acts().await;
                }
                next
            }
            Err(error) => {
                tracing::warn!(%error, "cannot end expired overrides or holds, retrying");
                NextEnd::default()
            }
        }
    }

    /// Ends overrides and holds of streams that no longer exist. A failure is logged; the next start tries again.
    /// Otherwise they would apply to a new stream with the name.
    pub async fn forget_acts_of_deleted(&self) {
        let catalog = Arc::clone(&self.catalog);
        let forgotten = self.in_pool(move |pool| {
            let acted = pool.acted_streams()?;
            let mut deleted = acted.iter().filter(|stream| !catalog.has_stream(stream));
            deleted.try_for_each(|stream| pool.forget_acts(stream))
        });
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "cannot end overrides and holds of deleted streams; the next start retries");
        }
    }

    /// Records acts whose callers are gone, and copies all into the audit log. They are recorded first, so that the
    /// same call copies them.
    pub async fn complete_acts(&self) {
        self.finish_puts().await;
        self.audit_acts().await;
    }

    /// Copies new acts into the audit log, including those from before a restart, and those of a node that was killed
    /// before it did. Several nodes may copy the same act: it gets one entry.
    pub async fn audit_acts(&self) {
        let _alone = self.act_audit.alone.lock().await;
        loop {
            let epoch = self.pool.epoch();
            let acts = match self.in_pool(|pool| pool.unaudited(AUDITED)).await {
                Ok(acts) if acts.is_empty() => return,
                Ok(acts) => acts,
                Err(error) => {
                    return tracing::warn!(%error, "cannot read acts for the audit log");
                }
            };
            let catalog = Arc::clone(&self.catalog);
            let through = acts.last().map_or(ChangeSeq::MIN, |last| last.n);
            let copied = in_background(move || {
                let acts: Vec<ActToCopy> = acts.into_iter().map(to_copy).collect();
                catalog.copy_acts(epoch, &acts)
            });
            match copied.await {
                Ok(()) => {}
                // They are copied when it answers.
                Err(error) if error.passes() => {
                    return tracing::debug!(%error, "cannot write acts to the audit log yet");
                }
                Err(error) => {
                    return tracing::error!(%error, "cannot write acts to the audit log");
                }
            }
            if let Err(error) = self.in_pool(move |pool| pool.audited(through)).await {
                return tracing::warn!(%error, "cannot mark acts as written to the audit log");
            }
        }
    }

    /// Reads the pool on a thread that may block. On a thread of the runtime, SQLite would block other requests.
    pub async fn in_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce(&pool::Pool) -> T + Send + 'static,
    ) -> T {
        let pool = Arc::clone(&self.pool);
        in_background(move || work(&pool)).await
    }
}

/// An act as the audit log gets it.
fn to_copy(act: Record) -> ActToCopy {
    ActToCopy {
        n: act.n,
        request_id: act.request_id.clone(),
        actor: catalog::Actor {
            who: act.who.as_str().into(),
            client: act.client.clone(),
        },
        change: change(act),
    }
}

/// The entry in the audit log.
fn change(act: Record) -> AuditChange {
    let with_request = |value: Value| match value {
        Value::Object(mut members) => {
            members.insert("request_id".to_owned(), act.request_id.clone().into());
            Value::Object(members)
        }
        Value::Null => json!({ "request_id": act.request_id }),
        other => other,
    };
    AuditChange {
        before: Some(act.before).filter(|before| !before.is_null()),
        after: Some(with_request(act.after)),
        ..AuditChange::done(
            action(&act.verb),
            ResourceKind::Stream,
            &act.stream,
            Value::Null,
        )
    }
}

/// The name in the audit log.
fn action(verb: &str) -> &'static str {
    match verb {
        "add" => "add",
        "hold" => "hold",
        "override" => "override",
        "release" => "release",
        "resume" => "resume",
        "take" => "take",
        "undo" => "undo",
        _ => "put",
    }
}
