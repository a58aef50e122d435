//! The published and generated deliveries of real tools, 87 of them.

use std::time::Duration;

use base64::Engine;
use serde_json::Value;

use super::{has_public_key, verifier_of, with_request};
use crate::{Because, Delivery, Draft, Options, Refused, Timestamp, Verifier, handshake};
use base::clock::Unix;

pub(super) const FILE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/senders.json"
));
#[test]
fn every_vector_gives_what_it_expects() {
    let file: Value = serde_json::from_str(FILE).expect("the file is JSON");
    let vectors = file["vectors"].as_array().expect("vectors");
    assert_eq!(vectors.len(), 87);
    for vector in vectors {
        check(vector, text(&vector["verify"], "scheme").expect("a scheme"));
    }
}

fn check(vector: &Value, scheme: &str) {
    let name = text(vector, "name").expect("a name");
    let (request, verify) = (&vector["request"], &vector["verify"]);
    let headers = request["headers"].as_object().expect("headers");
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().expect("text")))
        .collect();
    let body = match text(request, "body_base64") {
        Some(body) => base64::engine::general_purpose::STANDARD
            .decode(body)
            .expect("Base64"),
        None => text(request, "body")
            .unwrap_or_default()
            .as_bytes()
            .to_vec(),
    };
    let method = text(request, "method").expect("a method");
    let url = text(request, "url").expect("a URL");
    let now = Unix::from_ms(vector["now"].as_u64().expect("a time") * 1_000);
    with_request(method, url, &headers, &body, now, |delivery| {
        let verifiers = verifiers(verify, scheme);
        if vector["kind"] == "handshake" {
            check_handshake(name, vector, &verifiers, delivery);
        } else {
            check_delivery(name, &vector["expect"], &verifiers, delivery);
        }
    });
}

/// One for each secret, in the order in which they are tried.
fn verifiers(verify: &Value, scheme: &str) -> Vec<Verifier> {
    let owned = |name: &str| text(verify, name).map(str::to_owned);
    let timestamp = verify.get("timestamp");
    let timestamp: Option<Timestamp> =
        timestamp.map(|value| serde_json::from_value(value.clone()).expect("a timestamp"));
    let options = Options {
        scheme: scheme.to_owned(),
        tolerance_seconds: verify.get("tolerance_seconds").and_then(Value::as_u64),
        url: owned("url"),
        header: owned("header"),
        prefix: owned("prefix"),
        separator: owned("separator"),
        signed: owned("signed"),
        hash: owned("hash"),
        encoding: owned("encoding"),
        secret_encoding: owned("secret_encoding"),
        timestamp,
        id: owned("id"),
        event: owned("event"),
        answer: None,
        topic: owned("topic"),
        webhook_id: owned("webhook_id"),
        audience: owned("audience"),
        email: owned("email"),
        ..Options::default()
    };
    if let Some(certificate) = text(verify, "certificate") {
        let secret = match scheme {
            "pubsub" => key_set_of(certificate),
            _ => certificate.to_owned(),
        };
        return vec![verifier_of(&options, &secret, None)];
    }
    let secrets = verify["secrets"].as_array().expect("secrets");
    let secrets = secrets.iter().map(|secret| secret.as_str().expect("text"));
    secrets
        .map(|secret| verifier_of(&options, secret, text(verify, "verify_token")))
        .collect()
}

/// The key of a certificate as Google publishes it. Of the numbers in it the first that has 2048 bits is the modulus.
fn key_set_of(certificate: &str) -> String {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    const BEGIN: [u8; 5] = [0x02, 0x82, 0x01, 0x01, 0x00];
    let lines = certificate.lines().filter(|line| !line.starts_with('-'));
    let der = STANDARD.decode(lines.collect::<String>()).expect("Base64");
    let begins = |window: &[u8]| window == BEGIN;
    let at = der.windows(BEGIN.len()).position(begins).expect("a key") + BEGIN.len();
    let modulus = URL_SAFE_NO_PAD.encode(&der[at..at + 256]);
    serde_json::json!({"keys": [{"kty": "RSA", "kid": "1", "n": modulus, "e": "AQAB"}]}).to_string()
}

