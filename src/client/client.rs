//! A small HTTP client for the verbs of the command line: TCP, TLS and Unix sockets, a bearer secret, and responses in
//! the service's envelope.
//!
//! `send` and `tail` call the service with it; all other verbs call the admin API ([`AdminArgs`]).
//!
//! **Invariant**: the bearer secret is sent only in the `Authorization` header. Redirects are not followed, and no
//! error text contains the secret.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::CliError;
use super::output::shown;

pub use self::admin::AdminArgs;
pub use self::refusal::Refusal;
pub use self::stream::EventStream;

mod admin;
mod pages;
mod refusal;
mod stream;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of a response.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A client of one server, with its secret.
pub struct Client {
    http: reqwest::Client,
    /// The base of all paths, without a slash at the end.
    base: String,
    /// The address as it was given, for messages.
    address: String,
    /// `None`: requests have no `Authorization` header.
    bearer: Option<HeaderValue>,
}

/// A complete response with any status.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// A successful response.
#[derive(Debug, Deserialize)]
pub struct Envelope<T> {
    /// The requested data.
    pub data: T,
    /// The cursor of the next page of a list, if any.
    pub next: Option<String>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server was not reached, or the connection ended before the response.
    #[error("no answer from {address}: {reason}")]
    NoAnswer {
        /// The server's address.
        address: String,
        /// The error of the network.
        reason: String,
    },
    /// The response is an error.
    #[error(transparent)]
    Refused(Refusal),
    /// The response is a success, but not in Headgate's form.
    #[error("the response from {address} is not from Headgate ({reason}): check the address")]
    Foreign {
        /// The server's address.
        address: String,
        /// The reason.
        reason: String,
    },
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> CliError {
        CliError::failed(error.to_string())
    }
}

impl Client {
    /// A client for `http://host:port`, `https://host:port` or `unix:/path/to.sock`.
    pub fn new(url: &str, bearer: &str) -> Result<Client, CliError> {
        Client::without_secret(url)?.with(bearer)
    }

    fn with(self, bearer: &str) -> Result<Client, CliError> {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", bearer.trim()))
            .map_err(|_| CliError::wrong_use("the key or token contains invalid characters"))?;
        bearer.set_sensitive(true);
        Ok(Client {
            bearer: Some(bearer),
            ..self
        })
    }

    /// A client as in [`new`](Client::new) that sends no `Authorization` header.
    pub fn without_secret(url: &str) -> Result<Client, CliError> {
        Client::build(reqwest::Client::builder(), url)
    }

    /// As `without_secret`, for the daemon of this machine: its certificate can have any name.
    pub fn of_own_daemon(url: &str) -> Result<Client, CliError> {
        let builder = reqwest::Client::builder().danger_accept_invalid_certs(true);
        Client::build(builder, url)
    }

