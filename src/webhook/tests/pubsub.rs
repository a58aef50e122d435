//! Google Pub/Sub: tokens, and the key sets that they are compared with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{hmac, rsa};
use serde_json::{Value, json};

use super::{MOMENT, PRIVATE_KEY, invalid, options_of, refused, signed_rsa, with_post};
use crate::{Because, Options, Refused, Verifier};

const NOW: u64 = MOMENT.seconds();

/// The public half of the tests' key, as it stands in a set.
fn public() -> Value {
    let key = rsa::KeyPair::from_pkcs8(PRIVATE_KEY).expect("a key");
    let numbers = rsa::PublicKeyComponents::<Vec<u8>>::from(key.public());
    json!({
        "kty": "RSA", "use": "sig", "alg": "RS256",
        "n": URL_SAFE_NO_PAD.encode(numbers.n), "e": URL_SAFE_NO_PAD.encode(numbers.e),
    })
}

/// The key set with that key under this name.
pub(super) fn key_set(name: &str) -> String {
    let mut key = public();
    key["kid"] = name.into();
    json!({"keys": [key]}).to_string()
}

fn head() -> Value {
    json!({"alg": "RS256", "kid": "the key", "typ": "JWT"})
}

fn claims() -> Value {
    json!({
        "iss": "https://accounts.google.com",
        "aud": "the audience",
        "email": "the email",
        "email_verified": true,
        "iat": NOW - 10,
        "exp": NOW + 3_590,
    })
}

fn with(mut value: Value, name: &str, other: Value) -> Value {
    value[name] = other;
    value
}

fn message(head: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(head), part(claims))
}

fn token(head: &Value, claims: &Value) -> String {
    let message = message(head, claims);
    let signature = URL_SAFE_NO_PAD.encode(signed_rsa(message.as_bytes()));
    format!("{message}.{signature}")
}

fn check_with(options: &Options, keys: &str, authorization: &str) -> Result<(), Refused> {
    let verifier = Verifier::new(options, keys, None).expect("fits");
    with_post(&[("Authorization", authorization)], "{}", |delivery| {
        let head = verifier.check_head(delivery.headers, delivery.now);
        assert_eq!(verifier.check(delivery), head);
        head
    })
}

fn check(token: &str) -> Result<(), Refused> {
    let authorization = format!("Bearer {token}");
    check_with(&options_of("pubsub"), &key_set("the key"), &authorization)
}

fn is_refused(head: &Value, claims: &Value, because: Because, part: &str) {
    refused(check(&token(head, claims)), because, part);
}

#[test]
fn a_token_of_the_subscription_passes() {
    assert_eq!(check(&token(&head(), &claims())), Ok(()));
    let short = with(claims(), "iss", "accounts.google.com".into());
    assert_eq!(check(&token(&head(), &short)), Ok(()));
    let lower = format!("bearer  {} ", token(&head(), &claims()));
    let options = options_of("pubsub");
    assert_eq!(check_with(&options, &key_set("the key"), &lower), Ok(()));
}

#[test]
fn what_is_no_token_is_refused() {
    let keys = key_set("the key");
    let options = options_of("pubsub");
    let good = token(&head(), &claims());
    let basic = format!("Basic {good}");
    let four = format!("Bearer {good}.x");
    for wrong in [
        &*basic,
        &four,
        &good,
        "Bearer",
        "Bearer ik_live_x",
        "Bearer a.b",
    ] {
        let result = check_with(&options, &keys, wrong);
        refused(result, Because::Header, "no token of three parts");
    }
    for wrong in ["..", "a.b.c", "e30.e30.e30"] {
        refused(check(wrong), Because::Signature, "not signed with RS256");
    }
    let verifier = super::verifier("pubsub");
    let none = with_post(&[], "{}", |delivery| verifier.check(delivery));
    refused(none, Because::Header, "enable authentication for the push");
}

#[test]
fn no_other_algorithm_counts() {
    // Signed with what everybody knows: nothing, the key set, the modulus.
    let keys = key_set("the key");
    let modulus = public()["n"].as_str().expect("text").to_owned();
    let modulus = URL_SAFE_NO_PAD.decode(modulus).expect("Base64");
    for secret in [keys.as_bytes(), &modulus] {
        let forged = message(&with(head(), "alg", "HS256".into()), &claims());
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&key, forged.as_bytes());
        let forged = format!("{forged}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()));
        refused(check(&forged), Because::Signature, "not signed with RS256");
    }
    let none = [
        json!("none"),
        json!("None"),
        json!(""),
        json!("rs256"),
        json!(["RS256"]),
        Value::Null,
    ];
    for algorithm in none {
        let head = with(head(), "alg", algorithm);
        is_refused(
            &head,
            &claims(),
            Because::Signature,
            "not signed with RS256",
        );
        let unsigned = format!("{}.", message(&head, &claims()));
        refused(
            check(&unsigned),
            Because::Signature,
            "not signed with RS256",
        );
    }
    let unsigned = format!("{}.", message(&head(), &claims()));
    refused(
        check(&unsigned),
        Because::Signature,
        "no key of the key set",
    );
    let critical = with(head(), "crit", json!(["exp"]));
    is_refused(&critical, &claims(), Because::Signature, "not signed with");
}

#[test]
fn a_changed_token_is_refused() {
    let good = token(&head(), &claims());
    let (message, signature) = good.rsplit_once('.').expect("parts");
    let other = self::message(&head(), &with(claims(), "sub", "x".into()));
    let changed = format!("{other}.{signature}");
    refused(check(&changed), Because::Signature, "no key of the key set");
    for wrong in [
        format!("{message}.{}", &signature[..signature.len() - 2]),
        format!("{message}.{signature}="),
        format!("{message}.{}", signature.replace(['-', '_'], "+")),
    ] {
        refused(check(&wrong), Because::Signature, "no key of the key set");
    }
}

