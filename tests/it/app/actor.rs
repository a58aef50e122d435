//! Those who talk to the daemon: callers with a key, operators with the token, and strangers.
//!
//! **Invariant**: every refusal that a test looks at is checked to be the contract's error envelope.

use std::sync::Arc;
use std::time::Duration;

use journal::Journal;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method};
use serde_json::Value;

use super::Addresses;
use crate::process::value_of;
use crate::wait::{DEADLINE, eventually_async};

/// Somebody at the service listener.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    http: Http,
}

/// Somebody at the admin listener.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    http: Http,
    /// Of daemons in this process: what reads the request log first waits for what is still to be written.
    journals: Vec<Arc<Journal>>,
}

#[derive(Debug, Clone)]
struct Http {
    client: Client,
    addresses: Addresses,
    bearer: Option<String>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// What a 202 says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) stream: String,
    pub(crate) items: u64,
    pub(crate) request_id: String,
}

/// An error envelope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) details: Vec<Value>,
}

impl Caller {
    pub(crate) fn new(addresses: impl Into<Addresses>, secret: Option<&str>) -> Self {
        Self {
            http: Http::new(addresses.into(), secret),
        }
    }

    /// `POST /api/ingest` with a JSON body.
    pub(crate) async fn ingest(&self, body: impl Into<Vec<u8>>) -> Reply {
        self.ingest_with(&[], body).await
    }

    /// The same with further headers.
    pub(crate) async fn ingest_with(
        &self,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Reply {
        self.post("/api/ingest", headers, body).await
    }

    /// The same with an `X-Item-Key`.
    pub(crate) async fn ingest_by(&self, field: &str, body: impl Into<Vec<u8>>) -> Reply {
        self.ingest_with(&[("X-Item-Key", field)], body).await
    }

    /// The same with an `Idempotency-Key`.
    pub(crate) async fn ingest_once(&self, key: &str, body: impl Into<Vec<u8>>) -> Reply {
        self.ingest_with(&[("Idempotency-Key", key)], body).await
    }

    /// `POST` of a JSON body. The headers may name another `Content-Type`.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Reply {
        let mut all = vec![("Content-Type", "application/json")];
        all.retain(|(name, _)| {
            !headers
                .iter()
                .any(|(own, _)| own.eq_ignore_ascii_case(name))
        });
        all.extend_from_slice(headers);
        self.http.call(Method::POST, path, &all, body.into()).await
    }

    /// Any request, with no header of ours but `Authorization`.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Reply {
        self.http.call(method, path, headers, body.into()).await
    }

    /// `GET`
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.http.call(Method::GET, path, &[], Vec::new()).await
    }
}

impl Admin {
    pub(crate) fn new(addresses: impl Into<Addresses>, token: Option<&str>) -> Self {
        Self {
            http: Http::new(addresses.into(), token),
            journals: Vec::new(),
        }
    }

    /// The same, of daemons in this process.
    pub(crate) fn with_journals(self, journals: Vec<Arc<Journal>>) -> Self {
        Self { journals, ..self }
    }

    /// `GET`
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.http.call(Method::GET, path, &[], Vec::new()).await
    }

    /// Any request.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Reply {
        self.http.call(method, path, &[], Vec::new()).await
    }

    /// Any request with a JSON body.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Reply {
        let json = [("Content-Type", "application/json")];
        let body = body.to_string().into_bytes();
        self.http.call(method, path, &json, body).await
    }

    /// `data` of what a `POST` made.
    #[track_caller]
    pub(crate) fn make(&self, path: &str, body: Value) -> impl Future<Output = Value> {
        let path = path.to_owned();
        async move {
            let reply = self.send(Method::POST, &path, &body).await;
            assert_eq!(reply.status, 201, "{path}: {}", reply.text());
            reply.json()["data"].take()
        }
    }

    /// Waits until the journal has everything that was answered before: the entries of what was refused, and of
    /// greetings, are written beside their answers, and may come after them.
    pub(crate) async fn logged(&self) {
        assert!(!self.journals.is_empty(), "a daemon in this process");
        for journal in &self.journals {
            journal.flush().await.expect("the journal is open");
        }
    }

    /// A page of a connector's request log, with the query as given (`status=test&limit=3`). Everything that was answered
    /// before is in the log.
    pub(crate) async fn log(&self, connector: &str, query: &str) -> Vec<Value> {
        self.logged().await;
        let path = format!("/api/admin/connectors/{connector}/requests?{query}");
        self.get(&path).await.list()
    }

    /// The value of a metric, by its name and labels as they are printed. What nodes count is added up.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let name = series.split_once('{').map_or(series, |(name, _)| name);
        let mut counted = ["_total", "_count", "_sum"].into_iter();
        let nodes = match counted.any(|end| name.ends_with(end)) {
            true => self.http.addresses.all().len(),
            false => 1,
        };
        let mut found = None;
        for _ in 0..nodes {
            let text = self.get("/metrics").await.text();
            let value = value_of(&text, series);
            found = found.map_or(value, |sum| Some(sum + value.unwrap_or_default()));
        }
        found.unwrap_or_else(|| panic!("no series {series}"))
    }

    /// Waits until a metric has this value: what sinks did is counted after it is done.
    pub(crate) async fn counts(&self, series: &str, value: f64) {
        eventually_async(&format!("{series} is {value}"), async || {
            (self.metric(series).await == value).then_some(())
        })
        .await;
    }
}

