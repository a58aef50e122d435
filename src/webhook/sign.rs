//! Deliveries as their tools would send them now.
//!
//! Whoever tries a connector without its tool calls [`Verifier::sign`], with one of
//! [`Preset::samples`](super::Preset::samples) or a body of its own.
//!
//! **Invariant**: what is signed here passes the check: it is checked before it is handed over.

use std::borrow::Cow;

use super::key::{Key, encode};
use super::layout::{Head, Layout};
use super::preset::{Place, Source};
use super::verify::Check;
use super::{Delivery, Headers, Refused, Verifier, clock, special, text};
use base::clock::Unix;

/// A delivery to be signed.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// The method, `POST`.
    pub method: &'a str,
    /// The URL that it will be sent to, with the query. Twilio's JSON needs its `bodySHA256` there.
    pub url: &'a str,
    /// The body; Mailgun and Microsoft Graph sign in it.
    pub body: &'a [u8],
    /// The `Content-Type`; empty for none.
    pub content_type: &'a str,
    /// The delivery's id, for tools that have it in a header, and for Mailgun. Others have it in the body already.
    pub id: &'a str,
    /// The event's name, for tools that have it in a header. Others have it in the body already.
    pub event: &'a str,
    /// The time of the signature.
    pub now: Unix,
}

/// A delivery that passes the check.
///
/// There is no `Debug`: for some tools the headers or the body hold the secret itself.
pub struct Signed {
    /// The headers: content type, signature, timestamp, id and event, as far as the tool has them there.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why a delivery cannot be signed, as a sentence part: never a secret or a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CannotSign {
    /// The reason, in words that a user can act on.
    pub message: String,
}

impl CannotSign {
    pub(super) fn new(message: impl Into<String>) -> CannotSign {
        let message = message.into();
        CannotSign { message }
    }

    pub(super) fn public_key() -> CannotSign {
        CannotSign::new(
            "what is set here is a public key, which checks signatures and cannot make them; the tool alone has the private one: have it send a test",
        )
    }
}

impl From<Refused> for CannotSign {
    fn from(refused: Refused) -> CannotSign {
        CannotSign::new(refused.message)
    }
}

impl Verifier {
    /// The headers (and, where the signature stands in the body, the body) of a delivery as its tool would send it now.
    ///
    /// # Errors
    /// [`CannotSign`] if the secret is a public key or a certificate, or if no signature makes this draft pass, for example because the
    /// timestamp or the id stands in the body and this one has none.
    pub fn sign(&self, draft: Draft<'_>) -> Result<Signed, CannotSign> {
        let url = self.url().unwrap_or(draft.url);
        let mut headers = Vec::new();
        let mut body = Cow::Borrowed(draft.body);
        put(&mut headers, "Content-Type", draft.content_type)?;
        match &self.check {
            Check::Signature(layout, key) => {
                sign_message(layout, key, &draft, url, &mut headers)?;
            }
            Check::Twilio(layout, key) => {
                let message = with_delivery(&draft, &headers, draft.body, |delivery| {
                    special::twilio_messages(delivery, url)
                })?;
                let message = message.into_iter().next().unwrap_or_default();
                sign_with(
                    layout,
                    key,
                    &[message.into_bytes().into()],
                    None,
                    &mut headers,
                )?;
            }
            Check::Token(header, token) => put(&mut headers, header, token.text())?,
            Check::Mailgun(key, _) => body = special::sign_mailgun(key, &draft)?.into(),
            Check::Graph(token) => body = special::sign_graph(token, draft.body).into(),
            Check::Sns(_) | Check::Paypal(_) | Check::Pubsub(_) => {
                return Err(CannotSign::public_key());
            }
            Check::Awaited(_) => {
                let message = format!(
                    "the key has no secret yet: {} has to send its own first",
                    self.preset().title
                );
                return Err(CannotSign::new(message));
            }
        }
        // Of two names the first is the signed one; GitLab has both, and sends its token beside the second.
        let unsigned = matches!(self.check, Check::Token(..));
        for (source, value) in [(self.id(), draft.id), (self.event(), draft.event)] {
            if let Some(name) = source.and_then(|source| source.header(unsigned)) {
                put(&mut headers, name, value)?;
            }
        }
        with_delivery(&draft, &headers, &body, |delivery| {
            self.check_head(delivery.headers, delivery.now)?;
            self.check(delivery)
        })?;
        Ok(Signed {
            headers,
            body: body.into_owned(),
        })
    }
}

/// The headers of a signature over a layout's message.
fn sign_message(
    layout: &Layout,
    key: &Key,
    draft: &Draft<'_>,
    url: &str,
    headers: &mut Vec<(String, String)>,
) -> Result<(), CannotSign> {
    let time = layout.timestamp.as_ref();
    let written = time
        .filter(|time| !matches!(time.place, Place::Source(Source::Body(_))))
        .map(|time| clock::written(time.unit, draft.now));
    let id_in_header = layout.id.as_ref().and_then(|id| id.header(false));
    let head = Head {
        header: String::new(),
        offered: Vec::new(),
        timestamp: written.as_deref().map(Cow::Borrowed),
        id: id_in_header.map(|_| draft.id.into()),
    };
    let delivery = draft.delivery(Headers(&[]), draft.body);
    let message = layout.message(head, &delivery, url)?;
    sign_with(layout, key, &message, written.as_deref(), headers)
}

/// The header of the signature, and that of the timestamp if it has one.
fn sign_with(
    layout: &Layout,
    key: &Key,
    message: &[Cow<'_, [u8]>],
    timestamp: Option<&str>,
    headers: &mut Vec<(String, String)>,
) -> Result<(), CannotSign> {
    let tag = key.tag(message).ok_or_else(CannotSign::public_key)?;
    let mut value = format!("{}{}", layout.prefix, encode(tag.as_ref(), layout.encoding));
    match (layout.timestamp.as_ref().map(|time| &time.place), timestamp) {
        (Some(Place::Part(prefix)), Some(timestamp)) => {
            let separator = layout.separator.map(String::from).unwrap_or_default();
            value = format!("{prefix}{timestamp}{separator}{value}");
        }
        (Some(Place::Source(source)), Some(timestamp)) => {
            put(headers, source.header(false).unwrap_or_default(), timestamp)?;
        }
        _ => {}
    }
    put(
        headers,
        layout.signature.header(false).unwrap_or_default(),
        &value,
    )
}

/// Adds a header; one without a value is left out.
fn put(headers: &mut Vec<(String, String)>, name: &str, value: &str) -> Result<(), CannotSign> {
    if text(value.as_bytes()).is_none() || value.trim() != value {
        return Err(CannotSign::new(format!(
            "the value for the header {name} has control characters, or spaces around it"
        )));
    }
    if !value.is_empty() {
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(())
}

impl<'a> Draft<'a> {
    fn delivery(&self, headers: Headers<'a>, body: &'a [u8]) -> Delivery<'a> {
        Delivery {
            method: self.method,
            url: self.url,
            headers,
            body,
            now: self.now,
        }
    }
}

fn with_delivery<T>(
    draft: &Draft<'_>,
    headers: &[(String, String)],
    body: &[u8],
    then: impl FnOnce(&Delivery<'_>) -> T,
) -> T {
    let headers: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    then(&draft.delivery(Headers(&headers), body))
}
