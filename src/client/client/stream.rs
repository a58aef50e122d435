//! Answers that are read while they come, and may never end.
//!
//! `tail` follows streams through it.
//!
//! **Invariant**: an answer has a deadline up to its head only; how long to wait for what follows is the
//! caller's decision.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use super::{CALL_TIMEOUT, CallError, Client, Refusal};
use crate::output::shown;

/// The body of a successful answer, piece by piece.
pub struct EventStream<'a> {
    client: &'a Client,
    response: reqwest::Response,
}

impl Client {
    /// Gets an answer of the given content type, to be read while it comes. An error answer is read to its
    /// end here.
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
    /// What comes next; `None` at the end. Waits for ever; nothing is lost if the caller does not.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, CallError> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|error| self.client.no_answer(error))
    }
}
