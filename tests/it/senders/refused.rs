//! Who is not let in, and where it is told why.

use super::{GitHub, OTHER, SECRET, address, daemon, hex, mac};
use crate::setup::Setup;

async fn reasons(app: &crate::app::TestApp, connector: &str) -> Vec<String> {
    app.drain().await;
    let log = app.admin().log(connector, "status=rejected").await;
    let reason =
        |entry: &serde_json::Value| entry["errors"][0].as_str().expect("a reason").to_owned();
    log.iter().map(reason).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stranger_hears_one_answer_and_the_log_the_reason() {
    let app = daemon("repo", "github").await;
    let (anyone, path) = (app.anonymous(), address("repo"));
    let body = br#"{"n": 1}"#;
    let good = hex(&mac(SECRET, body));
    let upper = format!("sha256={}", good.to_uppercase());
    let headers = [
        ("X-Hub-Signature-256", &*upper),
        ("X-GitHub-Delivery", "d-0"),
    ];
    anyone.post(&path, &headers, body).await.receipt();
    let wrong = hex(&mac(OTHER, body));
    let signed = |signature: String| vec![("X-Hub-Signature-256", signature)];
    let nine = vec![format!("sha256={good}"); 2];
    let cases = [
        (vec![], "the header X-Hub-Signature-256 is missing"),
        (
            signed(format!("sha256={wrong}")),
            "does not match the secret of the key main; body 8 bytes",
        ),
        (
            signed(format!("sha1={}", &good[..40])),
            "has no signature that begins with",
        ),
        (signed(format!("sha256={}", &good[1..])), ""),
        (signed(format!("sha256=zz{}", &good[2..])), ""),
        (signed(good.clone()), ""),
        (
            nine.into_iter()
                .map(|one| ("X-Hub-Signature-256", one))
                .collect(),
            "more than once",
        ),
    ];
    let unknown = anyone.post("/api/webhook/repo/nobody", &[], "{}").await;
    let unknown = unknown.refused(401, "UNAUTHORIZED");
    for (headers, reason) in cases {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let refused = anyone
            .post(&path, &headers, &body[..])
            .await
            .refused(401, "UNAUTHORIZED");
        assert_eq!(refused, unknown, "{reason}");
        // One entry a second.
        let said = crate::wait::eventually_async("the log says why", async || {
            let said = reasons(&app, "repo").await;
            said.iter().any(|one| one.contains(reason)).then_some(said)
        })
        .await;
        for secret in [SECRET, &good, &wrong] {
            assert!(!said.iter().any(|one| one.contains(secret)), "{said:?}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_flood_of_bad_signatures_leaves_the_sender_and_the_log_alone() {
    let app = daemon("repo", "github").await;
    let (anyone, path) = (app.anonymous(), address("repo"));
    let (mut sent, mut refused) = (0, 0);
    for number in 0..60 {
        // Several: a busy machine is to be faster than the limit, too.
        for _ in 0..4 {
            let bad = GitHub {
                secret: OTHER,
                delivery: "bad",
                event: "push",
            };
            let reply = bad.send(&anyone, &path, "application/json", b"{}").await;
            sent += 1;
            match reply.status {
                401 => {}
                429 => refused += 1,
                other => panic!("{other}"),
            }
        }
        let delivery = format!("d-{number}");
        let good = GitHub {
            secret: SECRET,
            delivery: &delivery,
            event: "push",
        };
        let body = format!("{{\"number\": {number}}}");
        good.send(&anyone, &path, "application/json", body.as_bytes())
            .await
            .receipt();
    }
    assert!(refused > 0, "strangers have a limit");
    let told: u64 = crate::wait::eventually_async("all are counted", async || {
        let said = reasons(&app, "repo").await;
        let count = |text: &String| {
            let (_, after) = text.rsplit_once('(').unwrap_or(("", "1 "));
            after
                .split(' ')
                .next()
                .and_then(|count| count.parse::<u64>().ok())
                .unwrap_or(1)
        };
        let told: u64 = said.iter().map(count).sum();
        (told == sent).then_some(said.len() as u64)
    })
    .await;
    assert!(told < sent, "they share entries: {told}");
    assert_eq!(app.fields("repo").await.len(), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_signature_counts_for_the_bytes_as_they_came() {
    let app = daemon("repo", "github").await;
    let (anyone, path) = (app.anonymous(), address("repo"));
    let body = b"{\"n\": 1}\n".to_vec();
    let signature = format!("sha256={}", hex(&mac(SECRET, &body)));
    let headers = [
        ("X-Hub-Signature-256", &*signature),
        ("X-GitHub-Delivery", "d"),
    ];
    for changed in [&b"{\"n\": 2}\n"[..], b"{\"n\": 1}", b"{\"n\":1}\n"] {
        anyone
            .post(&path, &headers, changed)
            .await
            .refused(401, "UNAUTHORIZED");
    }
    anyone.post(&path, &headers, body).await.receipt();
    // Signed, but nothing that can be read: that is another mistake.
    for bad in [&b"\xff\xfe"[..], b"{\"n\":", b"[1]"] {
        let bad_sender = GitHub {
            secret: SECRET,
            delivery: "e",
            event: "push",
        };
        let reply = bad_sender
            .send(&anyone, &path, "application/json", bad)
            .await;
        reply.refused(400, "INVALID_PAYLOAD");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connector_without_verify_is_no_way_in() {
    let app = Setup::shop().start().await;
    let anyone = app.anonymous();
    anyone
        .post("/api/webhook/orders/shop", &[], "{}")
        .await
        .refused(401, "UNAUTHORIZED");
    let said = reasons(&app, "shop").await;
    assert!(said[0].contains("the request carries no key"), "{said:?}");
    // A key of another connector is none of this one.
    let key = app.secret("shop").to_owned();
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", &*bearer)];
    anyone
        .post("/api/webhook/orders/other", &headers, "{}")
        .await
        .refused(401, "UNAUTHORIZED");
    anyone
        .post("/api/webhook/orders/shop", &headers, "{}")
        .await
        .receipt();
}
