//! Signatures and headers that were changed, repeated, or made to confuse.

use super::{SECRET, WHSEC, refused, signed_base64, signed_hex, verifier, with_post};
use crate::{Because, Refused};

fn github(signature: &str, body: &str) -> Result<(), Refused> {
    let headers = [("X-Hub-Signature-256", signature), ("User-Agent", "GitHub")];
    with_post(&headers, body, |delivery| {
        verifier("github").check(delivery)
    })
}

#[test]
fn a_body_that_was_changed_is_refused() {
    let body = "{\"a\": 1}\n";
    let good = format!("sha256={}", signed_hex(SECRET, body));
    assert_eq!(github(&good, body), Ok(()));
    for changed in ["{\"a\": 2}\n", "{\"a\": 1}", "{\"a\":1}\n", ""] {
        refused(
            github(&good, changed),
            Because::Signature,
            "the signature in X-Hub-Signature-256 does not match",
        );
    }
    let other = format!("sha256={}", signed_hex("the secret of another one", body));
    refused(github(&other, body), Because::Signature, "does not match");
}

#[test]
fn a_missing_header_is_named_with_those_that_came() {
    let headers = [
        ("Content-Type", "application/json"),
        ("User-Agent", "x"),
        ("user-agent", "y"),
    ];
    let result = with_post(&headers, "{}", |delivery| {
        verifier("stripe").check(delivery)
    });
    refused(
        result,
        Because::Header,
        "the header Stripe-Signature is missing; received headers: content-type, user-agent",
    );
    let names: Vec<String> = (0..20).map(|n| format!("x-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let result = with_post(&headers, "", |delivery| verifier("stripe").check(delivery));
    let message = result.expect_err("missing").to_string();
    assert!(message.ends_with("x-10, x-11, …"), "{message}");
}

#[test]
fn every_header_of_the_check_must_stand_there_once() {
    let (id, ts, body) = ("msg_1", "1800000000", "{}");
    let key = base64_key();
    let message = format!("{id}.{ts}.{body}");
    let signature = format!("v1,{}", sign_bytes(&key, &message));
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", ts),
        ("webhook-signature", signature.as_str()),
    ];
    let check = |headers: &[(&str, &str)]| {
        with_post(headers, body, |delivery| {
            verifier("standard").check(delivery)
        })
    };
    assert_eq!(check(&headers), Ok(()));
    for (name, value) in headers {
        let mut twice = headers.to_vec();
        twice.push((name, value));
        refused(check(&twice), Because::Header, "more than once");
        let without: Vec<_> = headers
            .into_iter()
            .filter(|(other, _)| *other != name)
            .collect();
        refused(check(&without), Because::Header, "missing");
        let mut control = headers.to_vec();
        control.retain(|(other, _)| *other != name);
        control.push((name, "a\u{1}"));
        refused(check(&control), Because::Header, "not text");
    }
}

#[test]
fn an_id_of_the_other_family_cannot_be_added() {
    let (id, ts, body) = ("msg_1", "1800000000", "{}");
    let signature = format!(
        "v1,{}",
        sign_bytes(&base64_key(), &format!("{id}.{ts}.{body}"))
    );
    let svix = [
        ("svix-id", id),
        ("svix-timestamp", ts),
        ("svix-signature", signature.as_str()),
    ];
    let check = |headers: &[(&str, &str)]| {
        with_post(headers, body, |delivery| {
            let verifier = verifier("standard");
            let id = verifier
                .id()
                .expect("an id")
                .find(delivery.headers, delivery.url, |_| None);
            verifier.check(delivery).map(|()| id)
        })
    };
    assert_eq!(check(&svix), Ok(Some(id.to_owned())));
    let mut replayed = svix.to_vec();
    replayed.push(("webhook-id", "msg_2"));
    assert!(check(&replayed).is_err());
}

#[test]
fn nine_signatures_are_too_many_and_eight_are_not() {
    let body = "{}";
    let good = signed_hex(SECRET, body);
    let check = |count: usize| {
        let mut parts = vec![format!("v1={}", "0".repeat(64)); count - 1];
        parts.push(format!("v1={good}"));
        let value = parts.join(",");
        with_post(&[("X-PagerDuty-Signature", &value)], body, |delivery| {
            verifier("pagerduty").check(delivery)
        })
    };
    assert_eq!(check(8), Ok(()));
    refused(check(9), Because::Header, "more than 8 signatures");
}

#[test]
fn hexadecimal_digits_come_in_either_case_and_whole() {
    let good = signed_hex(SECRET, "{}");
    assert_eq!(
        github(&format!("sha256={}", good.to_uppercase()), "{}"),
        Ok(())
    );
    let wrong = [
        format!("sha256=zz{}", &good[2..]),
        format!("sha256={}", &good[1..]),
        format!("sha256={good}0"),
        format!("sha256={good}00"),
        format!("sha256=+{}", &good[1..]),
        format!("sha256={good},"),
        "sha256=é".to_owned(),
    ];
    for wrong in wrong {
        refused(
            github(&wrong, "{}"),
            Because::Signature,
            "not hexadecimal digits of the right",
        );
    }
    refused(
        github("sha256=", "{}"),
        Because::Signature,
        "not hexadecimal",
    );
}

#[test]
fn base64_is_padded_and_of_the_standard_alphabet() {
    // A body whose signature has characters that the alphabets differ in.
    let body = (0..1_000).map(|n| n.to_string()).find(|body| {
        let text = signed_base64(SECRET, body);
        text.contains('+') && text.contains('/')
    });
    let body = body.expect("one of a thousand");
    let good = signed_base64(SECRET, &body);
    let check = |signature: &str| {
        with_post(&[("x-line-signature", signature)], &body, |delivery| {
            verifier("line").check(delivery)
        })
    };
    assert_eq!(check(&good), Ok(()));
    let url_safe = good.replace('+', "-").replace('/', "_");
    let wrong = [
        good.trim_end_matches('='),
        url_safe.as_str(),
        &format!("{good}="),
        &good.replace('+', " "),
    ];
    for wrong in wrong {
        refused(
            check(wrong),
            Because::Signature,
            "not padded Base64 of the right",
        );
    }
}

#[test]
fn older_and_weaker_signatures_do_not_count() {
    let ts = "1800000000";
    let hex = signed_hex(&format!("whsec_{SECRET}"), &format!("{ts}.{{}}"));
    let stripe = |value: &str| {
        with_post(&[("Stripe-Signature", value)], "{}", |delivery| {
            verifier("stripe").check(delivery)
        })
    };
    assert_eq!(stripe(&format!("t={ts},v0=00,v1={hex}")), Ok(()));
    refused(
        stripe(&format!("t={ts},v0={hex}")),
        Because::Header,
        "begins with `v1=`",
    );
    refused(
        stripe(&format!("v1={hex}")),
        Because::Header,
        "begins with `t=`",
    );
    let sha1 = format!("sha1={}", "0".repeat(40));
    refused(
        github(&sha1, "{}"),
        Because::Header,
        "begins with `sha256=`",
    );
    let both = [("X-Hub-Signature", sha1.as_str())];
    let result = with_post(&both, "{}", |delivery| verifier("github").check(delivery));
    refused(result, Because::Header, "X-Hub-Signature-256 is missing");
}

fn base64_key() -> Vec<u8> {
    let text = WHSEC.trim_start_matches("whsec_");
    crate::key::decode(text, crate::Encoding::Base64).expect("Base64")
}

fn sign_bytes(key: &[u8], message: &str) -> String {
    use ring::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    crate::key::base64(hmac::sign(&key, message.as_bytes()).as_ref())
}
