//! Handshakes: what is answered, and what is never signed or echoed.

use super::{MOMENT, SECRET, signed_base64, signed_hex, verifier, with_post, with_request};
use crate::handshake::{Challenge, of_keyed, to_do};
use crate::{Because, Delivery, Options, Refused, Verifier};

fn get(scheme: &str, query: &str) -> Result<Option<Challenge>, Refused> {
    let url = format!("https://hooks.example.com/api/webhook/a/b?{query}");
    with_request("GET", &url, &[], b"", MOMENT, |delivery| {
        verifier(scheme).handshake(delivery)
    })
}

fn refused(result: Result<Option<Challenge>, Refused>, because: Because) {
    assert_eq!(result.expect_err("refused").because, because);
}

#[test]
fn x_signs_nothing_that_could_be_a_delivery() {
    assert!(get("x", "crc_token=abc-DEF_9").expect("signed").is_some());
    let long = "a".repeat(129);
    let wrong = [
        "%7B%22a%22%3A1%7D",
        "a%3Db",
        "a+b",
        "%5B1%5D",
        "",
        "%3Cb%3E",
        "a%0A",
        &long,
        "%C3%A9",
    ];
    for token in wrong {
        refused(get("x", &format!("crc_token={token}")), Because::Body);
    }
    refused(get("x", "other=1"), Because::Body);
}

#[test]
fn x_takes_no_delivery_that_its_greeting_would_have_signed() {
    // `abc` is a form with one field, and anybody can ask for its signature.
    for (body, good) in [
        ("abc", false),
        ("123", false),
        ("{\"a\":1}", true),
        ("a=b", true),
    ] {
        let signature = format!("sha256={}", signed_base64(SECRET, body));
        let result = with_post(
            &[("x-twitter-webhooks-signature", &signature)],
            body,
            |delivery| verifier("x").check(delivery),
        );
        assert_eq!(result.is_ok(), good, "{body}: {result:?}");
    }
}

