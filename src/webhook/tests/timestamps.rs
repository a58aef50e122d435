//! Timestamps: how far off, in which form, and where.

use std::time::Duration;

use super::{MOMENT, SECRET, refused, signed_hex, verifier, verifier_of, with_post, with_request};
use crate::{Because, Options, Refused};
use base::clock::Unix;

fn slack(ts: &str, now: Unix) -> Result<(), Refused> {
    let signature = format!("v0={}", signed_hex(SECRET, &format!("v0:{ts}:{{}}")));
    let headers = [
        ("X-Slack-Request-Timestamp", ts),
        ("X-Slack-Signature", signature.as_str()),
    ];
    with_request("POST", "https://x/", &headers, b"{}", now, |delivery| {
        let verifier = verifier("slack");
        let head = verifier.check_head(delivery.headers, delivery.now);
        let whole = verifier.check(delivery);
        assert_eq!(head, whole, "the clock is checked before the body is read");
        whole
    })
}

#[test]
fn timestamps_may_be_300_seconds_off_on_both_sides() {
    let at = Unix::from_ms(1_614_265_330_000);
    let ms = Duration::from_millis;
    let ts = "1614265330";
    for now in [at, at - ms(300_000), at + ms(300_000)] {
        assert_eq!(slack(ts, now), Ok(()), "{now:?}");
    }
    let off = |now| slack(ts, now).expect_err("off");
    let ahead = off(at - ms(301_000));
    assert_eq!(ahead.seconds_off, Some(301));
    let behind = off(at + ms(3_812_000));
    assert_eq!(behind.seconds_off, Some(-3_812));
    assert_eq!(
        behind.message,
        "the timestamp is 3,812 s behind this machine's clock, and the limit is 300 s; check the clock"
    );
    // Half a second too much is too much, and shown as more than is allowed.
    assert_eq!(off(at + ms(300_500)).seconds_off, Some(-301));
    assert_eq!(off(Unix::MIN).because, Because::Timestamp);
}

#[test]
fn timestamps_are_digits_and_signed_as_text() {
    let now = Unix::from_ms(1_614_265_330_000);
    assert_eq!(slack("0001614265330", now), Ok(()));
    let wrong = [
        "+1614265330",
        "-1614265330",
        " 1614265330",
        "1614265330.0",
        "1e9",
        "١",
        "timestamp",
    ];
    for wrong in wrong {
        refused(
            slack(wrong, now),
            Because::Timestamp,
            "not Unix seconds in digits",
        );
    }
    let long = "0".repeat(20) + "1614265330";
    assert!(slack(&long, now).is_err());
    refused(slack("", now), Because::Header, "empty");
}

#[test]
fn a_tolerance_of_zero_checks_no_clock_but_the_form() {
    let options = Options {
        tolerance_seconds: Some(0),
        ..Options::of("zoom")
    };
    let check = |ts: &str| {
        let signature = format!("v0={}", signed_hex(SECRET, &format!("v0:{ts}:{{}}")));
        let headers = [
            ("x-zm-request-timestamp", ts),
            ("x-zm-signature", signature.as_str()),
        ];
        with_post(&headers, "{}", |delivery| {
            verifier_of(&options, SECRET, None).check(delivery)
        })
    };
    assert_eq!(check("1"), Ok(()));
    assert!(check("+1").is_err());
}

#[test]
fn times_of_rfc_3339_are_signed_as_text() {
    let check = |ts: &str| {
        let signature = format!("sha256={}", signed_hex(SECRET, &format!("id-1{ts}{{}}")));
        let headers = [
            ("Twitch-Eventsub-Message-Id", "id-1"),
            ("Twitch-Eventsub-Message-Timestamp", ts),
            ("Twitch-Eventsub-Message-Signature", signature.as_str()),
        ];
        with_post(&headers, "{}", |delivery| {
            verifier("twitch").check(delivery)
        })
    };
    // 2027-01-15T08:00:00Z is MOMENT.
    assert_eq!(MOMENT.ms(), 1_800_000_000_000);
    assert_eq!(check("2027-01-15T08:00:00.123456789Z"), Ok(()));
    assert_eq!(check("2027-01-15T08:10:00Z"), Ok(()));
    refused(
        check("2027-01-15T08:10:01Z"),
        Because::Timestamp,
        "601 s ahead",
    );
    refused(check("1800000000"), Because::Timestamp, "RFC 3339");
}

#[test]
fn the_time_in_a_body_is_checked_if_the_settings_ask_for_it() {
    let options = Options {
        tolerance_seconds: Some(60),
        ..Options::of("linear")
    };
    let check = |body: &str| {
        let signature = signed_hex(SECRET, body);
        with_post(&[("Linear-Signature", &signature)], body, |delivery| {
            assert_eq!(
                verifier("linear").check(delivery),
                Ok(()),
                "no clock by default"
            );
            verifier_of(&options, SECRET, None).check(delivery)
        })
    };
    assert_eq!(check(r#"{"webhookTimestamp":1800000060000}"#), Ok(()));
    refused(
        check(r#"{"webhookTimestamp":1799999939000}"#),
        Because::Timestamp,
        "61 s behind",
    );
    refused(check("{}"), Because::Timestamp, "webhookTimestamp");
    refused(check("no JSON"), Because::Timestamp, "webhookTimestamp");
}
