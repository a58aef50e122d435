//! The check of a delivery.
//!
//! The catalog makes a [`Verifier`] of each signing secret; the webhook endpoint asks it about every delivery.
//!
//! **Invariant**: a delivery passes only with the secret or a signature by its key, compared in constant time.

use std::borrow::Cow;
use std::fmt;

use ring::digest;

use super::certified::{Paypal, Sns};
use super::key::{Key, Token};
use super::layout::Layout;
use super::preset::{Handshake, Part, Preset, Source, Way};
use super::pubsub::Pubsub;
use super::{Delivery, Headers, InvalidVerifier, Options, Refused, custom, secret, setup, special};
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
}

/// What is compared with what.
pub(super) enum Check {
    /// A signature in a header, over the layout's message.
    Signature(Layout, Key),
    /// The secret in the header of this name.
    Token(String, Token),
    /// A signature in a header, over Twilio's message.
    Twilio(Layout, Key),
    /// A signature in the body, and the tolerance in seconds.
    Mailgun(Key, u64),
    /// The secret in every item of the body.
    Graph(Token),
    /// A signature in the body, by the key of a certificate.
    Sns(Sns),
    /// A signature in a header, by the key of a certificate.
    Paypal(Paypal),
    /// A token in a header, by a key of a set.
    Pubsub(Pubsub),
    /// Nothing yet: the tool sends its secret in this field of a body.
    Awaited(&'static str),
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
        secret::check(preset, secret)?;
        Verifier::of_any_secret(preset, options, secret, verify_token)
    }

    /// What waits for the secret of a tool that sends its own, and believes nothing until then.
    ///
    /// # Errors
    /// As [`Verifier::new`]; the tool sends none.
    pub fn awaiting(options: &Options) -> Result<Verifier, InvalidVerifier> {
        let preset = setup::preset_of(options)?;
        match preset.sends_secret() {
            Some(field) => Verifier::of(preset, options, Check::Awaited(field), None),
            None => {
                let message = format!("it is missing. {}", preset.secret_hint);
                Err(InvalidVerifier::new("secret", message))
            }
        }
    }

    /// The same for secrets that people should not use; vectors do.
    pub(super) fn of_any_secret(
        preset: &'static Preset,
        options: &Options,
        secret: &str,
        verify_token: Option<&str>,
    ) -> Result<Verifier, InvalidVerifier> {
        let check = Check::new(preset, options, secret)?;
        Verifier::of(preset, options, check, verify_token)
    }

    fn of(
        preset: &'static Preset,
        options: &Options,
        check: Check,
        verify_token: Option<&str>,
    ) -> Result<Verifier, InvalidVerifier> {
        let own = matches!(preset.name, "hmac" | "token");
        let source = |field, text: &Option<String>, of: Option<Source<&'static str>>| {
            if own {
                custom::source(field, text.as_deref())
            } else {
                Ok(of.map(Source::owned))
            }
        };
        let id = source("id", &options.id, preset.id)?;
        let event = source("event", &options.event, preset.event)?;
        Ok(Verifier {
            url: setup::url(options, check.signs_url())?,
            verify_token: verify_token_of(preset, verify_token)?,
            answer: options.answer.unwrap_or(preset.answer),
            preset,
            check,
            id,
            event,
        })
    }

    /// The row of the table; `hmac` and `token` have one of that name.
    pub fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// What can be known before the body is read: the headers that are needed are there, once; a signature that is offered
    /// could be one; there are at most 8; the timestamp, if it stands in a header, is within tolerance.
    ///
    /// Zoom may leave out the signature of its handshake, so without one its body decides.
    pub fn check_head(&self, headers: Headers<'_>, now: Unix) -> Result<(), Refused> {
        match &self.check {
            Check::Signature(layout, _) if self.may_be_unsigned(layout, headers) => Ok(()),
            Check::Signature(layout, key) | Check::Twilio(layout, key) => {
                layout.head(key, headers, now).map(drop)
            }
            Check::Token(header, _) => headers.needed(header).map(drop),
            Check::Mailgun(..) | Check::Graph(_) | Check::Awaited(_) => Ok(()),
            Check::Sns(_) => Sns::head(headers),
            Check::Paypal(paypal) => paypal.head(headers, now),
            Check::Pubsub(pubsub) => pubsub.check(headers, now),
        }
    }

    /// The whole check, that of the head included.
    pub fn check(&self, delivery: &Delivery<'_>) -> Result<(), Refused> {
        if self.preset.handshake == Some(Handshake::ResponseToken) {
            special::refuse_challenge(delivery.body)?;
        }
        let url = self.url.as_deref().unwrap_or(delivery.url);
        let (header, matches) = match &self.check {
            Check::Signature(layout, key) => {
                let mut head = layout.head(key, delivery.headers, delivery.now)?;
                let offered = std::mem::take(&mut head.offered);
                let header = std::mem::take(&mut head.header);
                let message = layout.message(head, delivery, url)?;
                (header, key.matches(&message, &offered))
            }
            Check::Twilio(layout, key) => {
                let head = layout.head(key, delivery.headers, delivery.now)?;
                let messages = special::twilio_messages(delivery, url)?;
                let one = |message: String| {
                    key.matches(&[Cow::Owned(message.into_bytes())], &head.offered)
                };
                (head.header, messages.into_iter().any(one))
            }
            Check::Token(header, token) => {
                let given = delivery.headers.needed(header)?;
                if token.matches(given) {
                    return Ok(());
                }
                let message = format!("the token in {header} is not the secret");
                return Err(Refused::signature(message));
            }
            Check::Mailgun(key, tolerance) => {
                return special::check_mailgun(key, *tolerance, delivery);
            }
            Check::Graph(token) => return special::check_graph(token, delivery.body),
            Check::Sns(sns) => return sns.check(delivery),
            Check::Paypal(paypal) => return paypal.check(delivery),
            Check::Pubsub(pubsub) => return pubsub.check(delivery.headers, delivery.now),
            Check::Awaited(field) => {
                let title = self.preset.title;
                let message = format!(
                    "the key has no secret yet: {title} has to send its own first, as {field}, and somebody has to take it on the connector's page"
                );
                return Err(Refused::signature(message));
            }
        };
        if matches {
            return Ok(());
        }
        let message = format!("the signature in {header} does not match");
        Err(Refused::signature(message))
    }

    /// The SHA-256 of what is signed, where that tells deliveries apart: the time is part of it, and an id is not, so that
    /// a captured delivery could be sent again under another one. For a delivery that was checked, and whether its id was
    /// found where the tool says it.
    pub fn signed_digest(&self, delivery: &Delivery<'_>, has_id: bool) -> Option<digest::Digest> {
        let Check::Signature(layout, key) = &self.check else {
            return None;
        };
        let has_signed_id = has_id && (self.id.as_ref()).is_some_and(|id| layout.signs(id));
        if has_signed_id || !layout.signs_time() {
            return None;
        }
        // Its time was good when it was checked, and may be over by now.
        let layout = Layout {
            tolerance_seconds: 0,
            ..layout.clone()
        };
        let url = self.url.as_deref().unwrap_or(delivery.url);
        let head = layout.head(key, delivery.headers, delivery.now).ok()?;
        let message = layout.message(head, delivery, url).ok()?;
        let mut context = digest::Context::new(&digest::SHA256);
        message.iter().for_each(|part| context.update(part));
        Some(context.finish())
    }

    /// Whether the URL is signed, so that [`Delivery::url`] must be the public one.
    pub fn signs_url(&self) -> bool {
        self.check.signs_url()
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

    /// When the last of its certificates expired, if all of them have.
    pub fn expired_at(&self, now: Unix) -> Option<Unix> {
        match &self.check {
            Check::Sns(sns) => sns.certificates().expired_at(now),
            Check::Paypal(paypal) => paypal.certificates().expired_at(now),
            _ => None,
        }
    }

    fn may_be_unsigned(&self, layout: &Layout, headers: Headers<'_>) -> bool {
        let header = layout.signature.header(false);
        self.preset.handshake == Some(Handshake::EncryptedToken)
            && header.is_some_and(|header| !headers.has(header))
    }

    /// The key, for greetings that want something signed.
    pub(super) fn key(&self) -> Option<&Key> {
        match &self.check {
            Check::Signature(_, key) | Check::Twilio(_, key) | Check::Mailgun(key, _) => Some(key),
            Check::Token(..)
            | Check::Graph(_)
            | Check::Sns(_)
            | Check::Paypal(_)
            | Check::Pubsub(_)
            | Check::Awaited(_) => None,
        }
    }

    pub(super) fn verify_token(&self) -> Option<&Token> {
        self.verify_token.as_ref()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({})", self.preset.name)
    }
}

