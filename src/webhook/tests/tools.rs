//! Tokens, and what single tools do differently.

use ring::hmac;

use super::{
    MOMENT, SECRET, WHSEC, refused, signed_base64, signed_hex, verifier, verifier_of, with_post,
    with_request,
};
use crate::key::base64;
use crate::{Because, Options, Refused, Timestamp};
use base::text::hex;

#[test]
fn tokens_are_compared_whole() {
    let check = |given: &str| {
        with_post(
            &[("X-Telegram-Bot-Api-Secret-Token", given)],
            "{}",
            |delivery| verifier("telegram").check(delivery),
        )
    };
    assert_eq!(check(SECRET), Ok(()));
    for wrong in ["x", &SECRET[1..], &format!("{SECRET} ")] {
        refused(check(wrong), Because::Signature, "is not the secret");
    }
    refused(check(""), Because::Header, "empty");
}

#[test]
fn a_signing_token_of_gitlab_is_no_secret_token() {
    let headers = [("X-Gitlab-Token", WHSEC)];
    let options = Options::of("gitlab");
    let result = with_post(&headers, "{}", |delivery| {
        verifier_of(&options, WHSEC, None).check(delivery)
    });
    refused(result, Because::Header, "webhook-signature is missing");
}

#[test]
fn graph_wants_the_secret_in_every_notification() {
    let check = |body: &str| with_post(&[], body, |delivery| verifier("graph").check(delivery));
    let good = format!(r#"{{"clientState":"{SECRET}"}}"#);
    assert_eq!(check(&format!(r#"{{"value":[{good},{good}]}}"#)), Ok(()));
    for other in [
        "{}",
        "null",
        r#"{"clientState":"x"}"#,
        r#"{"clientState":null}"#,
    ] {
        let body = format!(r#"{{"value":[{good},{other}]}}"#);
        refused(check(&body), Because::Signature, "clientState");
    }
    for none in ["", "[]", "{}", r#"{"value":[]}"#] {
        refused(check(none), Because::Body, "no items at `value`");
    }
}

#[test]
fn hubspot_decodes_a_few_escapes_of_the_url_and_leaves_the_rest() {
    let (url, signed) = (
        "https://x/a%3ab%2Fc?d=%20%25%40%C3%A9%2",
        "https://x/a:b/c?d=%20%25@%C3%A9%2",
    );
    let ts = "1800000000000";
    let signature = signed_base64(SECRET, &format!("POST{signed}{{}}{ts}"));
    let headers = [
        ("X-HubSpot-Request-Timestamp", ts),
        ("X-HubSpot-Signature-v3", signature.as_str()),
    ];
    let result = with_request("POST", url, &headers, b"{}", MOMENT, |delivery| {
        verifier("hubspot").check(delivery)
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn an_id_in_the_body_can_be_signed() {
    let options = Options {
        header: Some("X-Sig".into()),
        signed: Some("{method} {id} {ts} {\"x\"}{body}".into()),
        id: Some("body:a.id".into()),
        timestamp: Some(Timestamp {
            body: Some("at".into()),
            unit: Some("ms".into()),
            ..Timestamp::default()
        }),
        ..Options::of("hmac")
    };
    let check = |body: &str| {
        let signature = signed_hex(SECRET, &format!("POST 7 1800000000000 {{\"x\"}}{body}"));
        with_post(&[("X-Sig", &signature)], body, |delivery| {
            verifier_of(&options, SECRET, None).check(delivery)
        })
    };
    assert_eq!(check(r#"{"a":{"id":7},"at":1800000000000}"#), Ok(()));
    refused(check(r#"{"at":1800000000000}"#), Because::Body, "`a.id`");
    refused(
        check(r#"{"a":{"id":8},"at":1800000000000}"#),
        Because::Signature,
        "does not match",
    );
}

/// Twilio signs with SHA-1.
fn twilio(url: &str, signed: &str, content_type: &str, body: &str) -> Result<(), Refused> {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET.as_bytes());
    let signature = base64(hmac::sign(&key, signed.as_bytes()).as_ref());
    let headers = [
        ("X-Twilio-Signature", signature.as_str()),
        ("Content-Type", content_type),
    ];
    with_request("POST", url, &headers, body.as_bytes(), MOMENT, |delivery| {
        verifier("twilio").check(delivery)
    })
}

#[test]
fn twilio_names_the_digest_of_json_in_the_url() {
    let digest = hex(ring::digest::digest(&ring::digest::SHA256, b"{}").as_ref());
    let url = format!("https://a.example/x?bodySHA256={digest}");
    let json = "application/json";
    assert_eq!(twilio(&url, &url, json, "{}"), Ok(()));
    let other = twilio(&url, &url, json, "{ }");
    refused(other, Because::Body, "is not bodySHA256");
    let none = twilio("https://a.example/x", "https://a.example/x", json, "{}");
    refused(none, Because::Body, "no bodySHA256");
}

#[test]
fn twilio_signs_with_the_port_or_without() {
    let form = "Application/x-www-form-urlencoded; charset=utf-8";
    let check = |url: &str, signed: &str| twilio(url, &format!("{signed}A1B"), form, "B&A=1");
    let good = [
        ("https://a.example/x", "https://a.example:443/x"),
        ("http://a.example?x", "http://a.example:80?x"),
        ("https://u:1@a.example:8443/x", "https://u:1@a.example/x"),
        ("https://[::1]/x", "https://[::1]:443/x"),
        ("https://[::1]:8443/x", "https://[::1]/x"),
    ];
    for (url, signed) in good {
        assert_eq!(check(url, url), Ok(()), "{url}");
        assert_eq!(check(url, signed), Ok(()), "{url}");
    }
    let wrong = check("https://a.example:8443/x", "https://a.example:443/x");
    refused(wrong, Because::Signature, "does not match");
}

#[test]
fn mailgun_signs_a_token_in_the_body() {
    let check = |token: &str, signature: &str, options: &Options| {
        let body = format!(
            r#"{{"signature":{{"timestamp":"1799990000","token":"{token}","signature":"{signature}"}}}}"#
        );
        with_post(&[], &body, |delivery| {
            verifier_of(options, SECRET, None).check(delivery)
        })
    };
    let good = signed_hex(SECRET, "1799990000abc");
    let preset = Options::of("mailgun");
    assert_eq!(check("abc", &good, &preset), Ok(()));
    refused(
        check("abd", &good, &preset),
        Because::Signature,
        "does not match",
    );
    refused(
        check("abc", "zz", &preset),
        Because::Signature,
        "does not match",
    );
    refused(
        check("abc", "", &preset),
        Because::Body,
        "signature.signature",
    );
    let strict = Options {
        tolerance_seconds: Some(300),
        ..preset
    };
    refused(
        check("abc", &good, &strict),
        Because::Timestamp,
        "10,000 s behind",
    );
}
