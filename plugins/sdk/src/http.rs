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
//! redirects. Of a request that may not be sent, the operator finds the reason in the log.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::headgate::sink::http;
use crate::{Batch, Span, WriteError, delivery};

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

    /// How long the whole answer may take. The host's own limits hold as well.
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
        let timeout = self.timeout.map(|time| time.as_millis());
        let answer = http::send(&http::Request {
            method: self.method,
            url: self.url,
            headers: self.headers,
            body: self.body,
            timeout_ms: timeout.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
        });
        let http::Response {
            status,
            headers,
            body,
        } = answer.map_err(Error)?;
        Ok(Response {
            status,
            headers,
            body,
        })
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
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    /// Its status: 200.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Response {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(own, _)| own == name)?;
        Some(value)
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

/// Why there is no answer, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Later everything may be different: the network, and what the operator allows.
impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        WriteError::retry(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::unix_seconds;

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
