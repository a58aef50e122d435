//! The client: one request at a time, with all its attempts.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::encode::encode;
use crate::error::{Error, code};
use crate::options::REQUEST_BYTES_MAX;
use crate::pause::Backoff;
use crate::request::{headers, segment, submission};
use crate::state::Core;
use crate::transport::{Call, Http, Reply, World};
use crate::verdict::Verdict;
use crate::{field, lock, uuid};

const URL_DEFAULT: &str = "http://127.0.0.1:8080";
/// The longest pause between two questions of [`Client::wait`].
const WAIT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a [`Client`] works.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How long a call may take, with all its retries.
    pub timeout: Duration,
    /// How long one attempt may take, and a second more for each 16 KiB of its body.
    pub attempt_timeout: Duration,
    /// The longest first pause; each further one may be twice as long.
    pub backoff: Duration,
    /// No pause of our own is longer.
    pub backoff_max: Duration,
    /// Added to `User-Agent`, such as `shop/1.2`.
    pub user_agent: String,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(10),
            backoff: Duration::from_millis(250),
            backoff_max: Duration::from_secs(30),
            user_agent: String::new(),
        }
    }
}

/// What is said with one request.
#[derive(Debug, Clone, Default)]
pub struct SendOptions {
    /// The field that identifies each item, such as `order.id`. Without it, and without one of the connector, an item is
    /// known by its position in the list.
    pub item_key: Option<String>,
    /// In place of a random one: 1 to 255 visible ASCII characters. A second request with the same key within 24 hours
    /// changes nothing, so do not make it of the content: on, off, on would lose the third.
    pub idempotency_key: Option<String>,
    /// The expected stream of the key: if the key is for another one, the request is rejected.
    pub stream: Option<String>,
    /// In place of the client's.
    pub timeout: Option<Duration>,
    /// Ends the call.
    pub cancel: Cancel,
}

/// Ends a call from another thread.
#[derive(Debug, Clone, Default)]
pub struct Cancel(pub(crate) CancellationToken);

impl Cancel {
    /// Ends the call with `CANCELED`.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it was ended.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The answer to what was accepted: it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The key's stream.
    pub stream: String,
    /// The number of items.
    pub items_received: u64,
    /// What [`Client::request`] and [`Client::wait`] ask with.
    pub request_id: String,
    /// An earlier attempt, or an earlier request with the same idempotency key, had been accepted.
    pub replayed: bool,
}

/// The status of a request.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RequestState {
    /// `accepted`, `processed`, `failed`, `stale`, `discarded`, `rejected`, `duplicate`, `test`, `removed` or `handshake`.
    pub status: String,
    /// Why sinks could not deliver it.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Those that receive its stream.
    #[serde(default)]
    pub sinks: Vec<SinkState>,
}

/// How far a sink is with a request.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SinkState {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `waiting`, `done`, `stale`, `retrying`, `failed` or `discarded`.
    #[serde(default)]
    pub state: String,
}

impl RequestState {
    /// Whether it is in a state that it does not leave by itself.
    fn is_final(&self) -> bool {
        let waits = |sink: &SinkState| matches!(&*sink.state, "waiting" | "retrying");
        match &*self.status {
            "accepted" => false,
            "removed" => !self.sinks.iter().any(waits),
            _ => true,
        }
    }
}

/// Submits items with an ingest key. A key belongs to one stream, and so does a client. Clones share everything.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// What clones of a client and its batchers share.
pub(crate) struct Shared {
    pub(crate) world: Arc<dyn World>,
    pub(crate) backoff: Backoff,
    address: String,
    timeout: Duration,
    attempt_timeout: Duration,
    key: Mutex<Key>,
    /// They learn of another key.
    pub(crate) batchers: Mutex<Vec<Weak<Core>>>,
}

/// An ingest key; another number is another key.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) text: Arc<str>,
    pub(crate) number: u64,
}

/// Without the key.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "headgate_send::Client({})", self.shared.address)
    }
}

impl Client {
    /// A client for `http://host:port`, `https://host` or `unix:/path`. An empty address is `HEADGATE_URL`, or
    /// `http://127.0.0.1:8080`; an empty key is `HEADGATE_KEY`. Nothing is sent yet.
    pub fn new(url: &str, key: &str) -> Result<Self, Error> {
        Self::with(url, key, ClientOptions::default())
    }

