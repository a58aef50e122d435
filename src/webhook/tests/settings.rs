//! Settings that do not fit are refused with the field and what to do.

use super::{SECRET, WHSEC, hmac, invalid, options_of, secret_of, verifier, with_post};
use crate::{Options, Timestamp, Verifier, presets};

#[test]
fn secrets_are_there_long_enough_and_of_the_right_form() {
    for preset in presets().iter().filter(|preset| preset.signed()) {
        invalid(&options_of(&preset.name), "", "secret", "empty");
    }
    let of = Options::of;
    invalid(
        &of("github"),
        "fifteen bytes..",
        "secret",
        "15 bytes, and at least 16",
    );
    invalid(&of("telegram"), "short", "secret", "at least 16 are");
    invalid(&of("graph"), "short", "secret", "at least 16 are");
    invalid(&of("gitlab"), "short", "secret", "at least 16 are");
    invalid(&of("gitlab"), "whsec_short", "secret", "whsec_");
    invalid(
        &of("stripe"),
        "sk_live_0123456789abcdef",
        "secret",
        "begin with `whsec_`",
    );
    for wrong in [
        "whsec_*",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whpk_c2hvcnQ=",
        &WHSEC[..WHSEC.len() - 1],
    ] {
        let part = if wrong.starts_with("whpk_") {
            "whpk_"
        } else {
            "whsec_"
        };
        invalid(&of("standard"), wrong, "secret", part);
    }
    assert!(Verifier::new(&of("standard"), &format!("v1,{WHSEC}"), None).is_ok());
    invalid(&of("discord"), SECRET, "secret", "64 hexadecimal digits");
    invalid(&of("sendgrid"), "SG.0123456789abcdef", "secret", "P-256");
    invalid(
        &hmac(|o| o.secret_encoding = Some("hex".into())),
        SECRET,
        "secret",
        "hexadecimal",
    );
    invalid(
        &hmac(|o| o.secret_encoding = Some("hex".into())),
        "00112233445566778899",
        "secret",
        "10 bytes",
    );
}

#[test]
fn no_message_shows_the_secret() {
    let secret = "c4n4ry";
    for preset in presets() {
        for options in [
            Options::of(&preset.name),
            options_of(&preset.name),
            hmac(|o| o.scheme.clone_from(&preset.name)),
        ] {
            if let Err(invalid) = Verifier::new(&options, secret, Some("c4n4ry-t0ken")) {
                assert!(!invalid.to_string().contains("c4n4ry"), "{invalid}");
            }
        }
    }
}

#[test]
fn a_verifier_is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&verifier("sendgrid"));
}

#[test]
fn debug_shows_the_scheme_alone() {
    assert_eq!(format!("{:?}", verifier("github")), "Verifier(github)");
    for preset in presets().iter().filter(|preset| preset.signed()) {
        let shown = format!("{:?}", verifier(&preset.name));
        assert_eq!(shown, format!("Verifier({})", preset.name));
    }
}

