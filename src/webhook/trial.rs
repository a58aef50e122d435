//! A preset tried: what it signs is believed, and nothing else; questions are answered; real deliveries come out as they
//! say.
//!
//! `headgate preset test` and the tests call it. What the items of a sample become is the pipeline's to say.
//!
//! **Invariant**: what checks here is the [`Verifier`] that a daemon uses. A secret is made for each trial.

mod questions;
mod vectors;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::key::{Key, base64, decode, encode};
use super::pair::Pair;
use super::preset::{Encoding, Preset, Sample, SecretForm, Verification};
use super::verify::Check;
use super::{Because, CannotSign, Delivery, Draft, Headers, Options, Refused, Signed, Verifier};
use base::clock::Unix;
use base::text::hex;
pub use questions::questions;
pub use vectors::vectors;

/// The address that is signed where the URL is.
const PUBLIC_URL: &str = "https://hooks.example.com";
/// How much later than the tolerance a delivery is tried.
const LATE: Duration = Duration::from_hours(1);
const SECRET_LEN: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What, as a sentence part.
    pub what: String,
    /// What is wrong with it; none: it is as it should be.
    pub wrong: Option<String>,
}

impl Tried {
    pub fn of(what: impl Into<String>, wrong: Option<String>) -> Tried {
        let what = what.into();
        Tried { what, wrong }
    }
}

/// A preset with a secret that was made for it.
pub struct Trial {
    pub options: Options,
    pub secret: String,
    verifier: Verifier,
    /// As the secret is checked.
    verify: Verification,
}

impl Trial {
    /// One for each kind of secret that the preset knows. None where only the tool can sign.
    ///
    /// # Errors
    /// A secret of the form that the preset says cannot be used with it.
    pub fn all(preset: &'static Preset) -> Result<Vec<Trial>, String> {
        let Some(verify) = preset
            .verify
            .as_ref()
            .filter(|_| preset.published().is_none())
        else {
            return Ok(Vec::new());
        };
        let others = (verify.by_secret.iter()).filter_map(|(start, name)| {
            let other = super::preset(name)?.verify.as_ref()?;
            Some((start.as_str(), other))
        });
        let kinds = [(verify.secret_prefix.as_str(), verify)].into_iter();
        kinds
            .chain(others)
            .map(|(start, verify)| Trial::of(preset, start, verify))
            .collect()
    }

    fn of(preset: &'static Preset, start: &str, verify: &Verification) -> Result<Trial, String> {
        let options = options_of(preset);
        let pair = Pair::of(verify.algorithm);
        let secret = match &pair {
            Some(pair) if start.is_empty() => pair.public(),
            Some(pair) => format!("{start}{}", base64(pair.raw().unwrap_or_default())),
            None => secret_of(start, verify.secret_encoding),
        };
        let mut verifier =
            Verifier::new(&options, &secret, None).map_err(|invalid| invalid.to_string())?;
        if let Check::Signature(_, Key::Public(.., own)) | Check::Jwt(_, Key::Public(.., own)) =
            &mut verifier.check
        {
            *own = pair;
        }
        Ok(Trial {
            options,
            secret,
            verifier,
            verify: verify.clone(),
        })
    }

    /// A sample as the tool would send it.
    ///
    /// # Errors
    /// No signature makes it pass.
    pub fn sign(
        &self,
        sample: &Sample,
        id: &str,
        target: &str,
        now: Unix,
    ) -> Result<Signed, CannotSign> {
        let body = sample.fill(id, now);
        let url = [PUBLIC_URL, target].concat();
        self.verifier.sign(Draft {
            method: "POST",
            url: &url,
            body: body.as_bytes(),
            content_type: &sample.content_type,
            headers: &sample.headers,
            id,
            event: &sample.event,
            now,
        })
    }

    /// Signs a sample, and tries it as it is and otherwise. Otherwise a preset that believes everything would pass.
    pub fn of_sample(&self, sample: &Sample, id: &str, now: Unix) -> Vec<Tried> {
        let target = "/api/webhook/trial/trial";
        let signed = match self.sign(sample, id, target, now) {
            Ok(signed) => signed,
            Err(error) => return vec![Tried::of("verified", Some(error.to_string()))],
        };
        let checked = |signed: &Signed, now: Unix| {
            let url = signed.target(&[PUBLIC_URL, target].concat());
            with_request("POST", &url, &signed.headers, &signed.body, now, |of| {
                verified(&self.verifier, of)
            })
        };
        let mut tried = vec![Tried::of(
            "verified",
            checked(&signed, now).err().map(|refused| refused.message),
        )];
        let verify = &self.verify;
        match verify.unsigned_body {
            true => tried.push(Tried::of("the signature does not cover the body", None)),
            false => {
                let mut other = signed.clone();
                other.body.push(b' ');
                let result = checked(&other, now);
                tried.push(believed_not("one byte of the body changed", result, None));
            }
        }
        let result = checked(&self.with_other_signature(&signed), now);
        let what = "one byte of the signature changed";
        tried.push(believed_not(what, result, None));
        let is_timed =
            !verify.timestamp.is_empty() || matches!(self.verifier.check, Check::Jwt(..));
        if is_timed && verify.tolerance_seconds > 0 {
            let late = now + Duration::from_secs(verify.tolerance_seconds) + LATE;
            let because = Some(Because::Timestamp);
            tried.push(believed_not("out of time", checked(&signed, late), because));
        }
        tried
    }