fn zoom(headers: &[(&str, &str)], token: &str) -> Result<Option<Challenge>, Refused> {
    let body =
        format!(r#"{{"event":"endpoint.url_validation","payload":{{"plainToken":{token}}}}}"#);
    with_post(headers, &body, |delivery| {
        verifier("zoom").handshake(delivery)
    })
}

#[test]
fn zoom_signs_nothing_that_could_be_a_delivery() {
    let answer = zoom(&[], r#""abc""#).expect("signed").expect("an answer");
    assert!(answer.body.contains(&signed_hex(SECRET, "abc")));
    let wrong = [
        r#""v0:1800000000:{\"event\":\"x\"}""#,
        r#""a:b""#,
        r#""""#,
        "null",
        "{}",
        "[]",
    ];
    for token in wrong {
        refused(zoom(&[], token), Because::Body);
    }
}

#[test]
fn zoom_checks_a_signature_that_came() {
    let bad = format!("v0={}", "0".repeat(64));
    let headers = [
        ("x-zm-signature", bad.as_str()),
        ("x-zm-request-timestamp", "1800000000"),
    ];
    refused(zoom(&headers, r#""abc""#), Because::Signature);
    refused(zoom(&headers[..1], r#""abc""#), Because::Header);
}

#[test]
fn zoom_without_a_signature_passes_the_head_and_nothing_more() {
    with_post(&[], r#"{"event":"meeting.started"}"#, |delivery| {
        let verifier = verifier("zoom");
        assert_eq!(verifier.check_head(delivery.headers, MOMENT), Ok(()));
        assert_eq!(verifier.handshake(delivery), Ok(None));
        let refused = verifier.check(delivery).expect_err("not signed");
        assert_eq!(refused.because, Because::Header);
    });
    let bad = with_post(&[("x-zm-signature", "v0=00")], "{}", |delivery| {
        verifier("zoom").check_head(delivery.headers, MOMENT)
    });
    assert!(bad.is_err());
}

#[test]
fn meta_echoes_plain_challenges_to_who_knows_the_verify_token() {
    let query = |token: &str, challenge: &str| {
        format!("hub.mode=subscribe&hub.verify_token={token}&hub.challenge={challenge}")
    };
    let good = get("meta", &query("the+verify%20token", "1158201444"));
    assert_eq!(good.expect("known").expect("an answer").body, "1158201444");
    for markup in ["%3Cscript%3Ealert(1)%3C/script%3E", "", "a%0D%0Ab", "a+b"] {
        refused(
            get("meta", &query("the+verify+token", markup)),
            Because::Body,
        );
    }
    refused(get("meta", &query("another", "1")), Because::Signature);
    refused(
        get("meta", "hub.verify_token=the+verify+token&hub.challenge=1"),
        Because::Signature,
    );
    refused(get("meta", ""), Because::Signature);
    let without = Verifier::new(&Options::of("meta"), SECRET, None).expect("fits");
    let url = format!("https://x/?{}", query("", "1"));
    let result = with_request("GET", &url, &[], b"", MOMENT, |delivery| {
        without.handshake(delivery)
    });
    refused(result, Because::Signature);
}

#[test]
fn echoed_text_is_plain_and_bounded() {
    let markup = get("dropbox", "challenge=%3Cb%3E")
        .expect("echoed")
        .expect("an answer");
    assert_eq!(
        markup.content_type.as_deref(),
        Some("text/plain; charset=utf-8")
    );
    let nosniff = ("X-Content-Type-Options".to_owned(), "nosniff".to_owned());
    assert_eq!(markup.headers, [nosniff]);
    let text = |len: usize| format!("challenge={}", "a".repeat(len));
    assert!(get("dropbox", &text(1_024)).is_ok());
    refused(get("dropbox", &text(1_025)), Because::Body);
    refused(get("dropbox", "x=1"), Because::Body);
}

#[test]
fn a_greeting_in_a_delivery_needs_its_signature() {
    let body = r#"{"type":"url_verification","challenge":"abc"}"#;
    let slack = |signature: &str, body: &str| {
        let headers = [
            ("X-Slack-Request-Timestamp", "1800000000"),
            ("X-Slack-Signature", signature),
        ];
        with_post(&headers, body, |delivery| {
            verifier("slack").handshake(delivery)
        })
    };
    let good = format!(
        "v0={}",
        signed_hex(SECRET, &format!("v0:1800000000:{body}"))
    );
    assert_eq!(
        slack(&good, body).expect("signed").expect("an answer").body,
        "abc"
    );
    refused(
        slack(&format!("v0={}", "0".repeat(64)), body),
        Because::Signature,
    );
    // The mark somewhere else is no mark.
    let other = r#"{"type":"event","event":{"type":"url_verification"}}"#;
    assert_eq!(slack("", other), Ok(None));
    // A long body is a delivery.
    let long = format!(
        r#"{{"type":"url_verification","x":"{}"}}"#,
        " ".repeat(64 * 1_024)
    );
    assert_eq!(slack("", &long), Ok(None));
    let no_text = r#"{"type":"url_verification","challenge":{}}"#;
    let good = format!(
        "v0={}",
        signed_hex(SECRET, &format!("v0:1800000000:{no_text}"))
    );
    refused(slack(&good, no_text), Because::Body);
}

#[test]
fn twitch_echoes_the_challenge_of_a_signed_request() {
    let body = r#"{"challenge":"pogchamp"}"#;
    let ts = "2027-01-15T08:00:00Z";
    let good = format!("sha256={}", signed_hex(SECRET, &format!("id{ts}{body}")));
    let headers = [
        ("Twitch-Eventsub-Message-Id", "id"),
        ("Twitch-Eventsub-Message-Timestamp", ts),
        ("Twitch-Eventsub-Message-Signature", good.as_str()),
        (
            "Twitch-Eventsub-Message-Type",
            "webhook_callback_verification",
        ),
    ];
    let answer = |headers: &[(&str, &str)]| {
        with_post(headers, body, |delivery| {
            verifier("twitch").handshake(delivery)
        })
    };
    assert_eq!(
        answer(&headers).expect("signed").expect("an answer").body,
        "pogchamp"
    );
    assert_eq!(answer(&headers[..3]), Ok(None));
    refused(answer(&headers[1..]), Because::Header);
}

fn keyed_answer(delivery: &Delivery<'_>) -> Option<Challenge> {
    of_keyed(None, delivery)
}

fn keyed<T>(headers: &[(&str, &str)], body: &str, then: impl FnOnce(&Delivery<'_>) -> T) -> T {
    with_post(headers, body, then)
}

#[test]
fn keyed_greetings_are_known_by_their_headers() {
    let options = |headers: &[(&str, &str)]| {
        with_request("OPTIONS", "https://x/", headers, b"", MOMENT, keyed_answer)
    };
    let answer = options(&[("WebHook-Request-Origin", "a.example")]).expect("an answer");
    assert!(
        answer
            .headers
            .contains(&("WebHook-Allowed-Rate".to_owned(), "*".to_owned()))
    );
    let odd = [
        ("WebHook-Request-Origin", "a.example"),
        ("WebHook-Request-Rate", "x"),
    ];
    assert!(options(&odd).is_some());
    assert_eq!(options(&[]), None);
    assert_eq!(options(&[("WebHook-Request-Origin", "")]), None);
    let grid = [("aeg-event-type", "SubscriptionValidation")];
    assert_eq!(keyed(&grid, "[]", keyed_answer), None);
    assert_eq!(
        keyed(&[], r#"[{"data":{"validationCode":"1"}}]"#, keyed_answer),
        None
    );
}

#[test]
fn a_subscription_of_sns_is_acknowledged_and_its_address_given_back() {
    let confirm = [("x-amz-sns-message-type", "SubscriptionConfirmation")];
    let url = |address: &str| {
        let body = format!(r#"{{"Type":"SubscriptionConfirmation","SubscribeURL":"{address}"}}"#);
        keyed(&confirm, &body, |delivery| {
            let said = to_do(delivery);
            assert_eq!(said.is_some(), keyed_answer(delivery).is_some());
            said
        })
    };
    let good = "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=a";
    let said = format!("open {good} to confirm the subscription");
    assert_eq!(url(good), Some(said));
    assert!(url("https://sns.cn-north-1.amazonaws.com.cn/").is_some());
    let wrong = [
        "http://sns.us-east-1.amazonaws.com/",
        "https://evil.example/sns.us-east-1.amazonaws.com",
        "https://sns.evil.example@x.amazonaws.com.evil.example/",
        "https://sns.us-east-1.amazonaws.com@evil.example/",
        "https://s3.amazonaws.com/",
        "javascript:alert(1)",
    ];
    for wrong in wrong {
        assert_eq!(url(wrong), None, "{wrong}");
    }
    let other = [("x-amz-sns-message-type", "Notification")];
    assert_eq!(keyed(&other, "{}", keyed_answer), None);
}

#[test]
fn notion_sends_its_secret_to_who_awaits_one_and_to_nobody_else() {
    let token = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";
    let body = format!(r#"{{"verification_token":"{token}"}}"#);
    let awaiting = Verifier::awaiting(&Options::of("notion")).expect("it sends its own");
    let sent = |verifier: &Verifier, body: &str| {
        with_post(&[], body, |delivery| {
            let answer = verifier.handshake(delivery).expect("nothing to refuse");
            assert_eq!(answer.is_some(), verifier.own_secret(delivery).is_some());
            let answer = answer.map(|answer| (answer.status, answer.body));
            assert_eq!(answer.unwrap_or((200, String::new())), (200, String::new()));
            verifier.own_secret(delivery)
        })
    };
    assert_eq!(sent(&awaiting, &body).as_deref(), Some(token));
    let long = format!(r#"{{"verification_token":"{}"}}"#, "a".repeat(1_025));
    let wrong = [
        r#"{"verification_token":"fifteen-bytes!!"}"#,
        r#"{"verification_token":"with a space in it"}"#,
        r#"{"verification_token":{"a":"sixteen bytes or more"}}"#,
        r#"{"type":"page.created"}"#,
        "verification_token=sixteen-bytes-or-more",
        &long,
    ];
    for body in wrong {
        assert_eq!(sent(&awaiting, body), None, "{body}");
    }
    assert_eq!(sent(&verifier("notion"), &body), None);
    with_post(&[], &body, |delivery| {
        assert_eq!(awaiting.check_head(delivery.headers, MOMENT), Ok(()));
        let refused = awaiting.check(delivery).expect_err("it has no secret");
        assert!(refused.message.contains("has no secret yet"), "{refused}");
        assert!(!refused.message.contains(token));
        assert!(verifier("notion").check(delivery).is_err());
    });
    with_request(
        "GET",
        "https://x/",
        &[],
        body.as_bytes(),
        MOMENT,
        |delivery| {
            assert_eq!(awaiting.handshake(delivery), Ok(None));
        },
    );
    // The others cannot do without.
    for preset in crate::presets() {
        let options = super::options_of(&preset.name);
        assert_eq!(
            Verifier::awaiting(&options).is_ok(),
            matches!(preset.name.as_str(), "notion" | "asana"),
            "{}",
            preset.name
        );
    }
}
