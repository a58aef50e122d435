//! `verify`: a line `PRESET METHOD URL SECONDS`, headers, and a body; a preset that is none is taken by its length.
//!
//! The secret is known to no input, so nothing passes. A preset with a `+` before its name is first signed as its tool
//! would: then it passes, and with another secret it does not.

use std::hint::black_box;
use std::sync::LazyLock;

use ring::hmac;
use serde_json::Value;

use base::clock::Unix;
use webhook::handshake::{Challenge, of_keyed, to_do};
use webhook::{
    Algorithm, Delivery, Draft, Headers, JwtAlgorithm, Options, Preset, Refused, SecretForm,
    Verifier, presets,
};

use crate::request::Request;

const TEXT: &str = "a secret that no input knows: 7fb3c9e1d05a";
const OTHER_TEXT: &str = "another that no input knows: 16c4e8a09b3f";
const WHSEC: &str = "whsec_c2l4dGVlbiBvciBtb3JlIGJ5dGVzIG5vIGlucHV0IGtub3dz";
const OTHER_WHSEC: &str = "whsec_b3RoZXIgc2l4dGVlbiBieXRlcyBubyBpbnB1dCBrbm93cyE=";
const HEX: &str = "9f2c41d07be6a58310c4f7e29d6b8a15";
const OTHER_HEX: &str = "1b7d93e05fa2c4680d9e37b1f58a2c64";
const BASE64: &str = "nyxB0Hvmpg1jEMT34p1rihU6bA==";
const OTHER_BASE64: &str = "G32T4F+ixGgNnjex9YosZFt3kw==";
const PUBLIC_BASE64: &str = "fJJXMxay5ealD+8ij4cykGP5YQd3NyCJHhRUU1UXx2I=";
const VERIFY_TOKEN: &str = "word-of-nobody-59d27c";
/// Nothing here has their private keys.
const CERTIFICATE: &str = include_str!("../../fixtures/sender.pem");
const KEY_SET: &str = include_str!("../key_set.json");
const PUBLIC_HEX: &str = "7c92573316b2e5e6a50fef228f87329063f961077372089e1454535517c97620";
const PUBLIC_DER: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuWqA2H4ZkWTlUKFppj2SnlvNBqLAG1x6izQOV+YcNIiFbacJ2zdz7rJ7vt0vDEoa+WX7+o5Cj1HPvGEKWj5tFw==";
/// An answer to a stranger is short; a validation code in JSON may have its escapes beside that.
const ANSWER_BYTES_MAX: usize = 1_024;

/// A preset, with the secret and another one.
struct Pair {
    preset: &'static Preset,
    secret: String,
    verifier: Verifier,
    other: Verifier,
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let signed = presets().into_iter().filter(|preset| preset.signed());
    signed.map(Pair::of).collect()
});

impl Pair {
    fn of(preset: &'static Preset) -> Self {
        let mut options = Options::of(&preset.name);
        if preset.is_generic() {
            options.header = Some("X-Signature".into());
        }
        for option in &preset.options {
            options.set_detail(&option.name, Some(format!("the {}", option.name)));
        }
        let verify = preset.verify.as_ref().expect("it signs");
        let is_whpk = verify.secret_prefix == "whpk_";
        let [secret, other] = match (verify.algorithm, verify.secret_encoding) {
            (Algorithm::Sns | Algorithm::Paypal, _) => [CERTIFICATE; 2],
            (Algorithm::Pubsub | Algorithm::RsaPkcs1(_), _) => [KEY_SET; 2],
            (Algorithm::Ed25519, _) if is_whpk => [PUBLIC_BASE64; 2],
            (Algorithm::Ed25519, _) => [PUBLIC_HEX; 2],
            (Algorithm::P256 | Algorithm::Jwt(JwtAlgorithm::Es256), _) => [PUBLIC_DER; 2],
            (_, SecretForm::Whsec) => [WHSEC, OTHER_WHSEC],
            (_, SecretForm::Hex) => [HEX, OTHER_HEX],
            (_, SecretForm::Base64) => [BASE64, OTHER_BASE64],
            _ => [TEXT, OTHER_TEXT],
        };
        let prefixed = |secret: &str| format!("{}{secret}", verify.secret_prefix);
        let word = preset.asks_for_word().then_some(VERIFY_TOKEN);
        let of = |secret| Verifier::new(&options, secret, word).expect(&preset.name);
        Self {
            preset,
            verifier: of(&prefixed(secret)),
            other: of(&prefixed(other)),
            secret: prefixed(secret),
        }
    }
}

