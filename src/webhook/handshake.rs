//! Answers to what tools ask before or between deliveries.
//!
//! The webhook endpoint calls [`Verifier::handshake`] for connectors with a verification, and [`of_keyed`] for requests
//! with an ingest key. A request that was answered here stores nothing.
//!
//! **Invariant**: what is signed for a stranger can be no delivery, and what is echoed is plain text of bounded length.

mod answer;

use std::borrow::Cow;

use serde_json::Value;

use super::certified::{SUBSCRIBED, UNSUBSCRIBED, is_sns};
use super::place::{Place, parameter};
use super::preset::{Handshake, HandshakeCheck, Preset};
use super::secret::SECRET_LEN_MIN;
use super::verify::Check;
use super::{Delivery, Refused, Verifier, field, preset};
use answer::{answered, no_text};

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
const ECHO_LEN_MAX: usize = 1_024;
/// A longer body is a delivery. A large delivery would otherwise be parsed once more to see that it is no question.
const BODY_LEN_MAX: usize = 64 * 1_024;
const TOKEN_LEN_MAX: usize = 128;
/// Presets whose questions are answered to whoever has a key.
const KEYED: [&str; 2] = ["eventgrid", "cloudevents"];

/// An answer that the sender wants to its greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    pub status: u16,
    /// The `Content-Type`, if there is one.
    pub content_type: Option<Cow<'static, str>>,
    pub body: String,
    /// More headers.
    pub headers: Vec<(String, String)>,
}

impl Challenge {
    fn empty(status: u16) -> Challenge {
        Challenge {
            status,
            content_type: None,
            body: String::new(),
            headers: Vec::new(),
        }
    }
}

impl Verifier {
    /// The answer to a handshake; `None` if this is none.
    ///
    /// Checks first what can be checked: the signature where there is one, the verify token, and that a text to be signed
    /// could be no delivery.
    pub fn handshake(&self, delivery: &Delivery<'_>) -> Result<Option<Challenge>, Refused> {
        for one in &self.preset().handshakes {
            if one.subscription {
                if delivery.method == "POST" && Confirmation::of(delivery).is_some() {
                    return self.check(delivery).map(|()| Some(Confirmation::answer()));
                }
                continue;
            }
            if one.method != delivery.method {
                continue;
            }
            if let HandshakeCheck::VerifyToken(place) = &one.check {
                let fits = holds(one, delivery) && self.knows_word(place, delivery)?;
                if !fits {
                    return Err(self.no_word(place));
                }
                return answered(one, delivery, Some(self)).map(Some);
            }
            if !holds(one, delivery) {
                continue;
            }
            if let Some(place) = &one.secret {
                match self.fits_secret(place, delivery) {
                    true => return answered(one, delivery, Some(self)).map(Some),
                    false => continue,
                }
            }
            match one.check {
                HandshakeCheck::Signature => self.check(delivery)?,
                HandshakeCheck::SignatureIfPresent if self.is_signed(delivery) => {
                    self.check(delivery)?;
                }
                _ => {}
            }
            return answered(one, delivery, Some(self)).map(Some);
        }
        // Deliveries come with POST: another request that is no question lacks something.
        match (delivery.method, self.missing(delivery)) {
            ("POST", _) | (_, None) => Ok(None),
            (_, Some(place)) => Err(no_text(place)),
        }
    }

    /// The secret that the tool sends before one is set; `None` also where one is, or the text can be none. A short one
    /// is not taken, because it could be found by trying.
    pub fn own_secret(&self, delivery: &Delivery<'_>) -> Option<String> {
        let Check::Awaited(place) = &self.check else {
            return None;
        };
        let sent = (delivery.method == "POST").then(|| text_at(place, delivery))??;
        let fits = (SECRET_LEN_MIN..=ECHO_LEN_MAX).contains(&sent.len())
            && sent.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then_some(sent)
    }

    /// Whether what the tool sends as its secret is that of the key, or can become it.
    fn fits_secret(&self, place: &Place, delivery: &Delivery<'_>) -> bool {
        match (&self.check, self.secret_of_tool()) {
            (Check::Awaited(_), _) => self.own_secret(delivery).is_some(),
            (_, Some(secret)) => text_at(place, delivery).is_some_and(|text| secret.matches(&text)),
            (_, None) => false,
        }
    }

    fn knows_word(&self, place: &Place, delivery: &Delivery<'_>) -> Result<bool, Refused> {
        let Some(expected) = self.verify_token() else {
            return Err(Refused::signature(
                "no verify token is set; set verify_token to the word entered in the provider's settings",
            ));
        };
        Ok(expected.matches(&text_at(place, delivery).unwrap_or_default()))
    }

    fn no_word(&self, place: &Place) -> Refused {
        let message = format!(
            "the verify token in {} is missing or wrong, or the request is not a challenge of {}",
            super::layout::shown(place),
            self.preset().title
        );
        Refused::signature(message)
    }