impl Check {
    fn new(preset: &Preset, options: &Options, secret: &str) -> Result<Check, InvalidVerifier> {
        if preset.name == "token" {
            return Ok(Check::Token(custom::header(options)?, Token::new(secret)));
        }
        if preset.name == "hmac" {
            let custom = custom::layout(options)?;
            let (key, _) = secret::key(custom.secret, custom.algorithm, secret)?;
            return Ok(Check::Signature(custom.layout, key));
        }
        if secret::is_token(preset, secret) {
            let header = preset.token_header.or(preset.signature.header(false));
            return Ok(Check::Token(
                header.unwrap_or_default().to_owned(),
                Token::new(secret),
            ));
        }
        match preset.way {
            Way::Graph => return Ok(Check::Graph(Token::new(secret))),
            Way::Sns => return Sns::new(preset, options, secret).map(Check::Sns),
            Way::Paypal => return Paypal::new(preset, options, secret).map(Check::Paypal),
            Way::Pubsub => return Pubsub::new(preset, options, secret).map(Check::Pubsub),
            _ => {}
        }
        let (key, prefix) = secret::key(preset.secret, preset.algorithm, secret)?;
        let mut layout = Layout::of(preset, options.tolerance_seconds);
        if let Some(prefix) = prefix {
            prefix.clone_into(&mut layout.prefix);
        }
        Ok(match preset.way {
            Way::Twilio => Check::Twilio(layout, key),
            Way::Mailgun => Check::Mailgun(key, layout.tolerance_seconds),
            _ => Check::Signature(layout, key),
        })
    }

    fn signs_url(&self) -> bool {
        match self {
            Check::Twilio(..) => true,
            Check::Signature(layout, _) => {
                let url = |part: &Part| matches!(part, Part::Url | Part::DecodedUrl);
                layout.message.iter().any(url)
            }
            Check::Token(..)
            | Check::Mailgun(..)
            | Check::Graph(_)
            | Check::Sns(_)
            | Check::Paypal(_)
            | Check::Pubsub(_)
            | Check::Awaited(_) => false,
        }
    }
}

fn verify_token_of(preset: &Preset, given: Option<&str>) -> Result<Option<Token>, InvalidVerifier> {
    let Some(text) = given else { return Ok(None) };
    if preset.handshake != Some(Handshake::VerifyToken) {
        let message = format!("`{}` knows no verify token; leave it out", preset.name);
        return Err(InvalidVerifier::new("verify_token", message));
    }
    if text.is_empty() {
        return Err(InvalidVerifier::new(
            "verify_token",
            "it is empty; choose a word",
        ));
    }
    Ok(Some(Token::new(text)))
}