    /// The same delivery with another signature: one bit of its bytes, not of how they are written. A changed character
    /// may stand for the same bytes, and would then rightly pass.
    fn with_other_signature(&self, signed: &Signed) -> Signed {
        let given = signed.signature.as_str();
        let other = match &self.verifier.check {
            Check::Token(..) => flipped(given.as_bytes(), |bytes| {
                String::from_utf8_lossy(bytes).into_owned()
            }),
            Check::Jwt(..) => {
                let (message, tag) = given.rsplit_once('.').unwrap_or_default();
                let tag = URL_SAFE_NO_PAD.decode(tag).unwrap_or_default();
                let tag = flipped(&tag, |bytes| URL_SAFE_NO_PAD.encode(bytes));
                format!("{message}.{tag}")
            }
            _ => {
                let encoding = self.verify.encoding;
                let tag = decode(given, encoding).unwrap_or_default();
                flipped(&tag, |bytes| encode(bytes, encoding))
            }
        };
        let mut changed = signed.clone();
        // In a form or a query, and in JSON, some characters are written otherwise.
        for (from, to) in [
            (given.to_owned(), other.clone()),
            (in_form(given), in_form(&other)),
        ] {
            for (_, value) in &mut changed.headers {
                *value = value.replace(&from, &to);
            }
            changed.query = changed.query.map(|query| query.replace(&from, &to));
            let body = String::from_utf8_lossy(&changed.body).replace(&from, &to);
            changed.body = body.into_bytes();
        }
        changed
    }
}

fn flipped(bytes: &[u8], written: impl Fn(&[u8]) -> String) -> String {
    let mut bytes = bytes.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    written(&bytes)
}

fn in_form(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// What is to be refused, for this reason if there is one.
fn believed_not(what: &str, result: Result<(), Refused>, because: Option<Because>) -> Tried {
    let wrong = match result {
        Ok(()) => Some("it was accepted".to_owned()),
        Err(refused) if because.is_some_and(|because| because != refused.because) => Some(format!(
            "it was rejected for another reason: {}",
            refused.message
        )),
        Err(_) => None,
    };
    Tried::of(format!("{what}: rejected"), wrong)
}

/// A preset with what it needs, each option with a text of its own.
fn options_of(preset: &Preset) -> Options {
    let mut options = Options::of(&preset.name);
    if preset.is_generic() {
        options.header = Some("X-Signature".to_owned());
    }
    for option in &preset.options {
        options.set_detail(&option.name, Some(format!("the-{}", option.name)));
    }
    options
}

/// A secret of this form that begins so.
fn secret_of(start: &str, form: SecretForm) -> String {
    let mut bytes = [0; SECRET_LEN];
    // Nothing is kept by it: a secret that is always the same would do as well.
    let _ = SystemRandom::new().fill(&mut bytes);
    let text = match form {
        SecretForm::Text | SecretForm::Hex => hex(&bytes),
        SecretForm::Base64 | SecretForm::Whsec => base64(&bytes),
        SecretForm::Base64Url => encode(&bytes, Encoding::Base64Url),
    };
    match form {
        SecretForm::Whsec if start.is_empty() => format!("whsec_{text}"),
        _ => format!("{start}{text}"),
    }
}

/// As a daemon does it: the head, then, unless it is a question, the whole.
fn verified(verifier: &Verifier, delivery: &Delivery<'_>) -> Result<(), Refused> {
    verifier.check_head(delivery.headers, delivery.now)?;
    match verifier.handshake(delivery)? {
        Some(_) => Ok(()),
        None => verifier.check(delivery),
    }
}

fn with_request<T>(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: &[u8],
    now: Unix,
    then: impl FnOnce(&Delivery<'_>) -> T,
) -> T {
    let headers: Vec<(&str, &[u8])> = (headers.iter())
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    then(&Delivery {
        method,
        url,
        headers: Headers(&headers),
        body,
        now,
    })
}
