//! Answers to what tools ask before or between deliveries.
//!
//! The webhook endpoint calls [`Verifier::handshake`] for connectors with a verification, and [`of_keyed`] for requests
//! with an ingest key. A request that was answered here stores nothing.
//!
//! **Invariant**: what is signed for a stranger can be no delivery, and what is echoed is plain text of bounded length.

use serde_json::{Value, json};

use super::certified::{SUBSCRIBED, UNSUBSCRIBED, is_sns};
use super::key::base64;
use super::preset::{Handshake, Source};
use super::secret::SECRET_LEN_MIN;
use super::verify::Check;
use super::{Delivery, Refused, Verifier, field};
use base::text::hex;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const ECHO_LEN_MAX: usize = 1_024;
/// A longer body is a delivery.
const BODY_LEN_MAX: usize = 64 * 1_024;
const TOKEN_LEN_MAX: usize = 128;

/// An answer that the sender wants to its greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    pub status: u16,
    /// The `Content-Type`, if there is one.
    pub content_type: Option<&'static str>,
    pub body: String,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Challenge {
    fn empty(status: u16, content_type: Option<&'static str>) -> Challenge {
        Challenge {
            status,
            content_type,
            body: String::new(),
            headers: Vec::new(),
        }
    }

    fn json(body: &Value) -> Challenge {
        Challenge {
            body: body.to_string(),
            ..Challenge::empty(200, Some(JSON))
        }
    }

    /// The sender's own text, so that no browser takes it for a page.
    fn echo(text: impl Into<String>) -> Result<Challenge, Refused> {
        let body = text.into();
        if body.len() > ECHO_LEN_MAX {
            return Err(Refused::body(format!(
                "the text to echo has more than {ECHO_LEN_MAX} bytes"
            )));
        }
        Ok(Challenge {
            body,
            headers: vec![("X-Content-Type-Options", "nosniff".to_owned())],
            ..Challenge::empty(200, Some(TEXT))
        })
    }
}

impl Verifier {
    /// The answer to a handshake; `None` if this is none.
    ///
    /// Checks first what can be checked: the signature where there is one, Meta's verify token, and that a text to be
    /// signed could be no delivery.
    pub fn handshake(&self, delivery: &Delivery<'_>) -> Result<Option<Challenge>, Refused> {
        let Some(handshake) = self.preset().handshake else {
            return Ok(None);
        };
        match (handshake, delivery.method) {
            (Handshake::Signed { mark, value, echo }, "POST") => {
                self.signed(delivery, mark, value, echo)
            }
            (Handshake::EncryptedToken, "POST") => self.encrypted_token(delivery),
            (Handshake::ResponseToken, "GET") => self.response_token(delivery).map(Some),
            (Handshake::VerifyToken, "GET") => self.verified_challenge(delivery).map(Some),
            (Handshake::Query { method, parameter }, given) if given == method => {
                match delivery.query(parameter) {
                    Some(text) => Challenge::echo(text).map(Some),
                    // Deliveries come with POST: another request without the parameter is neither.
                    None if given == "POST" => Ok(None),
                    None => Err(no_parameter(parameter)),
                }
            }
            (Handshake::Head, "HEAD") => Ok(Some(Challenge::empty(200, None))),
            (Handshake::Subscription, "POST") => match Confirmation::of(delivery) {
                Some(_) => self.check(delivery).map(|()| Some(Confirmation::answer())),
                None => Ok(None),
            },
            (Handshake::OwnSecret { .. }, "POST") => {
                let sent = self.own_secret(delivery);
                Ok(sent.map(|_| Challenge::empty(200, None)))
            }
            _ => Ok(None),
        }
    }

    /// The secret that the tool sends before one is set; `None` also where one is, or the text can be none.
    pub fn own_secret(&self, delivery: &Delivery<'_>) -> Option<String> {
        let Check::Awaited(name) = self.check else {
            return None;
        };
        let sent = field::at(&small_json(delivery.body)?, name)?;
        let fits = (SECRET_LEN_MIN..=ECHO_LEN_MAX).contains(&sent.len())
            && sent.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then_some(sent)
    }

