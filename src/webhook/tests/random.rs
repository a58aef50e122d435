//! Random bytes in every place: nothing panics, and nothing passes.

use super::{MOMENT, verifier};
use crate::handshake::{of_keyed, to_do};
use crate::{Delivery, Headers, Verifier, presets};
use base::clock::Unix;

const ROUNDS: usize = 400;

/// Numerical Recipes' linear congruential generator: the same numbers each time.
pub(super) struct Random(pub(super) u32);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % below
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.below(80);
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// Bytes, or pieces of what is understood put together at random.
    pub(super) fn value(&mut self) -> Vec<u8> {
        const PIECES: [&str; 36] = [
            "v1=",
            "v1,",
            "t=",
            "ts=",
            "h1=",
            "v0=",
            "sha256=",
            "sha1=",
            ",",
            ";",
            " ",
            "00",
            "zz",
            "AAAA",
            "=",
            "1800000000",
            "2027-01-15T08:00:00Z",
            "+",
            "é",
            "%3A",
            "%",
            "{",
            "}",
            "[",
            "\"type\":\"url_verification\"",
            "\"event\":\"endpoint.url_validation\"",
            "\"value\":",
            "\"signature\":{\"timestamp\":\"1\"",
            "{\"type\":0}",
            ":",
            "null",
            "\"a\"",
            "Bearer ",
            ".",
            "eyJhbGciOiJSUzI1NiJ9",
            "{\"Type\":\"SubscriptionConfirmation\",\"SubscribeURL\":",
        ];
        if self.below(3) == 0 {
            return self.bytes();
        }
        let count = self.below(12);
        (0..count)
            .flat_map(|_| PIECES[self.below(PIECES.len())].bytes())
            .collect()
    }
}

#[test]
fn random_requests_neither_panic_nor_pass() {
    let mut random = Random(1);
    for preset in presets().iter().filter(|preset| preset.signed()) {
        let verifier = verifier(&preset.name);
        for _ in 0..ROUNDS {
            one(&mut random, &verifier);
        }
    }
}

fn one(random: &mut Random, verifier: &Verifier) {
    const NAMES: [&str; 34] = [
        "webhook-signature",
        "webhook-timestamp",
        "webhook-id",
        "svix-id",
        "stripe-signature",
        "x-hub-signature-256",
        "x-hub-signature",
        "x-slack-signature",
        "x-slack-request-timestamp",
        "x-twilio-signature",
        "x-signature-ed25519",
        "x-signature-timestamp",
        "paddle-signature",
        "x-hubspot-signature-v3",
        "x-hubspot-request-timestamp",
        "x-zm-signature",
        "x-signature",
        "x-zm-request-timestamp",
        "x-twilio-email-event-webhook-signature",
        "linear-signature",
        "x-twilio-email-event-webhook-timestamp",
        "twitch-eventsub-message-signature",
        "twitch-eventsub-message-timestamp",
        "twitch-eventsub-message-id",
        "content-type",
        "twitch-eventsub-message-type",
        "aeg-event-type",
        "x-amz-sns-message-type",
        "webhook-request-origin",
        "x-gitlab-token",
        "authorization",
        "paypal-transmission-id",
        "paypal-transmission-time",
        "paypal-cert-url",
    ];
    let verify = verifier.preset().verify.as_ref().expect("it signs");
    let own = verify
        .signature
        .first()
        .and_then(|place| place.header())
        .unwrap_or("x-own");
    let mut values: Vec<(&str, Vec<u8>)> = vec![(own, random.value())];
    for _ in 0..random.below(10) {
        let value = match random.below(3) {
            0 => b"1800000000".to_vec(),
            1 => b"application/x-www-form-urlencoded".to_vec(),
            _ => random.value(),
        };
        values.push((NAMES[random.below(NAMES.len())], value));
    }
    let headers: Vec<(&str, &[u8])> = values
        .iter()
        .map(|(name, value)| (*name, value.as_slice()))
        .collect();
    let body = random.value();
    let query = String::from_utf8_lossy(&random.value()).into_owned();
    let urls = [
        "https://x.example:1/a",
        "",
        "://",
        "https://@:/",
        "https://x?crc_token=",
        "x%",
    ];
    let url = format!("{}{query}", urls[random.below(urls.len())]);
    for method in ["POST", "GET", "HEAD", "OPTIONS", ""] {
        let delivery = Delivery {
            method,
            url: &url,
            headers: Headers(&headers),
            body: &body,
            now: if random.below(9) == 0 {
                Unix::MAX
            } else {
                MOMENT
            },
        };
        let name = &verifier.preset().name;
        assert!(verifier.check(&delivery).is_err(), "{name}: {delivery:?}");
        let _ = verifier.check_head(delivery.headers, delivery.now);
        let _ = verifier.handshake(&delivery);
        let _ = (of_keyed(None, &delivery), to_do(&delivery));
        for source in [verifier.id(), verifier.event()].into_iter().flatten() {
            let _ = source.find(delivery.headers, delivery.url, |path| delivery.field(path));
        }
    }
}
