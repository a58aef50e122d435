//! The interface `http`: requests of a sink in one call.
//!
//! **Invariant**: a request has the same checks, limits and headers as one of `wasi:http`. Only the interface is
//! different.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use wasmtime_wasi_http::{DEFAULT_FORBIDDEN_HEADERS, Error, RequestOptions, WasiBody};

use super::Host;
use super::bindings::headgate::sink::http;
use crate::egress::{FIELDS_BYTES_MAX, in_words};
use crate::trial::whole;

impl http::Host for Host {
    async fn send(
        &mut self,
        request: http::Request,
    ) -> wasmtime::Result<Result<http::Response, String>> {
        self.charge()?;
        let time_max = request
            .timeout_ms
            .map(|ms| Duration::from_millis(ms.into()));
        let request = match written(request) {
            Ok(request) => request,
            Err(why) => return Ok(Err(why)),
        };
        let host = host(request.uri());
        let answering = self.calls.send(request, RequestOptions::default());
        let answering = async {
            let (head, body) = answering.await?.into_parts();
            Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
        };
        let answered = match time_max {
            None => answering.await,
            Some(time_max) => {
                let answered = tokio::time::timeout(time_max, answering).await;
                answered.unwrap_or(Err(Error::ConnectionReadTimeout))
            }
        };
        Ok(answered
            .map(read)
            .map_err(|error: Error| in_words(&host, &error)))
    }
}

/// Host and port of a URL, without a user. The user is left out, because it may be a secret.
fn host(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    host.to_owned()
}

/// The request as it is sent; the error is the reason why there is none. Every fault is a sentence instead of a trap,
/// so that the guest can report it with the item.
fn written(request: http::Request) -> Result<Request<WasiBody>, String> {
    let url = request.url;
    let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
    let method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| format!("{:?} is no method", request.method))?;
    let has_body = !request.body.is_empty() || !matches!(method, Method::GET | Method::HEAD);
    let length = request.body.len();
    let mut written = Request::new(whole(request.body.into()));
    *written.method_mut() = method;
    *written.uri_mut() = uri;
    let headers = written.headers_mut();
    let mut bytes = 0;
    for (name, value) in request.headers {
        let invalid = |why: &str| format!("the header {name:?} cannot be sent: {why}");
        bytes += name.len() + value.len();
        let own = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("it is no name"))?;
        if DEFAULT_FORBIDDEN_HEADERS.contains(&own) {
            return Err(invalid("it is the daemon's to set"));
        }
        let value = HeaderValue::from_str(&value);
        headers.append(own, value.map_err(|_| invalid("its value is none"))?);
    }
    if bytes > FIELDS_BYTES_MAX {
        return Err(format!(
            "the headers have {bytes} bytes; {FIELDS_BYTES_MAX} can be sent"
        ));
    }
    if has_body {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Ok(written)
}

fn read(answer: Response<Bytes>) -> http::Response {
    let headers = answer.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    http::Response {
        status: answer.status().as_u16(),
        headers: headers.collect(),
        body: answer.into_body().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str, header: (&str, &str)) -> http::Request {
        http::Request {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers: vec![(header.0.to_owned(), header.1.to_owned())],
            body: b"{}".to_vec(),
            timeout_ms: None,
        }
    }

    #[test]
    fn a_request_is_written_or_refused_in_words() {
        let good = request("http://me@a.example:81/x?y#z", ("X-One", "1"));
        let good = written(good).expect("a request");
        assert_eq!(host(good.uri()), "a.example:81");
        assert_eq!(good.headers()["x-one"], "1");
        assert_eq!(good.headers()["content-length"], "2");
        for (url, header, words) in [
            ("http://a b/", ("x", "1"), "\"http://a b/\" is no URL"),
            (
                "http://a/",
                ("x y", "1"),
                "\"x y\" cannot be sent: it is no",
            ),
            ("http://a/", ("x", "1\nb: 2"), "its value is none"),
            ("http://a/", ("Host", "b"), "it is the daemon's to set"),
            ("http://a/", ("x", &"1".repeat(40_000)), "32768 can be sent"),
        ] {
            let refused = written(request(url, header)).expect_err("none");
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
