//! Responses that are read while they arrive, and may never end.
//!
//! `tail` follows streams with it.
//!
//! **Invariant**: the deadline ends with the head of a response; the caller decides how long to wait for the rest.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use super::{CALL_TIMEOUT, CallError, Client, Refusal};
use crate::output::shown;

/// The body of a successful response in pieces.
pub struct EventStream<'a> {
    client: &'a Client,
    response: reqwest::Response,
}

impl Client {
    /// Requests a response of the given content type, and returns before its body arrives. An error response is read
    /// completely.
    pub async fn open(
        &self,
        path: &str,
        headers: HeaderMap,
        content_type: &str,
    ) -> Result<EventStream<'_>, CallError> {
        let opening = async {
            let response = self.request(Method::GET, path, headers).send().await;
            let response = response.map_err(|error| self.no_answer(error))?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(CallError::Refused(Refusal::decode(
                &self.read(response).await?,
            )))
        };
        let response = tokio::time::timeout(CALL_TIMEOUT, opening).await;
        let response = response.unwrap_or_else(|_| {
            Err(CallError::NoAnswer {
                address: self.address.clone(),
                reason: "timeout".to_owned(),
            })
        })?;
        let given = response.headers().get(CONTENT_TYPE);
        let given = given.and_then(|value| value.to_str().ok()).unwrap_or("");
        let essence = given.split(';').next().unwrap_or("").trim();
        if !essence.eq_ignore_ascii_case(content_type) {
            return Err(self.foreign(format!(
                "content type `{}` in place of {content_type}",
                shown(essence)
            )));
        }
        Ok(EventStream {
            client: self,
            response,
        })
    }
}

impl EventStream<'_> {
    /// The next piece; `None` at the end. It waits without a limit, and loses nothing if the caller cancels it.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, CallError> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|error| self.client.no_answer(error))
    }
}
