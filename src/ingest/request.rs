//! What comes in with a request, and what is answered.
//!
//! `http` makes a [`Head`] of the headers and hands in the body; the pipeline gives an [`Answer`].
//!
//! **Invariant**: what is admitted holds its place in the budget of all bodies until it is answered.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::address::Unverified;
use super::headers;
use super::interpret::DELIVERY;
use crate::error::AcceptError;
use base::budget::{Full, Portion};
use base::clock::Unix;
use catalog::{Caller, QuotaState, VolumeLeft};
use journal::log::{Client, Endpoint, Sender};
use journal::{LogEntry, Outcome, Receipt};
use observe::telemetry::Trace;
use settings::Networks;
use webhook::body::Form;
use webhook::handshake::Challenge;
use webhook::{Headers, ItemKey};

/// What the pipeline may spend on one request.
#[derive(Debug, Clone, Copy)]
pub struct IngestLimits {
    pub body_bytes_max: u64,
    /// Bytes of its flattened form.
    pub flattened_bytes_max: usize,
    /// Bytes of the fields of one of its items.
    pub item_bytes_max: usize,
    /// Bytes of all bodies that are on their way.
    pub pending_bytes_max: u64,
    /// Those of one key. So the uploads of one key leave memory for the others.
    pub pending_bytes_per_key_max: u64,
}

impl IngestLimits {
    /// Bytes of a body that was decompressed.
    pub(super) fn decoded_bytes_max(&self) -> usize {
        usize::try_from(self.body_bytes_max).unwrap_or(usize::MAX)
    }
}

/// The head of a request. Header values are as they came, absent ones `None`.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// UUIDv7, made when the request arrived.
    pub request_id: Uuid,
    pub received_at: Unix,
    /// Where it came in.
    pub endpoint: Endpoint,
    /// The stream that the caller names, in the path or by `?stream=`.
    pub stream: Option<&'a str>,
    /// `Authorization`
    pub authorization: Option<&'a [u8]>,
    /// `?access_token=`
    pub access_token: Option<&'a str>,
    /// The SHA-256 of the certificate that the client has shown.
    pub certificate: Option<[u8; 32]>,
    /// What a request to the address of a connector says beside that.
    pub address: Option<Address<'a>>,
    /// `Content-Type`
    pub content_type: Option<&'a [u8]>,
    /// `Content-Encoding`
    pub content_encoding: Option<&'a [u8]>,
    /// `Content-Length`
    pub content_length: Option<u64>,
    /// `X-Item-Key`
    pub item_key: Option<&'a [u8]>,
    /// `Idempotency-Key`
    pub idempotency_key: Option<&'a [u8]>,
    /// The caller, for the log.
    pub client: Client,
    /// What [`super::loggable_headers`] made of the headers, for the log.
    pub headers: Option<&'a Arc<str>>,
    /// Its trace, if it is followed.
    pub trace: Option<&'a Trace>,
}

impl Head<'_> {
    /// How the body is written.
    pub(super) fn form(&self) -> Result<Form, AcceptError> {
        headers::form(
            self.content_type,
            self.content_encoding,
            self.address.is_some(),
        )
    }
}

/// A request to the address of a connector, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    /// Name of the connector.
    pub connector: &'a str,
    /// `POST`, or another of a tool's greetings.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Every header; names in lower case.
    pub headers: Headers<'a>,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    /// Not complete within the deadline, in whole seconds.
    TooSlow(u64),
    /// The connection broke, or the transfer encoding is wrong.
    Broken,
    /// Too many bytes of other bodies are on their way.
    NoRoom,
    /// Too many bytes of the same key's are. Apart from the limit of all, so that the answer names the setting that
    /// applies.
    NoRoomForKey,
    /// The rest had not come when others needed its room, because a slow upload must not hold the memory of all.
    GaveWay,
}

impl From<Full> for BodyError {
    fn from(full: Full) -> Self {
        match full {
            Full::Portion => Self::TooLarge,
            Full::Share => Self::NoRoomForKey,
            Full::Budget => Self::NoRoom,
        }
    }
}

/// A request whose key is known.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) head: Head<'a>,
    pub(super) caller: Caller,
    /// What the key has left; the error: nothing.
    pub(super) quota: Result<QuotaState, QuotaState>,
    pub(super) started: Instant,
}