#[test]
fn the_key_that_is_named_must_be_in_the_set() {
    let named = |name: Value| with(head(), "kid", name);
    let part = "a key that is not among the 1 of the key set; set the provider's newest key set";
    is_refused(
        &named("another".into()),
        &claims(),
        Because::Signature,
        part,
    );
    // Without a name any key counts.
    assert_eq!(check(&token(&named(Value::Null), &claims())), Ok(()));
    let unnamed = json!({"keys": [public()]}).to_string();
    let authorization = format!("Bearer {}", token(&head(), &claims()));
    let options = options_of("pubsub");
    assert_eq!(check_with(&options, &unnamed, &authorization), Ok(()));
    let mut other = public();
    let modulus = URL_SAFE_NO_PAD.encode([0xff; 256]);
    other["n"] = modulus.into();
    other["kid"] = "the key".into();
    let mut next = public();
    next["kid"] = "the next key".into();
    let two = json!({"keys": [other, next]}).to_string();
    let wrong = check_with(&options, &two, &authorization);
    refused(wrong, Because::Signature, "no key of the key set");
    let next = token(&named("the next key".into()), &claims());
    assert_eq!(
        check_with(&options, &two, &format!("Bearer {next}")),
        Ok(())
    );
}

#[test]
fn whom_it_is_from_and_for_must_fit() {
    let wrong = |name: &str, other: Value, part: &str| {
        is_refused(
            &head(),
            &with(claims(), name, other),
            Because::Signature,
            part,
        );
    };
    for issuer in [
        json!("https://accounts.google.com.evil.example"),
        json!(["accounts.google.com"]),
        Value::Null,
    ] {
        wrong("iss", issuer, "Google did not issue the token");
    }
    wrong(
        "aud",
        "evil\u{202e}".into(),
        "audience is `evil\\u{202e}`, not `the audience`",
    );
    wrong("aud", json!(["the audience"]), "the token's audience is ``");
    wrong(
        "aud",
        "x".repeat(10_000).into(),
        &format!("is `{}`, not", "x".repeat(200)),
    );
    wrong(
        "email",
        "evil@example.com".into(),
        "service account is `evil@example.com`, not `the email`",
    );
    wrong("email", Value::Null, "service account is ``");
    for verified in [json!(false), json!("true"), Value::Null] {
        wrong("email_verified", verified, "not verified");
    }
    let anybody = Options {
        email: None,
        ..options_of("pubsub")
    };
    let other = token(&head(), &with(claims(), "email", Value::Null));
    let other = format!("Bearer {other}");
    assert_eq!(check_with(&anybody, &key_set("the key"), &other), Ok(()));
}

#[test]
fn it_counts_for_its_time() {
    let times = |begins: u64, ends: u64| {
        let claims = with(claims(), "iat", begins.into());
        check(&token(&head(), &with(claims, "exp", ends.into())))
    };
    let hour = 3_600;
    for (begins, ends) in [(NOW, NOW), (NOW + 300, NOW + hour), (NOW - hour, NOW - 300)] {
        assert_eq!(times(begins, ends), Ok(()));
    }
    refused(
        times(NOW + 301, NOW + hour),
        Because::Timestamp,
        "301 s ahead of",
    );
    refused(
        times(NOW - hour, NOW - 301),
        Because::Timestamp,
        "301 s behind",
    );
    let off = times(NOW - hour, NOW - 301).expect_err("late").seconds_off;
    assert_eq!(off, Some(-301));
    assert!(times(0, u64::MAX).is_ok() && times(u64::MAX, 0).is_err());
    for name in ["iat", "exp"] {
        for missing in [Value::Null, json!("1800000000"), json!(-1)] {
            let claims = with(claims(), name, missing);
            is_refused(
                &head(),
                &claims,
                Because::Timestamp,
                "the token has no time",
            );
        }
    }
    let loose = Options {
        tolerance_seconds: Some(0),
        ..options_of("pubsub")
    };
    let late = with(claims(), "exp", json!(1));
    let late = format!("Bearer {}", token(&head(), &with(late, "iat", json!(0))));
    assert_eq!(check_with(&loose, &key_set("the key"), &late), Ok(()));
}

#[test]
fn a_set_needs_a_key_for_rs256() {
    let wrong = |keys: &str, part: &str| invalid(&options_of("pubsub"), keys, "secret", part);
    let no_set = "not a JSON Web Key Set, an object with a list `keys`. Google's key set";
    for text in [
        "x",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"kid":"-----BEGIN CERTIFICATE-----"}"#,
    ] {
        wrong(text, no_set);
    }
    wrong(r#"{"keys":[]}"#, "it has no RSA key");
    for (name, value) in [
        ("kty", json!("EC")),
        ("use", json!("enc")),
        ("alg", json!("RS512")),
        ("n", json!("AQAB")),
        ("n", json!("*")),
        ("e", json!("")),
        ("e", Value::Null),
    ] {
        let key = with(public(), name, value);
        let keys = json!({"keys": [key, 7, "x"]}).to_string();
        wrong(
            &keys,
            "it has no RSA key of 2048 to 8192 bits for RS256. Google's",
        );
    }
    let mut least = public();
    for name in ["use", "alg"] {
        least.as_object_mut().expect("an object").remove(name);
    }
    let keys = json!({"keys": [least]}).to_string();
    assert!(Verifier::new(&options_of("pubsub"), &keys, None).is_ok());
}
