//! What the module promises, tried through a [`Verifier`].

use super::{
    Because, Delivery, Draft, Encoding, Headers, Options, Refused, Signed, Verifier, preset, setup,
};
use base::clock::Unix;

mod certificates;
mod certified;
mod challenges;
mod custom;
mod pubsub;
mod random;
mod rows;
mod samples;
mod settings;
mod sign;
mod signatures;
mod timestamps;
mod tools;
mod trial;
mod vectors;

const MOMENT: Unix = Unix::from_ms(1_800_000_000_000);
const SECRET: &str = "sixteen bytes or more";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// A certificate, and its private key in PKCS #8.
const CERTIFICATE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/sender.pem"
));
const PRIVATE_KEY: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/sender.pk8"
));

type OwnedHeaders<'a> = [(&'a str, &'a str)];

/// A verifier with any secret, also one that people may not use.
fn verifier_of(options: &Options, secret: &str, verify_token: Option<&str>) -> Verifier {
    let preset = setup::preset_of(options).expect("the options fit");
    Verifier::of_any_secret(preset, options, secret, verify_token).expect("the secret fits")
}

fn verifier(scheme: &str) -> Verifier {
    let verify_token = (scheme == "meta").then_some("the verify token");
    Verifier::new(&options_of(scheme), &secret_of(scheme), verify_token).expect(scheme)
}

/// The scheme with what it needs.
fn options_of(scheme: &str) -> Options {
    let mut options = Options::of(scheme);
    if matches!(scheme, "hmac" | "token") {
        options.header = Some("X-Signature".into());
    }
    for option in preset(scheme).map_or(&[][..], |preset| &preset.options) {
        options.set_detail(&option.name, Some(format!("the {}", option.name)));
    }
    options
}

/// A secret of the form that the scheme wants.
fn secret_of(scheme: &str) -> String {
    use super::preset::{Algorithm, JwtAlgorithm, SecretForm};
    let preset = preset(scheme).expect(scheme);
    let verify = preset.verify.clone().unwrap_or_default();
    match (verify.algorithm, verify.secret_encoding) {
        (Algorithm::Sns | Algorithm::Paypal, _) => CERTIFICATE.to_owned(),
        (Algorithm::Pubsub | Algorithm::RsaPkcs1(_) | Algorithm::RsaPss, _) => pubsub::key_set("the key"),
        (Algorithm::Ed25519, _) => {
            let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
            let bytes = super::key::decode(key, Encoding::Hex).expect("digits");
            match verify.secret_prefix.as_str() {
                "" => key.to_owned(),
                prefix => format!("{prefix}{}", super::key::base64(&bytes)),
            }
        }
        (Algorithm::P256 | Algorithm::Jwt(JwtAlgorithm::Es256), _) => "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==".to_owned(),
        _ if verify.by_secret.iter().any(|(start, _)| start == "whsec_") => WHSEC.to_owned(),
        (_, SecretForm::Whsec) => WHSEC.to_owned(),
        (_, SecretForm::Hex) => "00112233445566778899aabbccddeeff".to_owned(),
        (_, SecretForm::Base64 | SecretForm::Base64Url) => "AAECAwQFBgcICQoLDA0ODw==".to_owned(),
        (_, SecretForm::Text) => format!("{}{SECRET}", verify.secret_prefix),
    }
}

/// Whether the key of a tool is public, so that nothing here can sign for it.
fn has_public_key(preset: &super::Preset) -> bool {
    let algorithm = preset.verify.as_ref().map(|verify| verify.algorithm);
    algorithm.is_some_and(super::secret::is_public)
}

/// A signature by the private key of [`CERTIFICATE`], with SHA-256.
fn signed_rsa(message: &[u8]) -> Vec<u8> {
    use ring::{rand, rsa, signature};
    let key = rsa::KeyPair::from_pkcs8(PRIVATE_KEY).expect("a key");
    let mut signature = vec![0; key.public().modulus_len()];
    let random = rand::SystemRandom::new();
    key.sign(
        &signature::RSA_PKCS1_SHA256,
        &random,
        message,
        &mut signature,
    )
    .expect("a signature");
    signature
}

/// Hands over what was signed as it arrives.
fn with_signed<T>(draft: Draft<'_>, signed: &Signed, then: impl FnOnce(&Delivery<'_>) -> T) -> T {
    let headers = signed.headers.iter();
    let headers: Vec<(&str, &str)> = headers
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let Draft { method, url, .. } = draft;
    with_request(
        method,
        &signed.target(url),
        &headers,
        &signed.body,
        draft.now,
        then,
    )
}

/// Makes a request of its parts and hands it over.
fn with_request<T>(
    method: &str,
    url: &str,
    headers: &OwnedHeaders<'_>,
    body: &[u8],
    now: Unix,
    then: impl FnOnce(&Delivery<'_>) -> T,
) -> T {
    let lower: Vec<String> = headers
        .iter()
        .map(|(name, _)| name.to_lowercase())
        .collect();
    let headers: Vec<(&str, &[u8])> = lower
        .iter()
        .zip(headers)
        .map(|(name, (_, value))| (name.as_str(), value.as_bytes()))
        .collect();
    then(&Delivery {
        method,
        url,
        headers: Headers(&headers),
        body,
        now,
    })
}

fn with_post<T>(
    headers: &OwnedHeaders<'_>,
    body: &str,
    then: impl FnOnce(&Delivery<'_>) -> T,
) -> T {
    let url = "https://hooks.example.com/api/webhook/a/b";
    with_request("POST", url, headers, body.as_bytes(), MOMENT, then)
}

/// The HMAC of a text in hexadecimal digits.
fn signed_hex(secret: &str, message: &str) -> String {
    base::text::hex(&tag(secret, message))
}

/// The HMAC of a text in Base64.
fn signed_base64(secret: &str, message: &str) -> String {
    super::key::base64(&tag(secret, message))
}

fn tag(secret: &str, message: &str) -> Vec<u8> {
    use ring::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
}

/// The settings are refused for this field, in words of which this is a part.
fn invalid(options: &Options, secret: &str, field: &str, part: &str) {
    let invalid = Verifier::new(options, secret, None).expect_err(part);
    assert_eq!(invalid.field, field, "{invalid}");
    assert!(invalid.message.contains(part), "{invalid}");
}

/// `hmac` with a header, changed.
fn hmac(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options {
        header: Some("X-Signature".into()),
        ..Options::of("hmac")
    };
    change(&mut options);
    options
}

/// A delivery is refused for this, in words of which this is a part.
fn refused(result: Result<(), Refused>, because: Because, part: &str) {
    let refused = result.expect_err(part);
    assert_eq!(refused.because, because, "{refused}");
    assert!(refused.message.contains(part), "{refused}");
}