impl<'a> Known<'a> {
    /// One of a key, of which it takes what it costs: every answer to a known key says what is left.
    pub(super) fn new(head: Head<'a>, caller: Caller, started: Instant) -> Self {
        Self {
            head,
            quota: caller.key.quota.take(),
            caller,
            started,
        }
    }

    /// What becomes of what is accepted: of a test key, nothing.
    pub(super) fn outcome(&self) -> Outcome {
        match self.caller.test {
            true => Outcome::Test,
            false => Outcome::Accepted,
        }
    }

    pub(super) fn log_entry(&self, outcome: Outcome, http_status: u16) -> LogEntry {
        let (head, key) = (&self.head, &self.caller.key);
        let (connector, stream) = (Arc::clone(&key.connector), Arc::clone(&key.stream));
        LogEntry {
            endpoint: head.endpoint,
            http_status,
            key: key.prefix(),
            client: head.client,
            sender: self.sender(None, None),
            headers: head.headers.cloned(),
            ..LogEntry::of(
                head.request_id,
                head.received_at,
                connector,
                stream,
                outcome,
            )
        }
    }
}

impl Known<'_> {
    /// What the tool says of a delivery to the address of its connector.
    pub(super) fn sender(
        &self,
        event: Option<Box<str>>,
        delivery: Option<Box<str>>,
    ) -> Option<Box<Sender>> {
        self.head.address?;
        let key = &self.caller.key;
        let scheme = (key.signing.as_ref()).map(|signing| &*signing.verify.options.scheme);
        Some(Box::new(Sender {
            scheme: scheme.map(Into::into),
            event,
            delivery,
        }))
    }
}

/// What the headers of a submission say.
#[derive(Debug)]
pub(super) struct Named {
    /// The field that identifies items, and whose words these are.
    pub(super) item_key: Option<(Arc<str>, Cow<'static, str>)>,
    /// In place of one field: several that are the key together, or the first of several.
    pub(super) composed: Option<Cow<'static, ItemKey>>,
    /// Whether that is what the tool's preset says.
    pub(super) by_preset: bool,
    pub(super) idempotency_key: Option<Arc<str>>,
    /// How the body is written.
    pub(super) form: Form,
}

impl Named {
    pub(super) fn item_key(&self) -> Option<&Arc<str>> {
        self.item_key.as_ref().map(|(field, _)| field)
    }

    /// The fields that are the key together, where the connector names them: an item without them is an error.
    pub(super) fn required(&self) -> Option<&str> {
        let is_listed = self.composed.is_some() && !self.by_preset;
        (self.item_key().filter(|_| is_listed)).map(|field| &**field)
    }

    /// Whether each delivery is a separate item.
    pub(super) fn is_by_delivery(&self) -> bool {
        (self.item_key()).is_some_and(|field| **field == *DELIVERY)
    }
}

/// Who vouches for a request.
#[derive(Debug)]
pub(super) enum Credential<'a> {
    /// The key that it carries.
    Key(Known<'a>),
    /// Its signature will, or not, when the body is there.
    Signature(Unverified<'a>),
}

/// A request whose head is good. Its body is read next.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub(super) credential: Credential<'a>,
    pub(super) named: Named,
    /// What is read of the body is taken from this.
    pub budget: Portion,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// What the key has left, if it was recognised and not refused before.
    pub quota: Option<QuotaState>,
    /// The same of the bytes that it may have stored.
    pub volume: VolumeLeft,
    /// What was done, or why nothing was.
    pub result: Result<Reply, AcceptError>,
}

/// The answer to a request that was not refused.
#[derive(Debug)]
pub enum Reply {
    Accepted(Accepted),
    /// It was a greeting.
    Challenge(Challenge),
}

/// A request that was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub stream: Arc<str>,
    pub receipt: Receipt,
    /// The status that the sender wants to hear; 202 where it does not matter.
    pub status: u16,
    /// What the sender wants to hear in place of the receipt: the content type and the text.
    pub answer: Option<(&'static str, &'static str)>,
    /// Whether its items were told apart by nothing but their places, in a request of a tool.
    pub without_item_key: bool,
}

/// Whether a key for these networks is taken from where its client is.
///
/// # Errors
/// [`AcceptError::AddressNotAllowed`].
pub fn check_place(networks: &Networks, client: Client) -> Result<(), AcceptError> {
    match networks.admit(client.address()) {
        true => Ok(()),
        false => Err(AcceptError::AddressNotAllowed {
            address: client.to_string(),
        }),
    }
}
