//! What is signed here passes the check, as it was signed and not otherwise.

use std::time::Duration;

use super::random::Random;
use super::{
    MOMENT, SECRET, WHSEC, has_public_key, hmac, options_of, secret_of, verifier, verifier_of,
    with_signed,
};
use crate::{CannotSign, Draft, Options, Signed, Timestamp, Verifier, presets};

const URL: &str = "https://hooks.example.com:8443/api/webhook/a%2Fb/c?x=1";
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const ROUNDS: usize = 100;

fn draft(body: &[u8]) -> Draft<'_> {
    Draft {
        method: "POST",
        url: URL,
        body,
        content_type: JSON,
        headers: &[],
        id: "delivery-7",
        event: "Push Hook",
        now: MOMENT + Duration::from_millis(999),
    }
}

fn header<'s>(signed: &'s Signed, wanted: &str) -> Option<&'s str> {
    let mut headers = signed.headers.iter();
    let found = headers.find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_str())
}

fn cannot(result: Result<Signed, CannotSign>, part: &str) {
    let cannot = result.err().expect(part);
    assert!(cannot.message.contains(part), "{cannot}");
}

/// Signs, checks, finds id and event where they stand in headers, and tries another secret.
fn passes(verifier: &Verifier, other: &Verifier, draft: Draft<'_>) {
    let name = verifier.preset().name.as_str();
    let signed = verifier.sign(draft).map_err(|cannot| cannot.to_string());
    let signed = signed.expect(name);
    with_signed(draft, &signed, |delivery| {
        let head = verifier.check_head(delivery.headers, delivery.now);
        assert_eq!(head, Ok(()), "{name}");
        assert_eq!(verifier.check(delivery), Ok(()), "{name}");
        assert!(other.check(delivery).is_err(), "{name}");
        for (source, wanted) in [(verifier.id(), draft.id), (verifier.event(), draft.event)] {
            let Some(source) = source else { continue };
            let found = source.find(delivery.headers, delivery.url, |path| delivery.field(path));
            if source.is_in_headers() {
                assert_eq!(found.as_deref(), Some(wanted), "{name}");
            }
        }
    });
}

/// The same preset with another secret.
fn other(scheme: &str) -> Verifier {
    let secret = secret_of(scheme);
    let options = options_of(scheme);
    let secret = if secret == WHSEC {
        WHSEC.replace("MfKQ", "AAAA")
    } else if secret.starts_with("0011") || secret.starts_with("AAEC") {
        secret.replace("33", "44").replace("AwQF", "BwQF")
    } else {
        format!("{secret}2")
    };
    verifier_of(&options, &secret, None)
}

#[test]
fn random_bodies_of_every_preset_pass() {
    let mut random = Random(7);
    for preset in presets().iter().filter(|preset| preset.signed()) {
        let verifier = verifier(&preset.name);
        if has_public_key(preset) {
            cannot(verifier.sign(draft(b"{}")), "public key");
            continue;
        }
        // What is signed in a body of its own form has samples.
        if ["adyen", "figma", "kofi", "mandrill", "sinch"].contains(&preset.name.as_str()) {
            continue;
        }
        let other = other(&preset.name);
        for _ in 0..ROUNDS {
            let bytes = random.value();
            let text = String::from_utf8_lossy(&bytes);
            let body = match preset.name.as_str() {
                "mailgun" => serde_json::json!({"a": text, "signature": 1})
                    .to_string()
                    .into(),
                "graph" => serde_json::json!({"value": [{"a": text}, {"clientState": 2}]})
                    .to_string()
                    .into(),
                // A word could be a token of a challenge.
                "x" | "zoom" => [b"{", bytes.as_slice()].concat(),
                _ => bytes,
            };
            let content_type = if preset.name == "twilio" { FORM } else { JSON };
            let draft = Draft {
                content_type,
                ..draft(&body)
            };
            passes(&verifier, &other, draft);
        }
    }
}

#[test]
fn headers_are_those_of_the_tool() {
    let names = |scheme: &str| {
        let signed = verifier(scheme).sign(draft(b"{}")).expect(scheme);
        let names = signed.headers.into_iter().map(|(name, _)| name).skip(1);
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names("standard"),
        "webhook-timestamp webhook-signature webhook-id"
    );
    assert_eq!(names("svix"), "svix-timestamp svix-signature svix-id");
    assert_eq!(
        names("gitlab"),
        "webhook-timestamp webhook-signature webhook-id X-Gitlab-Event"
    );
    assert_eq!(
        names("github"),
        "X-Hub-Signature-256 X-GitHub-Delivery X-GitHub-Event"
    );
    assert_eq!(
        names("shopify"),
        "X-Shopify-Hmac-Sha256 X-Shopify-Webhook-Id X-Shopify-Topic"
    );
    assert_eq!(names("stripe"), "Stripe-Signature");
    assert_eq!(names("mailgun"), "");
    let signed = verifier("stripe").sign(draft(b"{}")).expect("stripe");
    let value = header(&signed, "Stripe-Signature").expect("a signature");
    assert!(value.starts_with("t=1800000000,v1="), "{value}");
    let signed = verifier("twitch").sign(draft(b"{}")).expect("twitch");
    let time = header(&signed, "Twitch-Eventsub-Message-Timestamp");
    assert_eq!(time, Some("2027-01-15T08:00:00.999Z"));
}

