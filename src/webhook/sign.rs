//! Deliveries as their tools would send them now.
//!
//! Whoever tries a connector without its tool calls [`Verifier::sign`], with one of
//! the samples of its [`Preset`](super::Preset) or a body of its own.
//!
//! **Invariant**: what is signed here passes the check: it is checked before it is handed over.

mod written;

use super::key::{Key, encode};
use super::layout::{Head, Layout};
use super::path::Path;
use super::place::{Place, Source};
use super::verify::Check;
use super::{Delivery, Headers, Refused, Verifier, clock, jwt, special};
use base::clock::Unix;
use written::{edit, place_signature, place_text, put, write_into_body};

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
    /// More headers that the tool sends.
    pub headers: &'a [(String, String)],
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
#[derive(Clone)]
pub struct Signed {
    /// The headers: content type, signature, timestamp, id and event, as far as the tool has them there.
    pub headers: Vec<(String, String)>,
    /// Parameters of the query, where the tool signs there.
    pub query: Option<String>,
    pub body: Vec<u8>,
    /// The signature, or the last of them, as it stands there.
    pub(super) signature: String,
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
            "the key holds a public key, which cannot sign; only the provider has the private key: send a test from its settings",
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
        let mut signed = Signed {
            headers: Vec::new(),
            query: None,
            body: draft.body.to_vec(),
            signature: String::new(),
        };
        put(&mut signed.headers, "Content-Type", draft.content_type)?;
        for (name, value) in draft.headers {
            put(&mut signed.headers, name, value)?;
        }
        match &self.check {
            Check::Signature(layout, key) => sign_message(layout, key, &draft, url, &mut signed)?,
            Check::Twilio(layout, key) => {
                let message = with_delivery(&draft, &signed, |delivery| {
                    special::twilio_messages(delivery, url)
                })?;
                let message = message.into_iter().next().unwrap_or_default();
                let tag = key.sign(&[message.as_bytes().into()]);
                let tag = tag.ok_or_else(CannotSign::public_key)?;
                place_signature(layout, &encoded(layout, &tag), None, &draft, &mut signed)?;
            }
            Check::Token(layout, token) => {
                token.text().clone_into(&mut signed.signature);
                let text = format!("{}{}", layout.verify.prefix, token.text());
                place_text(layout, &text, &draft, &mut signed)?;
            }
            Check::Jwt(layout, key) => {
                let token = jwt::sign(layout, key, draft.body, url, draft.now)?;
                let text = format!("{}{token}", layout.verify.prefix);
                signed.signature = token;
                place_text(layout, &text, &draft, &mut signed)?;
            }
            Check::Sns(_) | Check::Paypal(_) | Check::Pubsub(_) => {
                return Err(CannotSign::public_key());
            }
            Check::Awaited(_) => {
                let message = format!(
                    "the key has no secret yet; {} must send its own first",
                    self.preset().title
                );
                return Err(CannotSign::new(message));
            }
        }
        self.put_names(&draft, &mut signed)?;
        with_delivery(&draft, &signed, |delivery| {
            self.check_head(delivery.headers, delivery.now)?;
            self.check(delivery)
        })?;
        Ok(signed)
    }

    /// The id and the name of the event, where the tool has them in headers.
    fn put_names(&self, draft: &Draft<'_>, signed: &mut Signed) -> Result<(), CannotSign> {
        // Of several names the first is the signed one; GitLab has two, and sends its token beside the second.
        let unsigned = matches!(self.check, Check::Token(..));
        for (source, value) in [(self.id(), draft.id), (self.event(), draft.event)] {
            let names = source.into_iter().flat_map(Source::singles);
            let mut names = names.filter_map(|place| place?.header());
            let name = match unsigned {
                true => names.last(),
                false => names.next(),
            };
            let is_there = |name: &str| {
                signed
                    .headers
                    .iter()
                    .any(|(own, _)| own.eq_ignore_ascii_case(name))
            };
            if let Some(name) = name.filter(|name| !is_there(name)) {
                put(&mut signed.headers, name, value)?;
            }
        }
        Ok(())
    }
}

