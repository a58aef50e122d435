//! The check of a delivery.
//!
//! The catalog makes a [`Verifier`] of each signing secret; the webhook endpoint asks it about every delivery.
//!
//! **Invariant**: a delivery passes only with the secret or a signature by its key, compared in constant time.

use std::borrow::Cow;
use std::fmt;

use ring::digest;

use super::certified::{Paypal, Sns};
use super::compare::{check_signature, check_token, matching};
use super::key::{Key, Token, hashed};
use super::layout::{Layout, Outside, shown};
use super::place::{Place, Source};
use super::preset::{Algorithm, Digest, HandshakeCheck, Preset};
use super::pubsub::Pubsub;
use super::{
    Delivery, Headers, InvalidVerifier, Options, Refused, clock, custom, jwt, secret, setup,
    special,
};
use base::clock::Unix;

/// A verification that is ready to check deliveries. `Debug` shows the scheme alone, never a secret.
pub struct Verifier {
    preset: &'static Preset,
    pub(super) check: Check,
    url: Option<String>,
    id: Option<Source>,
    event: Option<Source>,
    answer: u16,
    verify_token: Option<Token>,
    /// The secret, for a tool that sends it in a question. A repeated question is answered only if it has the same one.
    own_secret: Option<Token>,
}

/// What is compared with what.
pub(super) enum Check {
    /// A signature over the layout's message.
    Signature(Layout, Key),
    /// The secret itself.
    Token(Layout, Token),
    /// A signature in a header, over Twilio's message.
    Twilio(Layout, Key),
    /// A token that says what is signed.
    Jwt(Layout, Key),
    /// A signature in the body, by the key of a certificate.
    Sns(Sns),
    /// A signature in a header, by the key of a certificate.
    Paypal(Paypal),
    /// A token in a header, by a key of a set.
    Pubsub(Pubsub),
    /// Nothing yet: the tool sends its secret at this place. The key exists before its secret, because the tool sends
    /// the secret to its address.
    Awaited(Place),
}

impl Verifier {
    /// Makes the key of a secret, once.
    ///
    /// `secret` is the text as the tool shows it; `verify_token` is Meta's. The error names the field of the settings
    /// that does not fit, and says what to do.
    pub fn new(
        options: &Options,
        secret: &str,
        verify_token: Option<&str>,
    ) -> Result<Verifier, InvalidVerifier> {
        let preset = setup::preset_of(options)?;
        let layout = custom::layout(preset, options, secret)?;
        secret::check(preset, &layout.verify, secret)?;
        Verifier::of_any_secret(preset, options, secret, verify_token)
    }

    /// What waits for the secret of a tool that sends its own, and believes nothing until then.
    ///
    /// # Errors
    /// As [`Verifier::new`]; the tool sends none.
    pub fn awaiting(options: &Options) -> Result<Verifier, InvalidVerifier> {
        let preset = setup::preset_of(options)?;
        match preset.sends_secret() {
            Some(place) => {
                let layout = custom::layout(preset, options, "")?;
                let check = Check::Awaited(place.clone());
                Verifier::of(preset, options, (check, &layout), None)
            }
            None => {
                let message = format!("it is missing. {}", preset.secret_hint);
                Err(InvalidVerifier::new("secret", message))
            }
        }
    }

    /// The same for secrets that people should not use; vectors do. A tool publishes vectors with short ones.
    pub(super) fn of_any_secret(
        preset: &'static Preset,
        options: &Options,
        secret: &str,
        verify_token: Option<&str>,
    ) -> Result<Verifier, InvalidVerifier> {
        let layout = custom::layout(preset, options, secret)?;
        let check = Check::new(preset, options, layout.clone(), secret)?;
        let made = Verifier::of(preset, options, (check, &layout), verify_token)?;
        let own_secret = (preset.sends_secret()).map(|_| Token::new(secret));
        Ok(Verifier { own_secret, ..made })
    }

    fn of(
        preset: &'static Preset,
        options: &Options,
        (check, layout): (Check, &Layout),
        verify_token: Option<&str>,
    ) -> Result<Verifier, InvalidVerifier> {
        let event = custom::source("event", options.event.as_deref())?;
        Ok(Verifier {
            url: setup::url(options, layout.verify.signs_url())?,
            verify_token: verify_token_of(preset, verify_token)?,
            answer: options.answer.unwrap_or(preset.answer.status),
            preset,
            check,
            id: layout.id.clone(),
            event: event.or_else(|| preset.event.clone()),
            own_secret: None,
        })
    }

