//! HTTP to the hosts that the sink's section lists (`http = { hosts = ["api.example.com"] }`).
//!
//! ```ignore
//! use headgate_sdk::http;
//!
//! let answer = http::post("https://api.example.com/items", "application/json", json)?;
//! if !answer.is_success() {
//!     return Err(WriteError::Reject(format!("answered {}", answer.status)));
//! }
//! ```
//!
//! The host adds the headers of the section, `Host`, and an `Idempotency-Key` unless the request has one. It is made of
//! the items of the batch: of those that [`Request::send_items`] names, or of all of them. It follows no
//! redirects. A request that may not be sent is an [`Error::Denied`]; the operator finds the reason in the log.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::wasi::http::outgoing_handler;
use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme, http_error_code,
};
use crate::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};
use crate::{Batch, Span, WriteError, delivery};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// Sends a body with POST and waits for the answer.
///
/// # Errors
/// There is no answer; an answer of any status is none.
pub fn post(url: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Result<Response, Error> {
    let request = Request::new("POST", url);
    request
        .header("content-type", content_type)
        .body(body)
        .send()
}

/// Sends a body with PUT and waits for the answer.
///
/// # Errors
/// There is no answer; an answer of any status is none.
pub fn put(url: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Result<Response, Error> {
    let request = Request::new("PUT", url);
    request
        .header("content-type", content_type)
        .body(body)
        .send()
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    timeout: Option<Duration>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &str, url: &str) -> Self {
        Self {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// How long the answer may take to begin, and then each piece of it. The host's own limits hold as well.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends it and waits for the whole answer.
    ///
    /// # Errors
    /// There is no answer; an answer of any status is none.
    pub fn send(self) -> Result<Response, Error> {
        let host = host(&self.url).to_owned();
        self.answered().map_err(|error| match error {
            Error::Failed(reason) => Error::Failed(format!("{host} {reason}")),
            error => error,
        })
    }

    fn answered(self) -> Result<Response, Error> {
        let request = self.prepared()?;
        let body = request
            .body()
            .map_err(|()| Error::Failed("was sent no body".to_owned()))?;
        let future = outgoing_handler::handle(request, self.options())?;
        // A receiver may answer before it has read everything, and whoever may not be called never reads: what went
        // wrong with the body says less than the answer.
        let _ = write(&body, &self.body);
        let _ = OutgoingBody::finish(body, None);
        loop {
            match future.get() {
                Some(answer) => {
                    let answer = answer.map_err(|()| Error::Failed(TAKEN.to_owned()))?;
                    return Response::read(answer?);
                }
                None => future.subscribe().block(),
            }
        }
    }

    /// Sends it as [`send`](Self::send) does, with items of a batch: its `Idempotency-Key` is the same whenever these items
    /// are sent to this URL. Requests that follow in the same `write` carry the same items until another one says
    /// otherwise.
    ///
    /// # Errors
    /// There is no answer; an answer of any status is none.
    pub fn send_items(self, batch: &Batch, range: Span) -> Result<Response, Error> {
        delivery::carries(batch, range);
        self.send()
    }

    fn prepared(&self) -> Result<OutgoingRequest, Error> {
        let bad_url = || Error::Request(format!("{:?} is not a URL", self.url));
        let (scheme, rest) = self.url.split_once("://").ok_or_else(bad_url)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let path = match path.strip_prefix('?') {
            Some(_) => format!("/{path}"),
            None => path.to_owned(),
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return Err(bad_url()),
        };
        let fields = Fields::new();
        for (name, value) in &self.headers {
            fields.append(name, value.as_bytes()).map_err(|error| {
                Error::Request(format!("the header {name} cannot be sent: {error:?}"))
            })?;
        }
        if !self.body.is_empty() || !matches!(self.method.as_str(), "GET" | "HEAD") {
            let length = self.body.len().to_string();
            let _ = fields.set("content-length", &[length.into_bytes()]);
        }
        let request = OutgoingRequest::new(fields);
        let set = request
            .set_method(&method(&self.method))
            .and_then(|()| request.set_scheme(Some(&scheme)))
            .and_then(|()| request.set_authority(Some(authority)))
            .and_then(|()| request.set_path_with_query(Some(&path)));
        set.map_err(|()| bad_url())?;
        Ok(request)
    }

    fn options(&self) -> Option<RequestOptions> {
        let nanoseconds = u64::try_from(self.timeout?.as_nanos()).ok();
        let options = RequestOptions::new();
        let _ = options.set_connect_timeout(nanoseconds);
        let _ = options.set_first_byte_timeout(nanoseconds);
        let _ = options.set_between_bytes_timeout(nanoseconds);
        Some(options)
    }
}

/// What cannot be: an answer that was read before.
const TAKEN: &str = "answered, and the answer is gone";

/// Host and port of a URL, without a user.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn write(body: &OutgoingBody, mut bytes: &[u8]) -> Result<(), ()> {
    let stream: OutputStream = body.write()?;
    while !bytes.is_empty() {
        stream.subscribe().block();
        let room = stream.check_write().map_err(drop)?;
        let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(0)));
        stream.write(now).map_err(drop)?;
        bytes = later;
    }
    stream.blocking_flush().map_err(drop)
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    /// Its status: 200.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Response {
    fn read(answer: IncomingResponse) -> Result<Self, Error> {
        let status = answer.status();
        let headers = answer.headers().entries();
        let taken = |()| Error::Failed(TAKEN.to_owned());
        let incoming = answer.consume().map_err(taken)?;
        let stream = incoming.stream().map_err(taken)?;
        let body = read(&stream)?;
        drop(stream);
        drop(IncomingBody::finish(incoming));
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, in lower case, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(own, _)| own == name)?;
        std::str::from_utf8(value).ok()
    }

    /// The body as text; what is none is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// How long `Retry-After` asks to wait: seconds, or a date (RFC 9110, 10.2.3).
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.header("retry-after")?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "in a guest the wall clock is the host's"
        )]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Duration::from_secs(unix_seconds(text)?).saturating_sub(now))
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn unix_seconds(date: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = date.split_ascii_whitespace().skip(1);
    let day: u64 = parts.next()?.parse().ok()?;
    let month = MONTHS.find(parts.next().filter(|name| name.len() == 3)?)? as u64 / 3;
    let year: u64 = parts.next()?.parse().ok()?;
    let mut clock = parts
        .next()?
        .split(':')
        .map(|part| part.parse::<u64>().ok());
    let seconds = (clock.next()?? * 60 + clock.next()??) * 60 + clock.next()??;
    if !(1970..10_000).contains(&year) || parts.next()? != "GMT" {
        return None;
    }
    // Days before the month, in years that begin in March: the leap day is the last one.
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    Some((days.checked_sub(719_469)?) * 86_400 + seconds)
}

