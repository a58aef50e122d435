//! Tools that sign what they send, or are given a URL and nothing else.
//!
//! Signatures are made here, by the published schemes, and not by the program.

mod bodies; // forms, lines, compressed ones, and what is too large
mod certificates; // Amazon SNS, PayPal, Google Pub/Sub: keys of their own, and what is set of them here
mod large; // deliveries that are nested, many or long beyond what a tool sends
mod late; // deliveries that come late, twice, or not any more
mod own_secret; // tools that make the secret themselves, and send it
mod refused; // who is not let in, and where it is told why
mod replayed; // deliveries that somebody has seen, in another guise
mod run_time; // signing keys that are made at run time, and where their secrets are not
mod sdks; // what providers' own SDKs sign and accept
mod sender; // a provider that is played by its preset
mod vectors; // the deliveries of real tools, as they were published and signed anew
mod ways; // keys in a header, as a password, in a URL; signatures

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;

use crate::app::{Caller, Reply, TestApp};
use crate::setup::Setup;
use base::clock::Unix;

/// A secret of any tool that takes one as text.
const SECRET: &str = "a-secret-of-the-tests";
/// Another one.
const OTHER: &str = "another-secret-of-the-tests";

fn mac(secret: &str, message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, message).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_seconds() -> u64 {
    Unix::now().seconds()
}

/// What GitHub sends.
struct GitHub<'a> {
    secret: &'a str,
    delivery: &'a str,
    event: &'a str,
}

impl GitHub<'_> {
    async fn send(&self, to: &Caller, path: &str, content_type: &str, body: &[u8]) -> Reply {
        let signature = format!("sha256={}", hex(&mac(self.secret, body)));
        let headers = [
            ("Content-Type", content_type),
            ("X-Hub-Signature-256", &*signature),
            ("X-GitHub-Delivery", self.delivery),
            ("X-GitHub-Event", self.event),
        ];
        to.post(path, &headers, body).await
    }
}

/// What Shopify sends.
struct Shopify<'a> {
    delivery: &'a str,
    topic: &'a str,
}

impl Shopify<'_> {
    async fn send(&self, to: &Caller, path: &str, body: &str) -> Reply {
        let signature = BASE64.encode(mac(SECRET, body.as_bytes()));
        let headers = [
            ("X-Shopify-Hmac-Sha256", &*signature),
            ("X-Shopify-Webhook-Id", self.delivery),
            ("X-Shopify-Topic", self.topic),
        ];
        to.post(path, &headers, body).await
    }
}

/// What Slack sends.
async fn slack(to: &Caller, path: &str, body: &str) -> Reply {
    let seconds = now_seconds().to_string();
    let signed = format!("v0:{seconds}:{body}");
    let signature = format!("v0={}", hex(&mac(SECRET, signed.as_bytes())));
    let headers = [
        ("X-Slack-Signature", &*signature),
        ("X-Slack-Request-Timestamp", &*seconds),
    ];
    to.post(path, &headers, body).await
}

/// A stream and a connector of this name whose key `main` verifies by the scheme.
fn verifying(setup: Setup, name: &str, scheme: &str) -> Setup {
    let settings = format!("verify = {{ scheme = \"{scheme}\", secret = \"{SECRET}\" }}");
    setup
        .stream(name)
        .signing_key(name, "main", name, &settings)
}

/// A daemon with one such connector, whose requests are not counted.
async fn daemon(name: &str, scheme: &str) -> TestApp {
    verifying(Setup::new().unlimited(), name, scheme)
        .start()
        .await
}

/// The address of a connector of this name in the stream of this name.
fn address(name: &str) -> String {
    format!("/api/webhook/{name}/{name}")
}
