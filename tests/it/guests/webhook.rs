//! The built-in sink that sends Standard Webhooks; `openssl` says whether a signature is right.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::http::{LOOPBACK, ONCE};
use super::nobody_else_suffers;
use crate::process::{BY_ID, skipped};
use crate::program::{RUN_MAX, output, output_within};
use crate::receiver::{Receiver, Seen, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// `whsec_` and the base64 of a key, and the key in hexadecimal digits.
const NEW: (&str, &str) = (
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
);
const OLD: (&str, &str) = (
    "whsec_//79/Pv6+fj39vX08/Lx8O/u7ezr6uno",
    "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8",
);
const QUICK: &str = "retry = { first_ms = 10, max_ms = 40, attempts = 5 }\n";

/// A daemon whose stream `hostile` goes to the receiver.
fn sending(url: &str, config: &str, more: &str) -> Setup {
    let (host, _) = url.rsplit_once('/').expect("a path");
    let more = format!(
        "{more}config = {{ url = {url:?}{config} }}\nhttp = {{ hosts = [{host:?}], {LOOPBACK} }}\n"
    );
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "webhook", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

fn secrets(secrets: &[(&str, &str)]) -> String {
    let list: Vec<_> = secrets
        .iter()
        .map(|(name, secret)| format!("{name} = {secret:?}"))
        .collect();
    format!("secrets = {{ {} }}\n", list.join(", "))
}

/// What `openssl` makes of some bytes.
fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    let output = output_within(RUN_MAX, command.args(arguments), input);
    output.expect("openssl starts").stdout
}

/// The signatures that a request should have, one for each key.
fn expected(seen: &Seen, keys: &[&str]) -> String {
    let header = |name| seen.header(name).expect("it is there");
    let signed = format!(
        "{}.{}.{}",
        header("webhook-id"),
        header("webhook-timestamp"),
        seen.body
    );
    let signatures = keys.iter().map(|key| {
        let key = format!("hexkey:{key}");
        let arguments = [
            "dgst", "-sha256", "-mac", "HMAC", "-macopt", &key, "-binary",
        ];
        let mac = openssl(&arguments, signed.as_bytes());
        let base64 = openssl(&["base64", "-A"], &mac);
        format!("v1,{}", String::from_utf8(base64).expect("text"))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

fn no_openssl(test: &str) -> bool {
    let missing = output(Command::new("openssl").arg("version")).is_err();
    if missing {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test}: openssl is missing"
        );
        skipped(test, "there is no openssl");
    }
    missing
}

#[test]
fn each_item_is_signed_so_that_others_can_verify_it() {
    if no_openssl("each_item_is_signed") {
        return;
    }
    let receiver = Receiver::content();
    for (config, granted, keys) in [
        ("", vec![("signing", NEW.0)], vec![NEW.1]),
        (
            ", per = \"batch\", type = \"order.paid\"",
            vec![("signing", NEW.0), ("signing_old", OLD.0)],
            vec![NEW.1, OLD.1],
        ),
    ] {
        let before = receiver.seen().len();
        let folder = sending(
            &receiver.url("/hooks"),
            config,
            &format!("{ONCE}{}", secrets(&granted)),
        );
        let process = folder.spawn();
        let body = r#"[{"id": "é", "n": 1.50}, {"id": "b"}]"#;
        let id = process.processed("hostile", BY_ID, body);
        let seen = receiver.seen().split_off(before);
        for seen in &seen {
            assert_eq!(seen.header("content-type"), Some("application/json"));
            assert_eq!(
                seen.header("webhook-signature"),
                Some(expected(seen, &keys).as_str())
            );
            let sent = seen
                .header("webhook-timestamp")
                .expect("a time")
                .parse::<u64>();
            let now = std::fs::metadata(folder.path("headgate.toml")).expect("a file");
            let now = now
                .modified()
                .expect("a time")
                .duration_since(std::time::UNIX_EPOCH);
            let age = sent
                .expect("seconds")
                .abs_diff(now.expect("after 1970").as_secs());
            assert!(age < 60, "{age}");
        }
        let payloads: Vec<Value> = seen.iter().map(Seen::json).collect();
        match &payloads[..] {
            [first, second] => {
                assert_eq!(first["type"], "item.received");
                assert_eq!(first["timestamp"], first["data"]["received_at"]);
                assert_eq!(first["data"]["fields"], json!({"id": "é", "n": 1.5}));
                assert!(seen[0].body.contains("1.50"), "{}", seen[0].body);
                assert_eq!(second["data"]["key"], "b");
                let ids = seen.iter().map(|seen| seen.header("webhook-id"));
                let expected = [format!("{id}.0"), format!("{id}.1")];
                assert!(ids.eq(expected.iter().map(|id| Some(id.as_str()))));
            }
            [both] => {
                assert_eq!(both["type"], "order.paid");
                assert_eq!(both["timestamp"], both["data"][1]["received_at"]);
                assert_eq!(both["data"][1]["fields"], json!({"id": "b"}));
            }
            _ => panic!("{payloads:?}"),
        }
        for (_, secret) in granted {
            assert!(!process.log().contains(secret));
            assert!(
                !process
                    .admin("/api/admin/sinks")
                    .to_string()
                    .contains(secret)
            );
        }
        nobody_else_suffers(process);
    }
}

#[test]
fn an_item_has_one_webhook_id_in_all_attempts_and_lives() {
    let receiver = Receiver::start(|_, before| match before {
        // The second item fails, then everything for a while, in which the daemon is killed.
        0 => answer(200, "", ""),
        1..4 => answer(429, "retry-after: 0\r\n", "slowly"),
        4..8 => answer(500, "", ""),
        _ => answer(204, "", ""),
    });
    let retries = "retry = { first_ms = 10, max_ms = 100, attempts = 1000 }\n";
    let more = format!("{retries}{}", secrets(&[("signing", NEW.0)]));
    let folder = sending(&receiver.url("/"), "", &more);
    let process = folder.spawn();
    let first = process.accepted("hostile", "", r#"[{"n": 0}, {"n": 1}, {"n": 2}]"#);
    let second = process.accepted("hostile", "", r#"{"n": 3}"#);
    eventually("some attempts", || {
        (receiver.seen().len() > 5).then_some(())
    });
    process.kill();
    let process = folder.spawn();
    process.request_becomes(&first, "processed");
    process.request_becomes(&second, "processed");
    let sent: BTreeSet<(u64, String)> = receiver
        .seen()
        .iter()
        .map(|seen| {
            let n = seen.json()["data"]["fields"]["n"]
                .as_u64()
                .expect("a number");
            (n, seen.header("webhook-id").expect("an id").to_owned())
        })
        .collect();
    let expected = [
        (0, &first, 0),
        (1, &first, 1),
        (2, &first, 2),
        (3, &second, 0),
    ];
    let expected = expected.map(|(n, request, position)| (n, format!("{request}.{position}")));
    assert_eq!(sent, BTreeSet::from(expected));
    assert!(receiver.seen().len() > 8);
    nobody_else_suffers(process);
}

#[test]
fn who_is_gone_gets_nothing_more_of_a_batch() {
    let receiver = Receiver::start(|_, before| match before {
        0 => answer(200, "", ""),
        _ => answer(410, "", "bye"),
    });
    let process = sending(
        &receiver.url("/"),
        "",
        &format!("{QUICK}{}", secrets(&[("signing", NEW.0)])),
    )
    .spawn();
    process.failed("hostile", "", r#"[{"n": 0}, {"n": 1}, {"n": 2}]"#);
    assert_eq!(receiver.seen().len(), 2);
    let letters = process.dead_letters("hostile");
    let positions: BTreeSet<_> = letters
        .iter()
        .map(|letter| letter["position"].as_u64())
        .collect();
    assert_eq!(positions, BTreeSet::from([Some(1), Some(2)]));
    for letter in letters {
        let reason = letter["reason"].as_str().expect("text");
        assert_eq!(reason, "answered 410: bye (the receiver wants no more)");
    }
    nobody_else_suffers(process);
}

#[test]
fn an_item_that_is_never_taken_keeps_no_other_back() {
    let receiver = Receiver::start(|request, _| match request.body.contains("\"n\":1}") {
        true => answer(422, "", "no"),
        false => answer(200, "", ""),
    });
    let process = sending(
        &receiver.url("/"),
        "",
        &format!("{QUICK}{}", secrets(&[("signing", NEW.0)])),
    )
    .spawn();
    process.failed("hostile", "", r#"[{"n": 0}, {"n": 1}, {"n": 2}]"#);
    process.drained();
    let letter = process.dead_letter("hostile");
    assert_eq!(
        (&letter["position"], &letter["reason"]),
        (&json!(1), &json!("answered 422: no"))
    );
    assert!(
        receiver
            .seen()
            .iter()
            .any(|seen| seen.body.contains("\"n\":2}"))
    );
    nobody_else_suffers(process);
}

#[test]
fn secrets_that_cannot_sign_pause_the_sink_and_are_not_shown() {
    let receiver = Receiver::content();
    for (granted, words) in [
        (String::new(), "there is no secret to sign with"),
        (
            secrets(&[("signing", "canary-without-a-prefix-0123456789")]),
            "the secret signing wants whsec_",
        ),
        (
            secrets(&[("signing", NEW.0), ("signing_old", "whsec_Y2FuYXJ5")]),
            "the secret signing_old wants whsec_",
        ),
    ] {
        let process = sending(&receiver.url("/"), "", &format!("{ONCE}{granted}")).spawn();
        process.accepted("hostile", "", r#"{"n": 0}"#);
        let sink = process.sink_becomes("hostile", &format!("paused with {words:?}"), |sink| {
            sink["state"] == "paused" && sink["reason"].to_string().contains(words)
        });
        for seen in [sink.to_string(), process.log()] {
            assert!(
                !seen.contains("canary") && !seen.contains("Y2FuYXJ5"),
                "{seen}"
            );
        }
        nobody_else_suffers(process);
    }
    assert!(receiver.seen().is_empty());
}

#[test]
fn removals_have_a_type_of_their_own() {
    let receiver = Receiver::content();
    let more = secrets(&[("signing", NEW.0)]);
    for (config, expected) in [
        ("", Some("item.removed")),
        (", removed_type = \"order.gone\"", Some("order.gone")),
        (", removals = false", None),
    ] {
        let before = receiver.seen().len();
        let process = sending(&receiver.url("/in"), config, &format!("{ONCE}{more}")).spawn();
        let id = process.removed("hostile", "7");
        process.drained();
        let seen = receiver.seen().split_off(before);
        let bodies: Vec<Value> = seen.iter().map(Seen::json).collect();
        match expected {
            Some(kind) => {
                assert_eq!(bodies[0]["type"], kind, "{bodies:?}");
                let data = &bodies[0]["data"];
                assert_eq!(
                    (&data["key"], &data["removed"]),
                    (&json!("7"), &json!(true))
                );
                let header = seen[0].header("webhook-id");
                assert_eq!(header, Some(&*format!("{id}.0")));
            }
            None => assert!(bodies.is_empty(), "{bodies:?}"),
        }
        nobody_else_suffers(process);
    }
}
