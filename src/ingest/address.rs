//! Requests to the address of a connector, `/api/webhook/{stream}/{connector}`: of tools that send no ingest key, but
//! sign, and of those that greet before they send.
//!
//! The pipeline comes here before the body is read and after; `http` calls [`Ingest::write_challenge`] for other methods than
//! `POST`.
//!
//! **Invariant**: nothing of a request is decoded or parsed for its sender before its signature was found good over the
//! bytes as they came. To strangers a 401 is the same whether or not there is such a connector; its own log says why.
//! What nobody vouches for costs those that somebody vouches for nothing of their rate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::request::{Address, Answer, Credential, Head, Known, Reply};
use super::{Admitted, BodyError, Ingest, Refusal};
use crate::error::AcceptError;
use base::clock::Unix;
use catalog::{Caller, Connector, IngestKey, QuotaState, VolumeLeft};
use journal::Outcome;
use webhook::body::Form;
use webhook::handshake::{self, Challenge};
use webhook::{Because, Delivery, Refused, Verifier};

/// A request whose signature can be looked at only when its body is there.
#[derive(Debug)]
pub(super) struct Unverified<'a> {
    head: Head<'a>,
    address: Address<'a>,
    connector: Arc<Connector>,
    /// What it may be signed with, the newest first; at least one. Several can be valid at once, because a secret is
    /// rotated while its provider still signs with the old one.
    keys: Vec<Arc<IngestKey>>,
    started: Instant,
}