    fn build(builder: reqwest::ClientBuilder, url: &str) -> Result<Client, CliError> {
        let builder = builder
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true);
        let (builder, base) = match url.strip_prefix("unix:") {
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    return Err(wrong_url(url));
                }
                (
                    at_unix_socket(builder, path)?,
                    "http://localhost".to_owned(),
                )
            }
            None => {
                let parsed = Url::parse(url).map_err(|_| wrong_url(url))?;
                if !is_plain(&parsed) {
                    return Err(wrong_url(url));
                }
                // A proxy from the environment is not for this machine.
                let builder = if is_this_machine(&parsed) {
                    builder.no_proxy()
                } else {
                    builder
                };
                (builder, parsed.as_str().trim_end_matches('/').to_owned())
            }
        };
        let http = builder
            .build()
            .map_err(|error| CliError::failed(format!("cannot set up HTTP: {}", reason(error))))?;
        let address = shown(url).into_owned();
        Ok(Client {
            http,
            base,
            address,
            bearer: None,
        })
    }

    /// The address as it was given, safe to show.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and reads the response with any status. `path` begins with a slash.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, CallError> {
        let request = self.request(method, path, headers);
        self.answer(request.timeout(CALL_TIMEOUT).body(body)).await
    }

    /// Sends a request and reads the response. In a box, so that the HTTP client is compiled here alone and not once more in
    /// each package that calls it.
    fn answer(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send + '_>> {
        Box::pin(async move {
            let response = request.send().await;
            let response = response.map_err(|error| self.no_answer(error))?;
            self.read(response).await
        })
    }

    fn request(&self, method: Method, path: &str, headers: HeaderMap) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = request.headers(headers);
        match &self.bearer {
            Some(bearer) => request.header(AUTHORIZATION, bearer.clone()),
            None => request,
        }
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<Answer, CallError> {
        let mut body = Vec::new();
        let no_answer = |error| self.no_answer(error);
        while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(self.foreign(format!("longer than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    /// Sends a GET request to the admin API.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        Ok(self.page(path).await?.data)
    }

    /// Requests a page of a list of the admin API.
    pub async fn page<T: DeserializeOwned>(&self, path: &str) -> Result<Envelope<T>, CallError> {
        let answer = self
            .call(Method::GET, path, HeaderMap::new(), Bytes::new())
            .await?;
        self.envelope(&answer)
    }

    /// Sends a change to the admin API, with an optional JSON body.
    pub async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, CallError> {
        let mut headers = HeaderMap::new();
        let mut bytes = Bytes::new();
        if let Some(body) = body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            bytes = Bytes::from(body.to_string());
        }
        let answer = self.call(method, path, headers, bytes).await?;
        Ok(self.envelope(&answer)?.data)
    }

    /// As `change`, without a deadline, for work that can take long.
    pub async fn change_slowly<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, CallError> {
        let request = self.request(method, path, HeaderMap::new());
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = self.answer(request.body(body.to_string())).await?;
        Ok(self.envelope(&answer)?.data)
    }

    /// Decodes a success; returns an error for any other response.
    pub fn envelope<T: DeserializeOwned>(&self, answer: &Answer) -> Result<Envelope<T>, CallError> {
        match answer.status {
            200..=299 => serde_json::from_slice(&answer.body)
                .map_err(|error| self.foreign(shown(&error.to_string()).into_owned())),
            _ => Err(CallError::Refused(Refusal::of_admin(answer))),
        }
    }

    fn no_answer(&self, error: reqwest::Error) -> CallError {
        CallError::NoAnswer {
            address: self.address.clone(),
            reason: reason(error),
        }
    }

    /// The error for a response that cannot be from the service.
    pub fn foreign(&self, reason: String) -> CallError {
        CallError::Foreign {
            address: self.address.clone(),
            reason,
        }
    }
}

#[cfg(unix)]
fn at_unix_socket(
    builder: reqwest::ClientBuilder,
    path: &str,
) -> Result<reqwest::ClientBuilder, CliError> {
    Ok(builder.no_proxy().unix_socket(PathBuf::from(path)))
}

#[cfg(not(unix))]
fn at_unix_socket(
    _builder: reqwest::ClientBuilder,
    path: &str,
) -> Result<reqwest::ClientBuilder, CliError> {
    Err(CliError::wrong_use(format!(
        "this system has no Unix sockets: unix:{path}"
    )))
}

fn wrong_url(url: &str) -> CliError {
    // URLs with a password are rejected too, so the part before an `@` is not repeated.
    let url = url.rsplit('@').next().unwrap_or_default();
    CliError::wrong_use(format!(
        "`{}` is not an address of a server: give http://host:port, https://host:port or unix:/path, \
         without user, query or fragment",
        shown(url)
    ))
}

fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The innermost cause, which is the most useful one ("Connection refused").
pub(super) fn reason(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return "timeout".to_owned();
    }
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = shown(&cause.to_string()).into_owned();
    if error.is_connect() {
        format!("cannot connect: {text}")
    } else {
        text
    }
}

#[cfg(test)]
pub(super) mod stand_in;
#[cfg(test)]
mod tests;