#[test]
fn the_secret_token_of_gitlab_is_sent_as_it_is() {
    let options = Options::of("gitlab");
    let verifier = verifier_of(&options, SECRET, None);
    let other = verifier_of(&options, "another sixteen bytes", None);
    passes(&verifier, &other, draft(b"\xff"));
    let signed = verifier.sign(draft(b"{}")).expect("a token");
    assert_eq!(header(&signed, "X-Gitlab-Token"), Some(SECRET));
    assert_eq!(header(&signed, "Idempotency-Key"), Some("delivery-7"));
}

#[test]
fn json_of_twilio_needs_its_digest_in_the_url() {
    let verifier = verifier("twilio");
    let digest = ring::digest::digest(&ring::digest::SHA256, b"{}");
    let digest = base::text::hex(digest.as_ref());
    let url = format!("http://127.0.0.1:8080/x?bodySHA256={digest}");
    let draft = Draft {
        url: &url,
        ..draft(b"{}")
    };
    passes(&verifier, &other("twilio"), draft);
    let changed = Draft {
        body: b"{ }",
        ..draft
    };
    cannot(verifier.sign(changed), "is not bodySHA256");
    cannot(verifier.sign(self::draft(b"{}")), "no bodySHA256");
}

#[test]
fn settings_of_hmac_are_followed() {
    let set = |text: &str| Some(text.to_owned());
    let time = |unit: &str| Timestamp {
        unit: set(unit),
        ..Timestamp::default()
    };
    let check = |change: &dyn Fn(&mut Options)| {
        let options = hmac(|options| change(options));
        let verifier = verifier_of(&options, "00112233445566778899aabbccddeeff", None);
        let other = verifier_of(&options, "00112233445566778899aabbccddeefe", None);
        passes(
            &verifier,
            &other,
            draft(br#"{"a":{"id":7},"at":"1800000000"}"#),
        );
    };
    for hash in ["sha1", "sha256", "sha384", "sha512"] {
        check(&|o| (o.hash, o.encoding) = (set(hash), set("base64")));
    }
    check(&|o| o.secret_encoding = set("hex"));
    check(&|o| (o.id, o.event) = (set("header:X-Id"), set("header:X-Event")));
    check(&|o| o.url = set("https://other.example/"));
    for unit in ["s", "ms", "rfc3339"] {
        check(&|o| {
            o.signed = set("{method} {url} {id} {ts} {body}!");
            o.id = set("header:X-Id");
            o.timestamp = Some(Timestamp {
                header: set("X-Time"),
                ..time(unit)
            });
        });
        check(&|o| {
            (o.signed, o.separator) = (set("{ts}{body}"), set(";"));
            (o.prefix, o.tolerance_seconds) = (set("v="), Some(1));
            o.timestamp = Some(Timestamp {
                part: set("at:"),
                ..time(unit)
            });
        });
    }
    check(&|o| {
        (o.signed, o.id) = (set("{id}{ts}{body}"), set("body:a.id"));
        o.timestamp = Some(Timestamp {
            body: set("at"),
            ..time("s")
        });
    });
}

#[test]
fn what_no_signature_lets_pass_is_not_signed() {
    let sign = |scheme: &str, draft: Draft<'_>| verifier(scheme).sign(draft);
    cannot(sign("mailgun", draft(b"[]")), "not a JSON object");
    cannot(sign("graph", draft(b"{}")), "not a JSON object");
    cannot(sign("x", draft(b"word")), "token of a challenge");
    let no_id = Draft {
        id: "",
        ..draft(b"{}")
    };
    cannot(sign("standard", no_id), "webhook-id is missing");
    assert!(sign("github", no_id).is_ok());
    for id in ["a\r\nX-Other: b", " a"] {
        let draft = Draft { id, ..no_id };
        cannot(sign("github", draft), "X-GitHub-Delivery has control");
    }
    let whpk = "whpk_5cEIGb0zVy0zTLiaPkXIEvLmlf4O1F5mNv0qhSvgnUs=";
    let verifier = verifier_of(&Options::of("standard"), whpk, None);
    cannot(verifier.sign(draft(b"{}")), "public key");
    let options = hmac(|options| {
        options.timestamp = Some(Timestamp {
            body: Some("at".into()),
            ..Timestamp::default()
        });
    });
    let verifier = verifier_of(&options, SECRET, None);
    cannot(verifier.sign(draft(b"{}")), "no timestamp at `at`");
    cannot(verifier.sign(draft(br#"{"at":1}"#)), "behind");
}