    /// What is known of the tool; `hmac` and `token` are presets of that name.
    pub fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// What can be known before the body is read: the headers that are needed are there, once; a signature that is offered
    /// could be one; there are at most 8; the timestamp, if it stands in a header, is within tolerance. A sender
    /// without the secret could otherwise make the daemon receive large bodies.
    ///
    /// Some tools may leave out the signature of their questions, so without one the body decides.
    pub fn check_head(&self, headers: Headers<'_>, now: Unix) -> Result<(), Refused> {
        let of = Outside {
            headers,
            url: None,
            now,
        };
        match &self.check {
            _ if self.may_be_unsigned(headers) => Ok(()),
            Check::Signature(layout, key) | Check::Twilio(layout, key) => {
                layout.head(key, of).map(drop)
            }
            Check::Token(layout, _) => {
                let places = &layout.verify.signature;
                layout.given(of, places, &mut String::new()).map(drop)
            }
            Check::Jwt(layout, key) => jwt::check_head(layout, key, of).map(drop),
            Check::Awaited(_) => Ok(()),
            Check::Sns(_) => Sns::head(headers),
            Check::Paypal(paypal) => paypal.head(headers, now),
            Check::Pubsub(pubsub) => pubsub.check(headers, now),
        }
    }

    /// The whole check, that of the head included. The head is checked again, because only now the URL is known.
    pub fn check(&self, delivery: &Delivery<'_>) -> Result<(), Refused> {
        if self.preset.handshakes.iter().any(|one| one.answer.signs()) {
            special::refuse_challenge(delivery.body)?;
        }
        let url = self.url.as_deref().unwrap_or(delivery.url);
        match &self.check {
            Check::Signature(layout, key) => check_signature(layout, key, delivery, url),
            Check::Twilio(layout, key) => {
                let head = layout.head(key, Outside::of(delivery))?;
                let messages = special::twilio_messages(delivery, url)?;
                let one = |message: String| {
                    key.matches(&[Cow::Owned(message.into_bytes())], &head.offered)
                };
                matching(messages.into_iter().any(one), &head.name)
            }
            Check::Token(layout, token) => check_token(layout, token, delivery),
            Check::Jwt(layout, key) => jwt::check(layout, key, delivery, url),
            Check::Sns(sns) => sns.check(delivery),
            Check::Paypal(paypal) => paypal.check(delivery),
            Check::Pubsub(pubsub) => pubsub.check(delivery.headers, delivery.now),
            Check::Awaited(place) => {
                let title = &self.preset.title;
                let message = format!(
                    "the key has no secret yet: {title} must send its own first, as {}; then an operator accepts it on the connector's page",
                    shown(place)
                );
                Err(Refused::signature(message))
            }
        }
    }

    /// The SHA-256 of what is signed, where that tells deliveries apart: the time is part of it, and an id is not, so that
    /// a captured delivery could be sent again under another one. For a delivery that was checked, and whether its id was
    /// found where the tool says it.
    pub fn signed_digest(&self, delivery: &Delivery<'_>, has_id: bool) -> Option<digest::Digest> {
        let (Check::Signature(layout, key) | Check::Jwt(layout, key)) = &self.check else {
            return None;
        };
        // What a body says hangs on its content type, which nobody signs: of several, another one shows another id.
        let is_read_one_way = self.preset().content_types.len() == 1;
        let signs_id = (self.id.as_ref()).is_some_and(|id| layout.signs(id));
        let has_signed_id = has_id && signs_id && is_read_one_way;
        if let Check::Jwt(..) = &self.check {
            // One that says nothing of the body may be that of several deliveries in one second.
            let is_claimed = match layout.verify.body_hash {
                Some(_) => !has_signed_id,
                None => !has_id,
            };
            return is_claimed.then(|| jwt::digest(layout, Outside::of(delivery)))?;
        }
        if has_signed_id || !layout.signs_time() || layout.verify.is_of_items() {
            return None;
        }
        // Its time was good when it was checked, and may be over by now.
        let mut layout = layout.clone();
        layout.verify.tolerance_seconds = 0;
        let url = self.url.as_deref().unwrap_or(delivery.url);
        let head = layout.head(key, Outside::of(delivery)).ok()?;
        let message = layout.message(key, &head, delivery, url, None).ok()?;
        Some(hashed(Digest::Sha256, &message))
    }

    /// Whether the URL is signed, so that [`Delivery::url`] must be the public one.
    pub fn signs_url(&self) -> bool {
        match &self.check {
            Check::Signature(layout, _)
            | Check::Jwt(layout, _)
            | Check::Twilio(layout, _)
            | Check::Token(layout, _) => layout.verify.signs_url(),
            Check::Sns(_) | Check::Paypal(_) | Check::Pubsub(_) | Check::Awaited(_) => false,
        }
    }

    /// The URL of the settings, used for the signature in place of [`Delivery::url`].
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Where the delivery's id stands.
    pub fn id(&self) -> Option<&Source> {
        self.id.as_ref()
    }