impl Http {
    fn new(addresses: Addresses, bearer: Option<&str>) -> Self {
        let builder = Client::builder()
            .no_proxy()
            .tls_built_in_root_certs(false)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(DEADLINE)
            .pool_idle_timeout(Duration::from_secs(5));
        let socket = addresses.all().first();
        let builder = match socket.and_then(|url| url.strip_prefix("unix:")) {
            Some(path) => builder.unix_socket(path),
            None => builder,
        };
        Self {
            client: builder.build().expect("an HTTP client can be made"),
            addresses,
            bearer: bearer.map(|secret| format!("Bearer {secret}")),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let mut all = HeaderMap::new();
        if let Some(bearer) = &self.bearer {
            let value = HeaderValue::try_from(bearer).expect("a secret fits into a header");
            all.insert("authorization", value);
        }
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).expect("a header's name");
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header's value");
            all.append(name, value);
        }
        let base = match self.addresses.next() {
            socket if socket.starts_with("unix:") => "http://localhost",
            url => url,
        };
        let request = self.client.request(method, format!("{base}{path}"));
        let sent = request.headers(all).body(body).send().await;
        let response = sent.unwrap_or_else(|error| panic!("{path} is answered: {error:?}"));
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.expect("the answer is complete");
        Reply {
            status,
            headers,
            body: body.into(),
        }
    }
}

impl Reply {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name)?;
        Some(value.to_str().expect("the header is ASCII"))
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is UTF-8")
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default();
        let kind = kind.strip_suffix("; charset=utf-8").unwrap_or(kind);
        assert_eq!(kind, "application/json");
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }

    /// `data` of a 200.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        let mut json = self.json();
        assert_eq!(json["success"], true);
        json["data"].take()
    }

    /// `data` of a 200, which is a list.
    #[track_caller]
    pub(crate) fn list(&self) -> Vec<Value> {
        match self.data() {
            Value::Array(list) => list,
            other => panic!("not a list: {other}"),
        }
    }

    /// What a 202 says; everything else fails the test.
    #[track_caller]
    pub(crate) fn receipt(&self) -> Receipt {
        assert_eq!(self.status, 202, "{}", String::from_utf8_lossy(&self.body));
        let json = self.json();
        assert_eq!(json["success"], true);
        let members = |value: &Value| value.as_object().map(|object| object.len());
        assert_eq!(members(&json), Some(2), "{json}");
        assert_eq!(members(&json["data"]), Some(3), "{json}");
        let text = |name: &str| json["data"][name].as_str().map(str::to_owned);
        let receipt = Receipt {
            stream: text("stream").expect("a stream"),
            items: json["data"]["items_received"].as_u64().expect("a count"),
            request_id: text("request_id").expect("a request id"),
        };
        assert_eq!(self.header("x-request-id"), Some(&*receipt.request_id));
        let location = format!("/api/requests/{}", receipt.request_id);
        assert_eq!(self.header("location"), Some(&*location));
        let id = uuid::Uuid::try_parse(&receipt.request_id).expect("a UUID");
        assert_eq!(id.get_version_num(), 7);
        receipt
    }

    /// Checks that this is an error in the contract's envelope, with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Refusal {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{shown}");
        let json = self.json();
        assert_eq!(json["success"], false, "{shown}");
        let error = &json["error"];
        assert_eq!(error["code"], code, "{shown}");
        let id = error["request_id"].as_str().expect("a request id");
        assert_eq!(self.header("x-request-id"), Some(id), "{shown}");
        let message = error["message"].as_str().expect("a message").to_owned();
        assert!(!message.is_empty(), "{shown}");
        let details = match &error["details"] {
            Value::Null => Vec::new(),
            Value::Array(details) => details.clone(),
            other => panic!("details are a list, not {other}"),
        };
        assert!(details.len() <= 20, "{shown}");
        Refusal {
            code: code.to_owned(),
            message,
            details,
        }
    }
}
