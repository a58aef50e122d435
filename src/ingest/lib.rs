//! The pipeline: from the head of a request to its receipt.
//!
//! `http` calls [`Ingest::admit`] for both endpoints, reads the body, and hands it to [`Ingest::store`]; the steps are in
//! `ingest/`.
//!
//! **Invariant**: the order of the checks is the order of the lines in `Ingest::check` (`ingest/check.rs`) and
//! `Ingest::store_body` (`ingest/store.rs`). Nothing is stored for a request that is refused, except its log entry and,
//! of a webhook, for a while its body, and that only once its key was recognised.
#![deny(unsafe_code)]

mod address;
mod check;
mod claim;
mod context;
pub mod error;
mod gate;
mod header_log;
pub mod headers;
mod identify;
mod interpret;
mod item_policy;
mod listed;
mod quota_check;
mod refusal;
mod removal;
mod repeated;
mod request;
mod resend;
mod store;
mod trace;
mod unsettled;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::error::AcceptError;
use base::budget::Budget;
use base::clock::Unix;
use catalog::Catalog;
use journal::Journal;
use observe::metrics::{Metrics, Minute};
use observe::telemetry::Tracer;
use pool::Pool;

pub use ::item::flatten;
use address::Proof;
pub use gate::Gate;
pub use header_log::loggable_headers;
pub use refusal::Refusal;
pub use removal::OperatorData;
pub use request::{
    Accepted, Address, Admitted, Answer, BodyError, Head, IngestLimits, Reply, check_place,
};
use request::{Credential, Known};
pub use resend::{AgainError, Kept, Newer, SentAgain};
use store::Stored;
pub use unsettled::SettledThrough;
use unsettled::Unsettled;

/// The pipeline with everything that it needs.
pub struct Ingest {
    catalog: Arc<Catalog>,
    journal: Arc<Journal>,
    /// Says which streams are full.
    pool: Arc<Pool>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    limits: IngestLimits,
    tracer: Tracer,
    /// Bytes of bodies that are being read or wait for the journal. Without it, many large uploads at once would fill
    /// the memory.
    bodies: Arc<Budget>,
    /// What counts beside what the pool holds, of streams that may hold only so much.
    unsettled: Unsettled,
    settled_through: SettledThrough,
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ingest").finish_non_exhaustive()
    }
}