    /// The same with options.
    pub fn with(url: &str, key: &str, options: ClientOptions) -> Result<Self, Error> {
        let url = match given_or(url, "HEADGATE_URL") {
            url if url.is_empty() => URL_DEFAULT.to_owned(),
            url => url,
        };
        let key = given_or(key, "HEADGATE_KEY");
        let http = Http::new(&url, &options.user_agent)?;
        Self::in_world(Arc::new(http), url, &key, &options)
    }

    pub(crate) fn in_world(
        world: Arc<dyn World>,
        address: String,
        key: &str,
        options: &ClientOptions,
    ) -> Result<Self, Error> {
        if options.timeout.is_zero() || options.attempt_timeout.is_zero() {
            return Err(Error::usage("a timeout must be longer than 0"));
        }
        Ok(Self {
            shared: Arc::new(Shared {
                world,
                backoff: Backoff {
                    first: options.backoff,
                    max: options.backoff_max,
                },
                address,
                timeout: options.timeout,
                attempt_timeout: options.attempt_timeout,
                key: Mutex::new(Key {
                    text: checked(key)?,
                    number: 0,
                }),
                batchers: Mutex::default(),
            }),
        })
    }

    /// Replaces the ingest key. Batchers retry immediately.
    pub fn set_key(&self, key: &str) -> Result<(), Error> {
        let text = checked(key)?;
        {
            let mut current = lock(&self.shared.key);
            let number = current.number + 1;
            *current = Key { text, number };
        }
        let batchers: Vec<_> = lock(&self.shared.batchers).iter().cloned().collect();
        for batcher in batchers.iter().filter_map(Weak::upgrade) {
            batcher.try_now();
        }
        Ok(())
    }

    /// Submits one object or a list of objects in one request. Headgate's refusal is returned at once; after anything else,
    /// such as no answer, 503 or the page of a proxy, the request is repeated with the same idempotency key until the
    /// timeout. Two sends at once are accepted in any order; a [`Batcher`](crate::Batcher) keeps it.
    pub fn send<T: Serialize + ?Sized>(
        &self,
        items: &T,
        options: &SendOptions,
    ) -> Result<Receipt, Error> {
        let body = encode(items)?;
        let count = count_of(&body)?;
        if body.get().len() > REQUEST_BYTES_MAX {
            let message = format!(
                "the items take {} bytes, but a request can have at most {REQUEST_BYTES_MAX}; send fewer items per request, or use a Batcher",
                body.get().len()
            );
            return Err(Error::new(code::TOO_LARGE, message));
        }
        let key = options.key(&*self.shared.world)?;
        let call = submission(
            Bytes::from(body.get().to_owned()),
            &key,
            options.item_key.as_deref(),
            options.stream.as_deref(),
        )?;
        self.submit(&call, Some(count), options)
    }

    /// Removes an item from a stream, if the key's connector can remove items. The receipt comes whether or not there is
    /// such an item.
    pub fn remove(&self, stream: &str, key: &str, options: &SendOptions) -> Result<Receipt, Error> {
        // Dots alone are places in a URL, however they are written.
        if [stream, key]
            .iter()
            .any(|name| matches!(*name, "" | "." | ".."))
        {
            let message = "a removal requires the name of a stream and the key of an item, other than `.` and `..`";
            return Err(Error::new(code::INVALID_PAYLOAD, message));
        }
        let call = Call {
            method: Method::DELETE,
            path: format!("/api/streams/{}/items/{}", segment(stream), segment(key)),
            headers: headers(
                &options.key(&*self.shared.world)?,
                options.item_key.as_deref(),
            )?,
            body: Bytes::new(),
        };
        self.submit(&call, None, options)
    }

    fn submit(
        &self,
        call: &Call,
        sent: Option<usize>,
        options: &SendOptions,
    ) -> Result<Receipt, Error> {
        let timeout = options.timeout.unwrap_or(self.shared.timeout);
        let world = &self.shared.world;
        let read = |reply| Verdict::of(reply, sent, world.now()).result;
        self.shared.run(call, timeout, &options.cancel, read)
    }

    /// Returns the status of a request of the key's connector.
    pub fn request(&self, request_id: &str) -> Result<RequestState, Error> {
        self.state(request_id, self.shared.timeout)
    }