    /// Slack, Discord, Twitch: a delivery like any other, but for its mark.
    fn signed(
        &self,
        delivery: &Delivery<'_>,
        mark: Source<&'static str>,
        value: &str,
        echo: Option<&str>,
    ) -> Result<Option<Challenge>, Refused> {
        let of_body = |path: &str| {
            let body = contains(delivery.body, value).then(|| field::parse(delivery.body));
            field::at(&body??, path)
        };
        if mark.find(delivery.headers, of_body).as_deref() != Some(value) {
            return Ok(None);
        }
        self.check(delivery)?;
        let Some(path) = echo else {
            return Ok(Some(Challenge::empty(204, Some(JSON))));
        };
        match field::of(delivery.body, path) {
            Some(text) => Challenge::echo(text).map(Some),
            None => Err(Refused::body(format!("the body has no `{path}`"))),
        }
    }

    /// Zoom may leave the signature out, and then anybody may ask: only what could never be a delivery is signed.
    fn encrypted_token(&self, delivery: &Delivery<'_>) -> Result<Option<Challenge>, Refused> {
        const EVENT: &str = "endpoint.url_validation";
        if !contains(delivery.body, EVENT) {
            return Ok(None);
        }
        let Some(body) = field::parse(delivery.body) else {
            return Ok(None);
        };
        if field::at(&body, "event").as_deref() != Some(EVENT) {
            return Ok(None);
        }
        let signature = self.preset().signature.header(false);
        if signature.is_some_and(|name| delivery.headers.has(name)) {
            self.check(delivery)?;
        }
        let plain = field::at(&body, "payload.plainToken");
        let (token, tag) = self.tag_of("payload.plainToken", plain.as_deref())?;
        Ok(Some(Challenge::json(
            &json!({"plainToken": token, "encryptedToken": hex(&tag)}),
        )))
    }

    /// X asks every hour, and anybody may ask.
    fn response_token(&self, delivery: &Delivery<'_>) -> Result<Challenge, Refused> {
        let token = delivery.query("crc_token");
        let (_, tag) = self.tag_of("crc_token", token.as_deref())?;
        Ok(Challenge::json(
            &json!({"response_token": format!("sha256={}", base64(&tag))}),
        ))
    }

    /// The HMAC of a token that a stranger sent.
    fn tag_of<'t>(
        &self,
        name: &str,
        token: Option<&'t str>,
    ) -> Result<(&'t str, Vec<u8>), Refused> {
        let token = token.filter(|token| is_plain_token(token));
        let tag =
            token.and_then(|token| Some((token, self.key()?.tag(&[token.as_bytes().into()])?)));
        match tag {
            Some((token, tag)) => Ok((token, tag.as_ref().to_vec())),
            None => Err(no_plain_token(name)),
        }
    }

    fn verified_challenge(&self, delivery: &Delivery<'_>) -> Result<Challenge, Refused> {
        let Some(expected) = self.verify_token() else {
            return Err(Refused::signature(
                "no verify token is set; set verify_token to the word that was entered in the tool",
            ));
        };
        let given = delivery.query("hub.verify_token").unwrap_or_default();
        let subscribes = delivery.query("hub.mode").as_deref() == Some("subscribe");
        if !expected.matches(&given) || !subscribes {
            return Err(Refused::signature(
                "the request has no hub.mode=subscribe with the verify token",
            ));
        }
        match delivery.query("hub.challenge") {
            Some(text) if is_plain_token(&text) => Challenge::echo(text),
            _ => Err(no_plain_token("hub.challenge")),
        }
    }
}

/// The answer to who only tries an address before it is used, as Intercom and many a button "test URL" do. It says
/// nothing: an address need not be known.
pub fn of_nobody(method: &str) -> Option<Challenge> {
    matches!(method, "GET" | "HEAD").then(|| Challenge::empty(200, None))
}