impl Ingest {
    /// The pipeline over these parts.
    #[expect(
        clippy::too_many_arguments,
        reason = "the daemon builds it once, of its parts"
    )]
    pub fn new(
        catalog: Arc<Catalog>,
        journal: Arc<Journal>,
        pool: Arc<Pool>,
        gate: Arc<Gate>,
        metrics: Arc<Metrics>,
        limits: IngestLimits,
        tracer: Tracer,
        settled_through: SettledThrough,
    ) -> Self {
        Self {
            catalog,
            journal,
            pool,
            gate,
            metrics,
            limits,
            tracer,
            bodies: Arc::new(Budget::new(
                limits.pending_bytes_max,
                limits.pending_bytes_per_key_max,
            )),
            unsettled: Unsettled::default(),
            settled_through,
        }
    }

    /// What makes the spans of requests.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// What all bodies take that are on their way.
    pub fn bodies(&self) -> &Budget {
        &self.bodies
    }

    /// Checks all that can be known before the body is read. What is admitted goes to [`Ingest::store`]. So a request
    /// that is refused costs neither an upload nor memory for its body.
    ///
    /// # Errors
    /// The refusal, for [`Ingest::refuse`].
    pub fn admit<'a>(&'a self, head: Head<'a>) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        match head.address {
            None => self.admit_known(self.recognize(head, Instant::now())?),
            Some(address) => self.admit_at(head, address),
        }
    }

    fn admit_known<'a>(&'a self, known: Known<'a>) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        match self.check(&known) {
            Ok(named) => Ok(Admitted {
                budget: (self.bodies).portion(&known.caller.key.bodies, self.limits.body_bytes_max),
                credential: Credential::Key(known),
                named,
            }),
            Err(error) => {
                let bytes = known.head.content_length.unwrap_or(0);
                Err(self.refuse_known(known, None, bytes, error))
            }
        }
    }

    /// Makes an admitted request durable, and says what to answer. `body` is what became of reading it.
    pub async fn store(&self, admitted: Admitted<'_>, body: Result<Bytes, BodyError>) -> Answer {
        // The budget is held until the journal has answered.
        let Admitted {
            credential,
            named,
            budget: _budget,
        } = admitted;
        let (known, body) = match (credential, body) {
            (Credential::Key(known), Ok(body)) => (known, body),
            (Credential::Key(known), Err(error)) => {
                let bytes = known.head.content_length.unwrap_or(0);
                let error = self.body_refused(error);
                return self.refuse(self.refuse_known(known, Some(&named), bytes, error));
            }
            (Credential::Signature(unverified), Ok(body)) => match self.prove(unverified, &body) {
                Ok(Proof::Good(known)) => (known, body),
                Ok(Proof::Challenge(known, challenge, say)) => {
                    return self.answer_challenge(&known, challenge, say);
                }
                Err(refusal) => return self.refuse(refusal),
            },
            (Credential::Signature(unverified), Err(error)) => {
                return self.refuse(self.refuse_unread(unverified, error));
            }
        };
        let stored = self.store_body(&known, &named, &body).await;
        match stored {
            Ok(Stored::Challenge(challenge, say)) => self.answer_challenge(&known, challenge, say),
            Ok(Stored::Accepted(accepted)) => self.accept(&known, accepted),
            Err(error) => {
                let bytes = body.len() as u64;
                let mut refusal = self.refuse_known(known, Some(&named), bytes, error);
                if refusal.budget.is_some() {
                    refusal.keep(body);
                }
                self.refuse(refusal)
            }
        }
    }

    /// The answer to a request that was accepted.
    fn accept(&self, known: &Known<'_>, accepted: Accepted) -> Answer {
        let connector = Some(&known.caller.key.connector);
        self.note(
            connector,
            known.head.received_at,
            known.started,
            &Ok(&accepted),
        );
        Answer {
            quota: Some(known.quota.unwrap_or_else(|nothing_left| nothing_left)),
            volume: known.caller.key.volume.left(),
            result: Ok(Reply::Accepted(accepted)),
        }
    }

    /// Counts the request in the last hour.
    fn note(
        &self,
        connector: Option<&Arc<str>>,
        received_at: Unix,
        started: Instant,
        result: &Result<&Accepted, &AcceptError>,
    ) {
        let took = started.elapsed();
        let items = match result {
            Ok(accepted) if !accepted.receipt.replayed => accepted.receipt.items,
            _ => 0,
        };
        let request = Minute {
            requests: 1,
            errors: u64::from(result.is_err()),
            unavailable: u64::from(matches!(result, Err(AcceptError::Unavailable { .. }))),
            items: u64::from(items),
            timed: 1,
            took,
            took_max: took,
        };
        self.metrics.recent.note(connector, received_at, request);
    }

    fn body_refused(&self, error: BodyError) -> AcceptError {
        match error {
            BodyError::TooLarge => self.too_large(),
            BodyError::TooSlow(seconds) => AcceptError::invalid(format!(
                "the body did not arrive within {seconds} s; send smaller requests"
            )),
            BodyError::Broken => {
                AcceptError::invalid("the body is incomplete; send the request again")
            }
            BodyError::NoRoom => AcceptError::Unavailable {
                reason: "too many uploads are in progress",
                retry_after_seconds: 1,
            },
            BodyError::NoRoomForKey => AcceptError::Unavailable {
                reason: "this key has too many uploads in progress",
                retry_after_seconds: 1,
            },
            BodyError::GaveWay => AcceptError::Unavailable {
                reason: "the upload was too slow while memory was full",
                retry_after_seconds: 1,
            },
        }
    }

    fn too_large(&self) -> AcceptError {
        AcceptError::PayloadTooLarge {
            limit_bytes: self.limits.body_bytes_max,
        }
    }
}