    fn state(&self, request_id: &str, timeout: Duration) -> Result<RequestState, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let call = Call {
            method: Method::GET,
            path: format!("/api/requests/{}", segment(request_id)),
            headers,
            body: Bytes::new(),
        };
        let world = &self.shared.world;
        self.shared
            .run(&call, timeout, &Cancel::default(), |reply| match reply {
                Reply::Nothing { error, .. } => Err(error),
                Reply::Complete(answer) if (200..300).contains(&answer.status) => {
                    let body: Result<Data<RequestState>, _> = serde_json::from_slice(&answer.body);
                    body.map(|body| body.data)
                        .map_err(|_| Error::unexpected(&answer))
                }
                Reply::Complete(answer) => Err(Error::of_answer(&answer, world.now())),
            })
    }

    /// Asks until the status of a request is final: after 20 ms, then twice as long each time, at most a second. A failed
    /// request is a value, not an error. When the timeout is over first, the error is `TIMEOUT`.
    pub fn wait(&self, request_id: &str, timeout: Duration) -> Result<RequestState, Error> {
        let world = &self.shared.world;
        let end = world.lived().saturating_add(timeout);
        let mut pause = Duration::from_millis(20);
        loop {
            let left = end.saturating_sub(world.lived());
            if !left.is_zero() {
                let state = self.state(request_id, left)?;
                if state.is_final() {
                    return Ok(state);
                }
            }
            let never = Cancel::default();
            if end.saturating_sub(world.lived()) <= pause || !world.sleep(pause, &never) {
                let message = format!(
                    "request {request_id} was not processed within {timeout:?}; it is stored, and will be delivered later"
                );
                let mut error = Error::retryable(code::TIMEOUT, message);
                error.request_id = Some(request_id.to_owned());
                return Err(error);
            }
            pause = (pause * 2).min(WAIT_PAUSE_MAX);
        }
    }
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
}

impl Shared {
    pub(crate) fn key(&self) -> Key {
        lock(&self.key).clone()
    }

    /// One attempt.
    pub(crate) fn attempt(&self, call: &Call, key: &Key, cancel: &Cancel) -> Reply {
        let limit = call.limit(self.attempt_timeout);
        self.world.exchange(call, &key.text, limit, cancel)
    }

    /// Makes attempts until one is answered as `read` takes it, or with what will be the same next time, or the time is
    /// over: then the last error is returned.
    fn run<T>(
        &self,
        call: &Call,
        timeout: Duration,
        cancel: &Cancel,
        read: impl Fn(Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let end = self.world.lived().saturating_add(timeout);
        let left = || end.saturating_sub(self.world.lived());
        let mut failures = 0;
        loop {
            failures += 1;
            let limit = call.limit(self.attempt_timeout).min(left());
            let key = self.key();
            let error = match read(self.world.exchange(call, &key.text, limit, cancel)) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            if cancel.is_canceled() {
                return Err(Error::canceled(Some(&error)));
            }
            let random = self.world.random();
            let pause = self.backoff.before(failures, error.retry_after, random);
            if !error.retryable || left() <= pause {
                return Err(error);
            }
            if !self.world.sleep(pause, cancel) {
                return Err(Error::canceled(Some(&error)));
            }
        }
    }
}

impl SendOptions {
    fn key(&self, world: &dyn World) -> Result<String, Error> {
        let Some(key) = &self.idempotency_key else {
            return Ok(uuid::create(world.now()));
        };
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=255).contains(&key.len()) {
            return Err(Error::usage(
                "an idempotency key must have 1 to 255 visible ASCII characters",
            ));
        }
        Ok(key.clone())
    }
}

/// How many items a body has.
fn count_of(body: &RawValue) -> Result<usize, Error> {
    let text = body.get();
    match text.as_bytes().first() {
        Some(b'{') => Ok(1),
        Some(b'[') => {
            let items: Result<Vec<&RawValue>, _> = serde_json::from_str(text);
            items
                .map(|items| items.len())
                .map_err(|error| Error::new(code::INVALID_PAYLOAD, error.to_string()))
        }
        _ => {
            let kind = field::kind(text);
            let message = format!("items must be an object or a list of objects; this is {kind}");
            Err(Error::new(code::INVALID_PAYLOAD, message))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program that has no configuration of ours"
)]
fn given_or(given: &str, variable: &str) -> String {
    match given.is_empty() {
        true => std::env::var(variable).unwrap_or_default(),
        false => given.to_owned(),
    }
}

/// What a header can carry.
fn checked(key: &str) -> Result<Arc<str>, Error> {
    if key.is_empty() {
        return Err(Error::usage(
            "the ingest key is missing; pass one, or set HEADGATE_KEY",
        ));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::usage(
            "the key has invalid characters; copy the whole key again",
        ));
    }
    Ok(key.into())
}