    /// Where the event's name stands.
    pub fn event(&self) -> Option<&Source> {
        self.event.as_ref()
    }

    /// The status of the answer to a delivery.
    pub fn answer(&self) -> u16 {
        self.answer
    }

    /// When the sender says that it sent the delivery, where the preset says where that stands. The tolerance is not
    /// applied, because a stored delivery may be old.
    pub fn sent_at(&self, delivery: &Delivery<'_>) -> Option<Unix> {
        let (layout, key) = match &self.check {
            Check::Signature(layout, key) => (layout, key),
            // It has several times, all of which held when it was seen.
            Check::Jwt(..) => return Some(delivery.now),
            _ => return None,
        };
        let mut layout = layout.clone();
        layout.verify.tolerance_seconds = 0;
        let in_body = layout
            .verify
            .timestamp
            .iter()
            .find_map(|place| match place {
                Place::Body(path) => delivery.field(path),
                _ => None,
            });
        let head = layout.head(key, Outside::of(delivery)).ok()?;
        let text = head.timestamp.map(Cow::into_owned).or(in_body)?;
        let at = clock::read(&text, layout.verify.unit)?;
        Some(Unix::from_ms(u64::try_from(at).ok()?))
    }

    /// When the last of its certificates expired, if all of them have.
    pub fn expired_at(&self, now: Unix) -> Option<Unix> {
        match &self.check {
            Check::Sns(sns) => sns.certificates().expired_at(now),
            Check::Paypal(paypal) => paypal.certificates().expired_at(now),
            _ => None,
        }
    }

    /// Whether it may be a question that needs no signature, as far as headers say so. Otherwise such a question would
    /// be refused before its body shows what it is.
    fn may_be_unsigned(&self, headers: Headers<'_>) -> bool {
        let signature = match &self.check {
            Check::Signature(layout, _) | Check::Jwt(layout, _) | Check::Token(layout, _) => {
                &layout.verify.signature
            }
            _ => return false,
        };
        let is_there = |place: &Place| (place.header()).is_some_and(|name| headers.has(name));
        if signature.iter().any(is_there) {
            return false;
        }
        self.preset.handshakes.iter().any(|one| {
            let holds = |(place, value): &(Place, Option<String>)| match place {
                Place::Header(name) => match (headers.get(name), value) {
                    (Some(text), Some(value)) => text == value,
                    (found, None) => found.is_some(),
                    (None, Some(_)) => false,
                },
                _ => true,
            };
            one.method == "POST"
                && one.check != HandshakeCheck::Signature
                && !one.subscription
                && one.when.iter().all(holds)
        })
    }

    /// The key, for questions that want something signed.
    pub(super) fn key(&self) -> Option<&Key> {
        match &self.check {
            Check::Signature(_, key) | Check::Twilio(_, key) | Check::Jwt(_, key) => Some(key),
            _ => None,
        }
    }

    pub(super) fn verify_token(&self) -> Option<&Token> {
        self.verify_token.as_ref()
    }

    pub(super) fn secret_of_tool(&self) -> Option<&Token> {
        self.own_secret.as_ref()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({})", self.preset.name)
    }
}

impl Check {
    fn new(
        preset: &Preset,
        options: &Options,
        layout: Layout,
        secret: &str,
    ) -> Result<Check, InvalidVerifier> {
        match layout.verify.algorithm {
            Algorithm::Token => Ok(Check::Token(layout, Token::new(secret))),
            Algorithm::Sns => Sns::new(preset, options, secret).map(Check::Sns),
            Algorithm::Paypal => Paypal::new(preset, options, &layout, secret).map(Check::Paypal),
            Algorithm::Pubsub => Pubsub::new(preset, options, &layout, secret).map(Check::Pubsub),
            algorithm => {
                let key = secret::key(&layout.verify, secret)?;
                Ok(match algorithm {
                    Algorithm::Twilio => Check::Twilio(layout, key),
                    Algorithm::Jwt(_) => Check::Jwt(layout, key),
                    _ => Check::Signature(layout, key),
                })
            }
        }
    }
}

fn verify_token_of(preset: &Preset, given: Option<&str>) -> Result<Option<Token>, InvalidVerifier> {
    let Some(text) = given else { return Ok(None) };
    if !preset.asks_for_word() {
        let message = format!("`{}` does not use a verify token; omit it", preset.name);
        return Err(InvalidVerifier::new("verify_token", message));
    }
    if text.is_empty() {
        return Err(InvalidVerifier::new(
            "verify_token",
            "it is empty; set the word entered in the provider's settings",
        ));
    }
    Ok(Some(Token::new(text)))
}