/// Signs the layout's message, and puts the signature where it belongs.
fn sign_message(
    layout: &Layout,
    key: &Key,
    draft: &Draft<'_>,
    url: &str,
    signed: &mut Signed,
) -> Result<(), CannotSign> {
    let time = layout.verify.timestamp.first();
    let time_text = clock::written(layout.verify.unit, draft.now);
    let is_in_body = matches!(time, Some(Place::Body(_)));
    let is_form = draft.is_form();
    if !layout.verify.signed.covers_body() {
        write_into_body(layout, draft, &time_text, &mut signed.body)?;
    }
    let id = layout.id.as_ref().filter(|id| id.is_in_headers());
    let head = Head {
        timestamp: (time.is_some() && !is_in_body).then(|| time_text.clone().into()),
        id: id.map(|_| draft.id.into()),
        ..Head::default()
    };
    let tag_of = |item: Option<&str>, body: &[u8], headers: &[(String, String)]| {
        let headers: Vec<(&str, &[u8])> = (headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let delivery = Delivery {
            method: draft.method,
            url: draft.url,
            headers: Headers(&headers),
            body,
            now: draft.now,
        };
        let message = layout.message(key, &head, &delivery, url, item)?;
        let tag = key.sign(&message).ok_or_else(CannotSign::public_key)?;
        Ok::<_, CannotSign>(encoded(layout, &tag))
    };
    if let Some(Place::Item(path)) = layout.verify.signature.first() {
        let (body, headers) = (signed.body.clone(), signed.headers.clone());
        let tag_of = |item: &str| tag_of(Some(item), &body, &headers);
        return sign_items(layout, path, is_form, signed, tag_of);
    }
    let text = tag_of(None, &signed.body, &signed.headers)?;
    let time = time
        .filter(|_| !is_in_body)
        .map(|place| (place, time_text.as_str()));
    place_signature(layout, &text, time, draft, signed)
}

/// Puts a signature of its own into each item.
fn sign_items(
    layout: &Layout,
    path: &Path,
    is_form: bool,
    signed: &mut Signed,
    tag_of: impl Fn(&str) -> Result<String, CannotSign>,
) -> Result<(), CannotSign> {
    let items = layout.items.as_ref().map_or(&[][..], |items| items.steps());
    let (mut failed, mut last) = (None, String::new());
    edit(&mut signed.body, is_form, (items, false), &mut |item| {
        super::body::each_value(item, &mut |item| match tag_of(&item.to_string()) {
            Ok(text) => {
                super::edit::each(item, path.steps(), true, &mut |value| {
                    *value = text.clone().into();
                });
                last = text;
            }
            Err(error) => failed = Some(error),
        });
    })?;
    signed.signature = last;
    failed.map_or(Ok(()), Err)
}

fn encoded(layout: &Layout, tag: &[u8]) -> String {
    encode(tag, layout.verify.encoding)
}

impl Signed {
    fn add_parameter(&mut self, name: &str, value: &str) {
        let mut query = form_urlencoded::Serializer::new(self.query.take().unwrap_or_default());
        query.append_pair(name, value);
        self.query = Some(query.finish());
    }

    /// The same with the names of its headers as they arrive.
    #[must_use]
    pub fn in_lower_case(mut self) -> Signed {
        for (name, _) in &mut self.headers {
            name.make_ascii_lowercase();
        }
        self
    }

    /// A URL or a path with the parameters that were added to its query.
    pub fn target(&self, url: &str) -> String {
        match &self.query {
            None => url.to_owned(),
            Some(query) => format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' }),
        }
    }
}

impl Draft<'_> {
    fn is_form(&self) -> bool {
        self.content_type
            .starts_with("application/x-www-form-urlencoded")
    }
}

fn with_delivery<T>(
    draft: &Draft<'_>,
    signed: &Signed,
    then: impl FnOnce(&Delivery<'_>) -> T,
) -> T {
    let headers: Vec<(&str, &[u8])> = (signed.headers.iter())
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let url = signed.target(draft.url);
    then(&Delivery {
        method: draft.method,
        url: &url,
        headers: Headers(&headers),
        body: &signed.body,
        now: draft.now,
    })
}