#[test]
fn no_refusal_shows_what_was_sent_or_expected() {
    let canary = "c4n4ry".repeat(8);
    for preset in presets().iter().filter(|preset| preset.signed()) {
        let verifier = verifier(&preset.name);
        let verify = preset.verify.as_ref().expect("it signs");
        let names = verify.signature.iter().filter_map(|place| place.header());
        let names = names.chain(["x-signature", "webhook-id", "webhook-timestamp"]);
        let value = format!("{}{canary}", verify.prefix);
        let headers: Vec<_> = names.map(|name| (name, value.as_str())).collect();
        let body = format!(r#"{{"type":"{canary}","value":[{{"clientState":"{canary}"}}]}}"#);
        let refused = with_post(&headers, &body, |delivery| verifier.check(delivery));
        let message = refused.expect_err(&preset.name).to_string();
        assert!(
            !message.contains("c4n4ry") && !message.contains(&secret_of(&preset.name)),
            "{message}"
        );
    }
}

#[test]
fn an_unknown_scheme_gets_the_names_that_resemble_it() {
    invalid(
        &Options::of("githb"),
        SECRET,
        "scheme",
        "one of github, gitlab?",
    );
    invalid(&Options::of("Stripe"), SECRET, "scheme", "stripe");
    invalid(
        &Options::of("??"),
        SECRET,
        "scheme",
        "standard, stripe, github",
    );
    invalid(&Options::of(""), SECRET, "scheme", "headgate preset list");
}

#[test]
fn what_cannot_be_verified_says_what_to_use_instead() {
    for scheme in ["eventgrid", "cloudevents"] {
        invalid(
            &Options::of(scheme),
            SECRET,
            "scheme",
            "does not sign requests; use an ingest key",
        );
    }
}

#[test]
fn options_without_effect_are_refused() {
    let text = || Some("x".to_owned());
    let twilio = Options {
        header: text(),
        ..Options::of("twilio")
    };
    invalid(&twilio, SECRET, "header", "`twilio` already defines it");
    let sns = Options {
        signed: text(),
        ..options_of("sns")
    };
    invalid(
        &sns,
        &secret_of("sns"),
        "signed",
        "`sns` already defines it",
    );
    let telegram = Options {
        signed: Some("{body}".into()),
        ..Options::of("telegram")
    };
    invalid(&telegram, SECRET, "signed", "`telegram` already defines it");
    let answer = Options {
        answer: Some(201),
        ..Options::of("github")
    };
    invalid(&answer, SECRET, "answer", "200, 202 or 204");
    let part = Options {
        timestamp: Some(Timestamp::default()),
        ..Options::of("github")
    };
    invalid(&part, SECRET, "timestamp", "it needs one of");
    let unneeded = Verifier::new(&Options::of("github"), SECRET, Some("a"));
    assert_eq!(unneeded.expect_err("unneeded").field, "verify_token");
    let empty = Verifier::new(&Options::of("meta"), SECRET, Some(""));
    assert_eq!(empty.expect_err("empty").field, "verify_token");
}

#[test]
fn urls_are_taken_where_they_are_signed() {
    let square = Options {
        url: Some("https://a.example/x".into()),
        answer: Some(200),
        ..Options::of("square")
    };
    let verifier_of = Verifier::new(&square, SECRET, None).expect("fits");
    assert_eq!(
        (verifier_of.url(), verifier_of.answer()),
        (Some("https://a.example/x"), 200)
    );
    let relative = Options {
        url: Some("/x".into()),
        ..square
    };
    invalid(&relative, SECRET, "url", "https://");
    let signing: Vec<&str> = presets()
        .iter()
        .filter(|preset| preset.signed() && verifier(&preset.name).signs_url())
        .map(|preset| preset.name.as_str())
        .collect();
    assert_eq!(
        signing,
        [
            "twilio", "hubspot", "square", "trello", "mandrill", "monday", "qstash"
        ]
    );
    for preset in presets().iter().filter(|preset| preset.signed()) {
        assert_eq!(
            preset.signs_url(),
            verifier(&preset.name).signs_url(),
            "{}",
            preset.name
        );
    }
    let own = hmac(|options| options.signed = Some("{url}{body}".into()));
    assert!(Verifier::new(&own, SECRET, None).expect("fits").signs_url());
}

#[test]
fn options_are_written_without_what_is_not_set() {
    let text = serde_json::to_string(&Options::of("github")).expect("JSON");
    assert_eq!(text, r#"{"scheme":"github"}"#);
    let read: Options =
        serde_json::from_str(r#"{"scheme":"hmac","timestamp":{"part":"t="}}"#).expect("read");
    assert_eq!(read.timestamp.expect("set").part.as_deref(), Some("t="));
}

#[test]
fn what_one_tool_has_alone_is_there_and_nowhere_else() {
    for (scheme, detail, hint) in [
        ("sns", "topic", "missing. Amazon SNS console"),
        ("paypal", "webhook_id", "missing. PayPal Developer"),
        ("pubsub", "audience", "missing. Google Cloud console"),
    ] {
        let mut options = options_of(scheme);
        options.set_detail(detail, None);
        invalid(&options, &secret_of(scheme), detail, hint);
        options.set_detail(detail, Some(String::new()));
        invalid(&options, &secret_of(scheme), detail, "empty");
        let mut others = hmac(|_| {});
        others.set_detail(detail, Some("x".into()));
        invalid(&others, SECRET, detail, "`hmac` does not use it; omit it");
    }
    let mut without = options_of("pubsub");
    without.email = None;
    assert!(Verifier::new(&without, &secret_of("pubsub"), None).is_ok());
}

#[test]
fn every_detail_can_be_set_and_read() {
    for preset in presets() {
        let options = options_of(&preset.name);
        for option in &preset.options {
            let given = options.details();
            let given = given.iter().find(|(name, _)| *name == option.name);
            assert!(given.is_some(), "{option:?}");
        }
    }
}

#[test]
fn a_key_changes_what_its_preset_says() {
    let okta = Options {
        header: Some("X-Custom".into()),
        ..Options::of("okta")
    };
    let verifier = Verifier::new(&okta, SECRET, None).expect("fits");
    let check =
        |name: &str| with_post(&[(name, SECRET)], "{}", |delivery| verifier.check(delivery));
    assert_eq!(check("X-Custom"), Ok(()));
    assert!(check("Authorization").is_err());
}

#[test]
fn a_secret_that_can_be_guessed_and_a_key_for_which_anybody_signs_are_refused() {
    let varied = "it repeats one character";
    let zeros = "0".repeat(64);
    let blanks = " ".repeat(20);
    let of_zeros = format!("whsec_{}", "A".repeat(32));
    for (scheme, secret) in [
        ("github", &*blanks),
        ("github", &zeros),
        ("telegram", "aaaaaaaaaaaaaaaaaaaa"),
        ("standard", &of_zeros),
    ] {
        invalid(&Options::of(scheme), secret, "secret", varied);
    }
    let order_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85";
    invalid(&Options::of("discord"), order_8, "secret", "public key");
    let good = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    assert!(Verifier::new(&Options::of("discord"), good, None).is_ok());
}