/// What a signature came to.
pub(super) enum Proof<'a> {
    /// It is good: whose request it is.
    Good(Known<'a>),
    /// It is good, or needs none: a greeting, of which nothing is stored; and what the log is to say.
    Challenge(Known<'a>, Challenge, Option<String>),
}

impl Ingest {
    /// Checks all that can be known of a request to the address of a connector before its body is read.
    pub(super) fn admit_at<'a>(
        &'a self,
        head: Head<'a>,
        address: Address<'a>,
    ) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        let started = Instant::now();
        if let Some(caller) = self.caller_at(&head, &address) {
            return self.admit_known(Known::new(head, caller, started));
        }
        // What is not signed names no other item than what is.
        let head = Head {
            item_key: None,
            ..head
        };
        let unverified = self.unverified(head, address, started)?;
        match self.check_unverified(&unverified) {
            Ok(form) => {
                let connector = &unverified.connector;
                let unauthenticated = Arc::clone(&connector.unauthenticated);
                let item_key = connector.item_key.as_deref();
                // All keys of a connector are for the same tool.
                let preset = unverified.keys.first().and_then(|key| key.preset);
                match self.read_headers(&head, form, item_key, preset) {
                    Ok(named) => Ok(Admitted {
                        credential: Credential::Signature(unverified),
                        named,
                        budget: self.bodies.portion_of_unauthenticated(
                            &unauthenticated,
                            self.limits.body_bytes_max,
                        ),
                    }),
                    Err(error) => Err(self.refuse_unauthenticated(unverified, error, None)),
                }
            }
            Err((error, reason)) => Err(self.refuse_unauthenticated(unverified, error, reason)),
        }
    }

    /// Answers what tools ask by other methods than `POST`. None: nobody knows such a greeting here.
    ///
    /// # Errors
    /// The refusal, as of a submission.
    pub fn write_challenge(&self, head: Head<'_>) -> Option<Answer> {
        let started = Instant::now();
        let address = head.address?;
        let of_nobody = || handshake::of_nobody(address.method);
        if let Some(caller) = self.caller_at(&head, &address) {
            let url = self.url(&address);
            let challenge = handshake::of_keyed(caller.key.preset, &delivery(&address, &url, &[]));
            let challenge = challenge.or_else(of_nobody)?;
            let known = Known::new(head, caller, started);
            return Some(self.answer_challenge(&known, challenge, None));
        }
        let Some(connector) = self.catalog.connector(address.connector) else {
            return of_nobody().map(answer_to);
        };
        let stream = head.stream.unwrap_or_default();
        let unverified = Unverified {
            keys: connector.signing_keys(stream, Unix::now()),
            head,
            address,
            connector,
            started,
        };
        let understands = |key: &Arc<IngestKey>| {
            key.preset
                .is_some_and(|preset| preset.understands(address.method))
        };
        if !unverified.keys.iter().any(understands) {
            let challenge = of_nobody()?;
            return Some(match unverified.keys.first() {
                Some(key) => {
                    let known = unverified.known(key, Ok(key.quota.full()));
                    self.answer_challenge(&known, challenge, None)
                }
                None => answer_to(challenge),
            });
        }
        Some(match self.prove(unverified, &[]) {
            Ok(Proof::Challenge(known, challenge, say)) => {
                self.answer_challenge(&known, challenge, say)
            }
            Ok(Proof::Good(_)) => return None,
            Err(refusal) => self.refuse(refusal),
        })
    }

    /// Looks at the signature over a body as it came.
    pub(super) fn prove<'a>(
        &'a self,
        unverified: Unverified<'a>,
        body: &[u8],
    ) -> Result<Proof<'a>, Box<Refusal<'a>>> {
        let mut refused = None;
        let url = self.url(&unverified.address);
        let delivery = delivery(&unverified.address, &url, body);
        for key in &unverified.keys {
            let Some(signing) = key.signing.as_ref().filter(|_| !key.is_gone()) else {
                continue;
            };
            match challenge_of(&signing.verifier, &delivery) {
                Ok(challenge) => {
                    if let Some(secret) = signing.verifier.own_secret(&delivery) {
                        // Whoever sends it, nobody vouches for.
                        if let Err(left) = unverified.connector.failures.take() {
                            let retry_after_seconds = left.reset_seconds;
                            let error = AcceptError::RateLimited {
                                retry_after_seconds,
                            };
                            return Err(self.refuse_unauthenticated(unverified, error, None));
                        }
                        signing.sent.keep(&secret, Unix::now());
                    }
                    // Anybody may greet.
                    let quota = match &challenge {
                        Some(_) => Ok(key.quota.full()),
                        None => {
                            unverified.connector.signs.clock.store(0, Ordering::Relaxed);
                            key.was_used_at(Unix::now());
                            key.quota.take()
                        }
                    };
                    let known = unverified.known(key, quota);
                    let Some(challenge) = challenge else {
                        return Ok(Proof::Good(known));
                    };
                    let say = handshake::to_do(&delivery);
                    return Ok(Proof::Challenge(known, challenge, say));
                }
                // What the newest key says is what the log says.
                Err(why) => drop(refused.get_or_insert(why)),
            }
        }
        unverified.note_clock(refused.as_ref());
        let reason = refused.map(|refused| unverified.reason(&refused, Some(body)));
        Err(self.refuse_unauthenticated(unverified, AcceptError::Unauthorized, reason))
    }

    /// Answers a greeting, and logs it with what is to be said of it, unless there are too many.
    pub(super) fn answer_challenge(
        &self,
        known: &Known<'_>,
        challenge: Challenge,
        say: Option<String>,
    ) -> Answer {
        let key = &known.caller.key;
        let connector = self.catalog.connector(&key.connector);
        if connector.is_none_or(|connector| connector.failures.take().is_ok()) {
            let mut log = known.log_entry(Outcome::Handshake, challenge.status);
            log.error = say.map(Into::into);
            self.journal.record(log);
        }
        self.metrics.challenges.inc();
        answer_to(challenge)
    }

    /// What became of the body of a request that nobody vouches for yet.
    pub(super) fn refuse_unread<'a>(
        &'a self,
        unverified: Unverified<'a>,
        error: BodyError,
    ) -> Box<Refusal<'a>> {
        let error = self.body_refused(error);
        self.refuse_unauthenticated(unverified, error, None)
    }

    /// The caller with a key of this connector.
    fn caller_at(&self, head: &Head<'_>, address: &Address<'_>) -> Option<Caller> {
        let caller = self.caller(head.authorization, head.access_token, head.certificate);
        let caller = caller.ok()?;
        (*caller.key.connector == *address.connector).then_some(caller)
    }

    /// The keys that may have signed it.
    fn unverified<'a>(
        &'a self,
        head: Head<'a>,
        address: Address<'a>,
        started: Instant,
    ) -> Result<Unverified<'a>, Box<Refusal<'a>>> {
        let Some(connector) = self.catalog.connector(address.connector) else {
            return Err(self.refuse_unknown(head, started));
        };
        let stream = head.stream.unwrap_or_default();
        let keys = connector.signing_keys(stream, Unix::now());
        if keys.is_empty() && self.ended_key(&head).is_some() {
            return Err(self.refuse_unknown(head, started));
        }
        let unverified = Unverified {
            head,
            address,
            connector,
            keys,
            started,
        };
        match unverified.keys.is_empty() {
            false => Ok(unverified),
            true => {
                let reason = unverified.without_keys();
                Err(self.refuse_unauthenticated(
                    unverified,
                    AcceptError::Unauthorized,
                    Some(reason),
                ))
            }
        }
    }

    /// How the body is written, if all that can be known before it is good; otherwise why not, for the sender and for
    /// the log. The sender gets one answer for all causes, otherwise it could find out which connectors exist.
    fn check_unverified(
        &self,
        unverified: &Unverified<'_>,
    ) -> Result<Form, (AcceptError, Option<String>)> {
        let limit = self.limits.body_bytes_max;
        let length = unverified.head.content_length;
        if length.is_some_and(|length| length > limit) {
            return Err((self.too_large(), None));
        }
        let form = unverified.head.form().map_err(|error| (error, None))?;
        let now = Unix::now();
        let mut refused = None;
        for signing in unverified
            .keys
            .iter()
            .filter_map(|key| key.signing.as_ref())
        {
            match signing.verifier.check_head(unverified.address.headers, now) {
                Ok(()) => {
                    self.gate.check().map_err(|error| (error, None))?;
                    return Ok(form);
                }
                Err(why) => drop(refused.get_or_insert(why)),
            }
        }
        unverified.note_clock(refused.as_ref());
        let reason = refused.map(|refused| unverified.reason(&refused, None));
        Err((AcceptError::Unauthorized, reason))
    }

    /// The URL that the tool was given. Some providers sign it, so it must be the one that was entered there.
    pub(super) fn url(&self, address: &Address<'_>) -> String {
        let public = self.catalog.public_url().unwrap_or_default();
        [public, address.target].concat()
    }
}