fn read(stream: &InputStream) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(PIECE_BYTES) {
            Ok(piece) => body.extend(piece),
            Err(StreamError::Closed) => return Ok(body),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(match http_error_code(&error) {
                    Some(code) => code.into(),
                    None => Error::Failed(format!("broke off: {}", error.to_debug_string())),
                });
            }
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The request cannot be written.
    Request(String),
    /// The sink's section does not allow it. The operator's log names the setting.
    Denied(String),
    /// It was not sent, or not answered, or not in time.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Request(reason) => f.write_str(reason),
            Error::Denied(reason) => write!(f, "not allowed: {reason}"),
            Error::Failed(reason) => write!(f, "no answer: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::HttpRequestDenied => {
                Error::Denied("the settings do not allow this request".to_owned())
            }
            ErrorCode::DestinationIpProhibited => {
                Error::Denied("the host is not at a public address".to_owned())
            }
            other => Error::Failed(in_words(&other)),
        }
    }
}

/// What a host did that gave no answer; its name stands before it.
fn in_words(code: &ErrorCode) -> String {
    let known = match code {
        ErrorCode::ConnectionRefused => "refuses connections",
        ErrorCode::ConnectionTimeout => "cannot be connected to in time",
        ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => "did not answer in time",
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => {
            "closed the connection before its answer was complete"
        }
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => "is a name that cannot be resolved",
        ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable => "cannot be reached",
        ErrorCode::TlsCertificateError => "has a certificate that is not trusted",
        ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => "does not speak TLS here",
        ErrorCode::HttpProtocolError => "does not answer in HTTP",
        ErrorCode::HttpRequestBodySize(_) => {
            "was sent a body that is larger than the settings allow"
        }
        ErrorCode::HttpResponseBodySize(_) | ErrorCode::HttpResponseHeaderSectionSize(_) => {
            "answers with more than the settings allow"
        }
        other => {
            let name = other.to_string();
            let name = name.trim_start_matches("ErrorCode::");
            return format!("cannot be called: {name}");
        }
    };
    known.to_owned()
}

/// Later everything may be different: the network, and what the operator allows.
impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        WriteError::retry(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, host, in_words, unix_seconds};

    #[test]
    fn who_gave_no_answer_is_named_in_words() {
        assert_eq!(host("http://127.0.0.1:9/in?x=@y"), "127.0.0.1:9");
        assert_eq!(host("https://me:hush@a.example"), "a.example");
        assert_eq!(
            in_words(&ErrorCode::ConnectionRefused),
            "refuses connections"
        );
        let odd = in_words(&ErrorCode::LoopDetected);
        assert!(odd.starts_with("cannot be called: LoopDetected"), "{odd}");
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(unix_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(
            unix_seconds("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        assert_eq!(
            unix_seconds("Thu, 29 Feb 2024 23:59:59 GMT"),
            Some(1_709_251_199)
        );
        assert_eq!(
            unix_seconds("Fri, 01 Mar 2024 00:00:00 GMT"),
            Some(1_709_251_200)
        );
        assert_eq!(unix_seconds("Sun, 06 Nov 1994 08:49:37"), None);
        assert_eq!(unix_seconds("soon"), None);
    }
}