fn check_delivery(name: &str, expect: &Value, verifiers: &[Verifier], delivery: &Delivery<'_>) {
    let results: Vec<Result<(), Refused>> = verifiers
        .iter()
        .map(|verifier| verifier.check(delivery))
        .collect();
    let good = results.iter().position(Result::is_ok);
    assert_eq!(
        good.is_some(),
        expect["valid"] == true,
        "{name}: {results:?}"
    );
    let Some(good) = good else {
        let refused = results.last().expect("a result").as_ref().expect_err(name);
        assert_eq!(
            because(refused.because),
            expect["because"],
            "{name}: {refused}"
        );
        return;
    };
    let verifier = &verifiers[good];
    verifier
        .check_head(delivery.headers, delivery.now)
        .expect(name);
    let find = |source: Option<&crate::Source>| {
        source?.find(delivery.headers, delivery.url, |path| delivery.field(path))
    };
    assert_eq!(
        find(verifier.id()).as_deref(),
        expect["id"].as_str(),
        "{name}"
    );
    assert_eq!(
        find(verifier.event()).as_deref(),
        expect["event"].as_str(),
        "{name}"
    );
    assert!(matches!(verifier.handshake(delivery), Ok(None)), "{name}");
    check_signing(name, expect, verifier, delivery);
}

/// Signed here, the delivery has the signature that the tool gave it.
fn check_signing(name: &str, expect: &Value, verifier: &Verifier, delivery: &Delivery<'_>) {
    let get = |name: &str| delivery.headers.get(name);
    let as_sent = |seconds_late: u64| {
        let signed = verifier.sign(Draft {
            method: delivery.method,
            url: delivery.url,
            body: delivery.body,
            content_type: get("content-type").unwrap_or_default(),
            headers: &[],
            id: expect["id"].as_str().unwrap_or_default(),
            event: expect["event"].as_str().unwrap_or_default(),
            now: delivery.now - Duration::from_secs(seconds_late),
        });
        let Ok(signed) = signed else { return false };
        let same = |(name, ours): &(String, String)| {
            let mut parts = ours.split([',', ';']);
            get(name).is_some_and(|theirs| parts.all(|part| theirs.contains(part)))
        };
        signed.headers.iter().all(same)
            && (signed.body == delivery.body
                || matches!(verifier.preset().name.as_str(), "mailgun" | "graph"))
    };
    let public = has_public_key(verifier.preset()) || name == "standard/ed25519";
    // Some vectors arrive late.
    let found = [0, 10, 100, 300].into_iter().any(as_sent);
    assert_ne!(found, public, "{name}");
}

fn check_handshake(name: &str, vector: &Value, verifiers: &[Verifier], delivery: &Delivery<'_>) {
    let answer = match verifiers.first() {
        Some(verifier) => verifier.handshake(delivery).expect(name).expect(name),
        None => handshake::of_keyed(None, delivery).expect(name),
    };
    let expect = &vector["expect"]["answer"];
    assert_eq!(expect["status"], answer.status, "{name}");
    assert_eq!(
        expect["content_type"].as_str(),
        answer.content_type.as_deref(),
        "{name}"
    );
    assert_eq!(expect["body"], answer.body, "{name}");
    let header = |wanted: &str| {
        let mut all = answer.headers.iter();
        all.find(|(name, _)| *name == wanted)
            .map(|(_, value)| value.as_str())
    };
    for (header_name, value) in expect["headers"].as_object().expect("headers") {
        assert_eq!(header(header_name), value.as_str(), "{name}");
    }
    if answer
        .content_type
        .as_ref()
        .is_some_and(|kind| kind.starts_with("text/"))
    {
        assert_eq!(header("X-Content-Type-Options"), Some("nosniff"), "{name}");
    }
}

fn because(because: Because) -> &'static str {
    match because {
        Because::Header => "header",
        Because::Timestamp => "timestamp",
        Because::Signature => "signature",
        Because::Body => "body",
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}