    fn is_signed(&self, delivery: &Delivery<'_>) -> bool {
        match &self.check {
            Check::Signature(layout, _) | Check::Jwt(layout, _) | Check::Token(layout, _) => {
                let places = &layout.verify.signature;
                places
                    .iter()
                    .any(|place| text_at(place, delivery).is_some())
            }
            _ => true,
        }
    }

    /// What a question with this method would have to say. The message shows so which part of a question did not come.
    fn missing(&self, delivery: &Delivery<'_>) -> Option<&Place> {
        let of_method = |one: &&Handshake| one.method == delivery.method;
        let asked = self.preset().handshakes.iter().find(of_method)?;
        asked.when.first().map(|(place, _)| place)
    }
}

/// Whether a request is this question.
fn holds(one: &Handshake, delivery: &Delivery<'_>) -> bool {
    // To see that a short body has a text somewhere is cheaper than to read it.
    let may_be = |(place, value): &(Place, Option<String>)| match (place, value) {
        (Place::Body(_), Some(value)) => contains(delivery.body, value),
        _ => true,
    };
    one.when.iter().all(may_be)
        && one.when.iter().all(|(place, value)| {
            let found = text_at(place, delivery);
            match value {
                Some(value) => found.as_ref() == Some(value),
                None => found.is_some(),
            }
        })
}

/// What stands at a place of a question; nothing and empty text are the same.
fn text_at(place: &Place, delivery: &Delivery<'_>) -> Option<String> {
    let text = match place {
        Place::Header(name) => delivery.headers.get(name).map(str::to_owned),
        Place::Query(name) => parameter(delivery.url, name),
        Place::Body(path) => (delivery.body.len() < BODY_LEN_MAX).then(|| delivery.field(path))?,
        Place::Item(_) | Place::Part(_) => None,
    };
    text.filter(|text| !text.is_empty())
}

/// The answer to who only tries an address before it is used, as Intercom and many a button "test URL" do. It says
/// nothing: an address need not be known.
pub fn of_nobody(method: &str) -> Option<Challenge> {
    matches!(method, "GET" | "HEAD").then(|| Challenge::empty(200))
}

/// The answer to handshakes of senders that are known by a key in the request and sign nothing; the caller has checked
/// the key. `of` is the preset of the key, if it has one.
///
/// Those of the preset, Event Grid's validation, the `OPTIONS` of CloudEvents, and SNS' confirmations, which are only
/// acknowledged: a person does what is [`to_do`].
pub fn of_keyed(of: Option<&Preset>, delivery: &Delivery<'_>) -> Option<Challenge> {
    let keyed = of.filter(|preset| !preset.signed());
    let others = KEYED.iter().filter_map(|name| preset(name));
    let all = keyed.into_iter().chain(others);
    let mut fitting = all
        .flat_map(|preset| &preset.handshakes)
        .filter(|one| one.method == delivery.method && !one.subscription && holds(one, delivery));
    if let Some(one) = fitting.next() {
        return answered(one, delivery, None).ok();
    }
    if delivery.method != "POST" {
        return None;
    }
    // SNS says so in a header too, and to look there costs less than the body.
    let kind = delivery.headers.get("x-amz-sns-message-type")?;
    let confirms = [SUBSCRIBED, UNSUBSCRIBED].contains(&kind);
    let confirmation = confirms.then(|| Confirmation::of(delivery))?;
    confirmation.map(|_| Confirmation::answer())
}

/// What a person has to do after a greeting that was answered, as a sentence part.
pub fn to_do(delivery: &Delivery<'_>) -> Option<String> {
    let Confirmation { url, ends } = Confirmation::of(delivery)?;
    Some(match ends {
        false => format!("open {url} to confirm the subscription"),
        true => format!("the subscription has ended; open {url} to subscribe again"),
    })
}

/// SNS' word that a subscription begins or ends.
struct Confirmation {
    /// At Amazon.
    url: String,
    ends: bool,
}

impl Confirmation {
    /// The one that a body is, if its address is Amazon's. Another address could lead the operator anywhere.
    fn of(delivery: &Delivery<'_>) -> Option<Confirmation> {
        const MARK: &str = "Confirmation";
        let body = contains(delivery.body, MARK).then(|| field::parse(delivery.body))??;
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let ends = match text("Type")? {
            SUBSCRIBED => false,
            UNSUBSCRIBED => true,
            _ => return None,
        };
        let url = text("SubscribeURL")?.to_owned();
        let rest = url.strip_prefix("https://")?;
        let good = rest.split(['/', '?', '#']).next().is_some_and(is_sns)
            && url.len() <= 2 * ECHO_LEN_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic());
        good.then_some(Confirmation { url, ends })
    }

    fn answer() -> Challenge {
        Challenge::empty(200)
    }
}

/// Whether a text may be signed for a stranger: it is no JSON object, no form with a value, and no markup. Otherwise
/// anybody could have a body signed and send it as a delivery.
pub(super) fn is_plain_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=TOKEN_LEN_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Whether a short body has this text somewhere, which is cheaper to see than JSON is to read.
fn contains(body: &[u8], text: &str) -> bool {
    let mut windows = body.windows(text.len());
    body.len() < BODY_LEN_MAX && windows.any(|window| window == text.as_bytes())
}