/// Checks a delivery, and greets.
pub(super) fn verify(input: &[u8]) {
    let request = Request::of(input);
    let scheme = request.word(0);
    let (scheme, signs) = match scheme.strip_prefix('+') {
        Some(scheme) => (scheme, true),
        None => (scheme, false),
    };
    let named = PAIRS.iter().find(|pair| pair.preset.name == scheme);
    let pair = named.unwrap_or(&PAIRS[scheme.len() % PAIRS.len()]);
    let seconds: u64 = request.word(3).parse().unwrap_or_default();
    let headers: Vec<(&str, &[u8])> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let delivery = Delivery {
        method: request.word(1),
        url: request.word(2),
        headers: Headers(&headers),
        body: request.body,
        now: Unix::from_ms(seconds.saturating_mul(1_000)),
    };
    if signs {
        signed(pair, &delivery);
    } else {
        unsigned(pair, &delivery);
    }
}

/// Nothing passes that was not signed.
fn unsigned(pair: &Pair, delivery: &Delivery<'_>) {
    let head = pair.verifier.check_head(delivery.headers, delivery.now);
    let whole = pair.verifier.check(delivery);
    let passed = whole.is_ok();
    silent(pair, head.err());
    silent(pair, whole.err());
    assert!(!passed, "{} passes unsigned", pair.preset.name);
    match pair.verifier.handshake(delivery) {
        Ok(Some(answer)) => answered(pair, delivery, &answer, false),
        Ok(None) => {}
        Err(refused) => silent(pair, Some(refused)),
    }
    if let Some(answer) = of_keyed(None, delivery) {
        bounded(pair, &answer);
    }
    let to_do = to_do(delivery).unwrap_or_default();
    assert!(to_do.len() <= 3 * ANSWER_BYTES_MAX && !to_do.chars().any(char::is_control));
}

/// What is signed passes, with its own secret alone.
fn signed(pair: &Pair, delivery: &Delivery<'_>) {
    let header = |name| delivery.headers.get(name).unwrap_or_default().trim();
    let draft = Draft {
        method: delivery.method,
        url: delivery.url,
        body: delivery.body,
        content_type: header("content-type"),
        headers: &[],
        id: header("id"),
        event: header("event"),
        now: delivery.now,
    };
    let signed = match pair.verifier.sign(draft) {
        Ok(signed) => signed,
        Err(cannot) => return assert!(!holds(&cannot.message, &pair.secret)),
    };
    let lower = signed.headers.iter();
    let lower: Vec<(String, &[u8])> = lower
        .map(|(name, value)| (name.to_lowercase(), value.as_bytes()))
        .collect();
    let headers: Vec<(&str, &[u8])> = lower
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let url = signed.target(delivery.url);
    let delivery = Delivery {
        url: &url,
        headers: Headers(&headers),
        body: &signed.body,
        ..*delivery
    };
    let name = pair.preset.name.as_str();
    assert_eq!(
        pair.verifier.check_head(delivery.headers, delivery.now),
        Ok(()),
        "{name}"
    );
    assert_eq!(pair.verifier.check(&delivery), Ok(()), "{name}");
    let other = pair.other.check(&delivery);
    assert!(other.is_err(), "{name} passes with another secret");
    silent(pair, other.err());
    match pair.verifier.handshake(&delivery) {
        Ok(Some(answer)) => answered(pair, &delivery, &answer, true),
        Ok(None) => {}
        Err(refused) => silent(pair, Some(refused)),
    }
}