/// The answer to handshakes of senders that are known by a key in the request and sign nothing; the caller has checked
/// the key.
///
/// Event Grid's validation, the `OPTIONS` of CloudEvents, and SNS' confirmations, which are only acknowledged: a person
/// does what is [`to_do`].
pub fn of_keyed(delivery: &Delivery<'_>) -> Option<Challenge> {
    let headers = delivery.headers;
    match delivery.method {
        "OPTIONS" => {
            let origin = headers.get("webhook-request-origin")?;
            if origin.is_empty() || origin.len() > ECHO_LEN_MAX {
                return None;
            }
            let rate = headers.get("webhook-request-rate").unwrap_or_default();
            let number = (1..=16).contains(&rate.len()) && rate.bytes().all(|b| b.is_ascii_digit());
            let rate = if number { rate } else { "*" };
            Some(Challenge {
                headers: vec![
                    ("WebHook-Allowed-Origin", origin.to_owned()),
                    ("WebHook-Allowed-Rate", rate.to_owned()),
                    ("Allow", "POST".to_owned()),
                ],
                ..Challenge::empty(200, None)
            })
        }
        "POST" if headers.get("aeg-event-type") == Some("SubscriptionValidation") => {
            let body = small_json(delivery.body)?;
            let code = field::at(body.get(0)?, "data.validationCode")?;
            (code.len() <= ECHO_LEN_MAX)
                .then(|| Challenge::json(&json!({"validationResponse": code})))
        }
        "POST" => {
            // SNS says so in a header too, and to look there costs less than the body.
            let kind = headers.get("x-amz-sns-message-type")?;
            let confirms = [SUBSCRIBED, UNSUBSCRIBED].contains(&kind);
            let confirmation = confirms.then(|| Confirmation::of(delivery))?;
            confirmation.map(|_| Confirmation::answer())
        }
        _ => None,
    }
}

/// What a person has to do after a greeting that was answered, as a sentence part.
pub fn to_do(delivery: &Delivery<'_>) -> Option<String> {
    let Confirmation { url, ends } = Confirmation::of(delivery)?;
    Some(match ends {
        false => format!("open {url} to confirm the subscription"),
        true => format!("the subscription has ended; open {url} to have it again"),
    })
}

/// SNS' word that a subscription begins or ends.
struct Confirmation {
    /// At Amazon.
    url: String,
    ends: bool,
}

impl Confirmation {
    /// The one that a body is, if its address is Amazon's.
    fn of(delivery: &Delivery<'_>) -> Option<Confirmation> {
        const MARK: &str = "Confirmation";
        let body = contains(delivery.body, MARK).then(|| field::parse(delivery.body))??;
        let ends = match &*field::at(&body, "Type")? {
            SUBSCRIBED => false,
            UNSUBSCRIBED => true,
            _ => return None,
        };
        let url = field::at(&body, "SubscribeURL")?;
        let rest = url.strip_prefix("https://")?;
        let good = rest.split(['/', '?', '#']).next().is_some_and(is_sns)
            && url.len() <= 2 * ECHO_LEN_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic());
        good.then_some(Confirmation { url, ends })
    }

    fn answer() -> Challenge {
        Challenge::empty(200, None)
    }
}

/// Whether a text may be signed for a stranger: it is no JSON object, no form with a value, and no markup.
pub(super) fn is_plain_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=TOKEN_LEN_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Whether a short body has this text somewhere, which is cheaper to see than JSON is to read.
fn contains(body: &[u8], text: &str) -> bool {
    let mut windows = body.windows(text.len());
    body.len() < BODY_LEN_MAX && windows.any(|window| window == text.as_bytes())
}

fn small_json(body: &[u8]) -> Option<Value> {
    (body.len() < BODY_LEN_MAX).then(|| field::parse(body))?
}

fn no_parameter(name: &str) -> Refused {
    Refused::body(format!("the URL has no parameter {name}"))
}

fn no_plain_token(name: &str) -> Refused {
    Refused::body(format!(
        "the handshake's {name} is not 1 to {TOKEN_LEN_MAX} letters, digits, `-` and `_`"
    ))
}
