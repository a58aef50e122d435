//! Deliveries that somebody has seen, sent again in another guise: with another id, event, content type or case.
//!
//! **Invariant**: whatever is sent again removes nothing, for every preset.

use std::collections::BTreeMap;

use reqwest::Method;
use webhook::presets;

use super::sender::{PUBLIC, Sender, Sent};
use crate::app::TestApp;
use crate::setup::Setup;

const CONTENT_TYPE: &str = "Content-Type";
/// Neither an id nor a time is signed: on, off, on are the same bytes in earnest, and are stored each time.
const STORED_AGAIN: [&str; 33] = [
    "adyen",
    "airtable",
    "asana",
    "bitbucket",
    "calcom",
    "clickup",
    "docusign",
    "dropbox",
    "figma",
    "gitlab",
    "graph",
    "heroku",
    "hmac",
    "intuit",
    "jira",
    "lemonsqueezy",
    "mandrill",
    "meta",
    "mollie",
    "okta",
    "pagerduty",
    "pandadoc",
    "patreon",
    "paystack",
    "pusher",
    "razorpay",
    "sentry",
    "storyblok",
    "token",
    "twilio",
    "webex",
    "wise",
    "x",
];

/// The same with another value of these headers.
fn with_other(sent: &Sent, names: &[&str], value: &str) -> Sent {
    let mut other = sent.clone();
    for (name, own) in &mut other.headers {
        if names.contains(&&**name) {
            value.clone_into(own);
        }
    }
    other
}

/// What somebody makes of a delivery without its secret, and how that is called.
fn guises(sender: &Sender, sent: &Sent, free: &[&str]) -> Vec<(String, Sent)> {
    let mut guises = vec![("the same".to_owned(), sent.clone())];
    for event in &sender.preset.removals {
        guises.push((format!("the event {event}"), with_other(sent, free, event)));
    }
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
    ] {
        guises.push((kind.to_owned(), with_other(sent, &[CONTENT_TYPE], kind)));
    }
    let mut loud = sent.clone();
    for (name, _) in &mut loud.headers {
        *name = name.to_uppercase();
    }
    guises.push(("loud headers".to_owned(), loud));
    guises
}

async fn effects(app: &TestApp, name: &str) -> (usize, usize) {
    app.drain().await;
    let log = app.admin().log(name, "").await;
    let count = |status: &str| log.iter().filter(|entry| entry["status"] == status).count();
    (count("processed"), count("removed"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_was_seen_removes_nothing_and_counts_once() {
    let senders: Vec<Sender> = (presets().into_iter()).filter_map(Sender::of).collect();
    assert!(senders.len() > 80, "{}", senders.len());
    let setup = Setup::new().unlimited().set("server.public_url", PUBLIC);
    let setup = (senders.iter()).fold(setup, |setup, sender| sender.with(setup));
    let app = setup.start().await;
    let (mut wrong, mut again) = (Vec::new(), BTreeMap::new());
    for sender in &senders {
        let (name, sent) = (sender.name, sender.signed(sender.sample(), "the-first"));
        let reply = sender.send(&app, Method::POST, &sent).await;
        if reply.status != sender.preset.answer.status {
            wrong.push(format!("{name}: {} {}", reply.status, reply.text()));
            continue;
        }
        let first = effects(&app, name).await;
        let mut last = first;
        let mut free = Vec::new();
        for (header, _) in sent.headers.iter().filter(|(name, _)| name != CONTENT_TYPE) {
            let other = with_other(&sent, &[header.as_str()], "another-one");
            if sender.send(&app, Method::POST, &other).await.status != 401 {
                free.push(header.as_str());
            }
        }
        let guises = guises(sender, &sent, &free);
        let mut look = async |guise: &str| {
            let now = effects(&app, name).await;
            if now.1 != first.1 {
                wrong.push(format!("{name}: {guise} removes"));
            }
            if now.0 != last.0 {
                again.entry(name).or_insert_with(|| guise.to_owned());
            }
            last = now;
        };
        look(&format!("another of {free:?}")).await;
        for (guise, sent) in guises {
            sender.send(&app, Method::POST, &sent).await;
            look(&guise).await;
        }
    }
    assert_eq!(wrong, [""; 0]);
    let names: Vec<&str> = again.keys().copied().collect();
    assert_eq!(names, STORED_AGAIN, "{again:?}");
}