/// No refusal holds the secret.
fn silent(pair: &Pair, refused: Option<Refused>) {
    let Some(refused) = refused else { return };
    let message = refused.to_string();
    assert!(
        !message.is_empty() && message.len() <= 4 * ANSWER_BYTES_MAX,
        "{message}"
    );
    for secret in [pair.secret.as_str(), TEXT, VERIFY_TOKEN] {
        assert!(!holds(&message, secret), "a secret in: {message}");
    }
}

/// Whether a secret stands in a text. A comparison of texts would show the secret to libFuzzer, which tries what it saw
/// compared; this shows the differences' sum.
fn holds(text: &str, secret: &str) -> bool {
    text.as_bytes().windows(secret.len()).any(|window| {
        let bytes = window.iter().zip(secret.as_bytes());
        black_box(bytes.fold(0, |different, (a, b)| different | (a ^ b))) == 0
    })
}

/// An answer is short, is no page, and holds no secret.
fn bounded(pair: &Pair, answer: &Challenge) {
    let text = match serde_json::from_str::<Value>(&answer.body) {
        Ok(body) if answer.content_type.as_deref() == Some("application/json") => {
            let mut texts = body.as_object().into_iter().flatten();
            texts.all(|(_, text)| {
                text.as_str()
                    .is_some_and(|text| text.len() <= ANSWER_BYTES_MAX)
            })
        }
        _ => answer.body.len() <= ANSWER_BYTES_MAX,
    };
    assert!(text, "{answer:?}");
    if answer
        .content_type
        .as_ref()
        .is_some_and(|kind| kind.starts_with("text/"))
    {
        let sniffed = ("X-Content-Type-Options".to_owned(), "nosniff".to_owned());
        assert!(answer.headers.contains(&sniffed));
    }
    for (name, value) in &answer.headers {
        let long = value.len() > ANSWER_BYTES_MAX;
        assert!(!long && !value.chars().any(char::is_control), "{name}");
    }
    assert!(!holds(&answer.body, &pair.secret));
}

/// An answer to a greeting: who may have it, and what it signs.
fn answered(pair: &Pair, delivery: &Delivery<'_>, answer: &Challenge, signed: bool) {
    bounded(pair, answer);
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().expect("text").to_owned();
    match pair.preset.name.as_str() {
        "slack" | "discord" | "discord_interactions" | "twitch" | "sns" => assert!(signed),
        "meta" | "whatsapp" => panic!("no input knows the verify token"),
        "notion" | "asana" => panic!("a key that has a secret takes no other"),
        "zoom" => {
            let (token, tag) = (text("plainToken"), text("encryptedToken"));
            let own: String = tag_of(pair, &token)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            assert_eq!(tag, own);
            no_delivery(&token);
        }
        "x" => {
            let (_, query) = delivery.url.split_once('?').expect("a query");
            let query = query.split('#').next().unwrap_or_default();
            let token = form_urlencoded::parse(query.as_bytes())
                .find(|(name, _)| name == "crc_token")
                .map(|(_, token)| token.into_owned())
                .expect("a token");
            no_delivery(&token);
            // As a delivery, what was signed for anybody does not pass.
            let tag = text("response_token");
            let headers = [("x-twitter-webhooks-signature", tag.as_bytes())];
            let forged = Delivery {
                method: "POST",
                headers: Headers(&headers),
                body: token.as_bytes(),
                ..*delivery
            };
            assert!(pair.verifier.check(&forged).is_err(), "a token passes");
        }
        _ => {}
    }
}

fn tag_of(pair: &Pair, token: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, pair.secret.as_bytes());
    hmac::sign(&key, token.as_bytes()).as_ref().to_vec()
}

/// What is signed for a stranger is one word: no JSON but a number or a literal, no form with a value, no markup.
fn no_delivery(token: &str) {
    assert!((1..=128).contains(&token.len()));
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(token.chars().all(plain), "signed: {token}");
}