fn answer_to(challenge: Challenge) -> Answer {
    Answer {
        quota: None,
        volume: VolumeLeft::default(),
        result: Ok(Reply::Challenge(challenge)),
    }
}

/// A request as its sender sees it.
pub(super) fn delivery<'a>(address: &Address<'a>, url: &'a str, body: &'a [u8]) -> Delivery<'a> {
    Delivery {
        method: address.method,
        url,
        headers: address.headers,
        body,
        now: Unix::now(),
    }
}

impl<'a> Unverified<'a> {
    pub(super) fn head(&self) -> Head<'a> {
        self.head
    }

    pub(super) fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// It as one of this key.
    fn known(&self, key: &Arc<IngestKey>, quota: Result<QuotaState, QuotaState>) -> Known<'a> {
        Known {
            head: self.head,
            caller: Caller {
                key: Arc::clone(key),
                test: false,
            },
            quota,
            started: self.started,
        }
    }

    /// Counts refusals for the time that a delivery says, as long as all are on the same side. Refusals on both sides
    /// are not the fault of this machine's clock.
    fn note_clock(&self, refused: Option<&Refused>) {
        let Some(off) = refused.and_then(|refused| refused.seconds_off) else {
            return;
        };
        let side = if off > 0 { 1 } else { -1 };
        let count = &self.connector.signs.clock;
        let counted = count.load(Ordering::Relaxed);
        let same = counted.signum() == side;
        let now = if same {
            counted.saturating_add(side)
        } else {
            side
        };
        count.store(now, Ordering::Relaxed);
    }

    /// Why the signature was not believed, for the log of the connector.
    fn reason(&self, refused: &Refused, body: Option<&[u8]>) -> String {
        // What else is wrong with it does not depend on the secret.
        let text = refused.to_string();
        if refused.because != Because::Signature || !text.ends_with("does not match") {
            return text;
        }
        let names: Vec<&str> = self.keys.iter().map(|key| &*key.name).collect();
        let with = match names.as_slice() {
            [one] => format!("the secret of the key {one}"),
            several => format!("any of {} secrets ({})", several.len(), several.join(", ")),
        };
        let body = body.map_or_else(String::new, |body| format!("; body {} bytes", body.len()));
        format!("{text} {with}{body}")
    }

    /// Why nobody can vouch for it.
    fn without_keys(&self) -> String {
        let stream = self.head.stream.unwrap_or_default();
        if !self.connector.keys.iter().any(|key| *key.stream == *stream) {
            return "the address names a stream that no key of this connector is for; check the URL in the tool's settings".to_owned();
        }
        let came = match (self.head.authorization, self.head.access_token) {
            (None, None) => "the request carries no key",
            _ => "the request carries a key that is unknown, or not allowed in URLs",
        };
        format!(
            "{came}, and no key of this connector verifies signatures for this stream; give the tool a key, or add a key with `verify`"
        )
    }
}

/// The greeting that a good delivery is, if it is one.
fn challenge_of(
    verifier: &Verifier,
    delivery: &Delivery<'_>,
) -> Result<Option<Challenge>, Refused> {
    match verifier.handshake(delivery)? {
        None => verifier.check(delivery).map(|()| None),
        challenge => Ok(challenge),
    }
}
