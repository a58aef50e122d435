//! Who may have a feed, and how often.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::json;

use super::{feed, scores, send};
use crate::setup::Setup;
use crate::wait::eventually_async;

fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_key_comes_by_bearer_by_basic_or_in_a_url_that_may_have_it() {
    let app = scores()
        .read_key("private", &["scores"], "")
        .stream("other")
        .start()
        .await;
    send(&app, r#"{"id": "m1"}"#).await;
    let expected = feed(&app, "scores.csv").await.body;
    let anyone = app.anonymous();
    let get = async |query: &str, authorization: Option<&str>| {
        let headers: Vec<(&str, &str)> = authorization
            .map(|text| ("Authorization", text))
            .into_iter()
            .collect();
        anyone
            .call(
                Method::GET,
                &format!("/feed/scores.csv{query}"),
                &headers,
                "",
            )
            .await
    };
    let (screen, private) = (app.read_secret("screen"), app.read_secret("private"));
    for (query, authorization) in [
        (String::new(), Some(format!("Bearer {private}"))),
        (String::new(), Some(basic("", private))),
        (
            String::new(),
            Some(basic("xibo", screen).replace("Basic", "basic")),
        ),
        (format!("?token={screen}"), None),
    ] {
        let reply = get(&query, authorization.as_deref()).await;
        assert_eq!(reply.status, 200, "{authorization:?}");
        assert_eq!(reply.body, expected);
    }
    let desk = app.secret("desk");
    for (query, authorization) in [
        (String::new(), None),
        (format!("?token={private}"), None),
        ("?token=rk_live_nobody_has_this_key_0".to_owned(), None),
        (String::new(), Some(basic("x", desk))),
        (String::new(), Some(format!("Bearer {desk}"))),
        (String::new(), Some("Basic !!!".to_owned())),
        // A wrong header is not made good by the URL.
        (format!("?token={screen}"), Some(basic("x", "wrong"))),
    ] {
        let reply = get(&query, authorization.as_deref()).await;
        reply.refused(401, "UNAUTHORIZED");
        let asked: Vec<&str> = (reply.headers.get_all("www-authenticate").iter())
            .map(|value| value.to_str().expect("text"))
            .collect();
        assert_eq!(
            asked,
            ["Bearer", "Basic realm=\"headgate\", charset=\"UTF-8\""]
        );
    }
    // Elsewhere browsers must not be asked for a password.
    let items = anyone.get("/api/streams/scores/items").await;
    items.refused(401, "UNAUTHORIZED");
    assert_eq!(items.headers.get_all("www-authenticate").iter().count(), 1);
    assert_eq!(items.header("www-authenticate"), Some("Bearer"));
    let basic_elsewhere = [("Authorization", &*basic("x", private))];
    let items = anyone
        .call(
            Method::GET,
            "/api/streams/scores/items",
            &basic_elsewhere,
            "",
        )
        .await;
    items.refused(401, "UNAUTHORIZED");
    for path in ["/feed/other.csv", "/feed/none.csv"] {
        app.reader("screen")
            .get(path)
            .await
            .refused(404, "STREAM_NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_polls_too_often_waits_and_the_others_do_not() {
    let app = Setup::screen()
        .read_key("slow", &["orders"], "requests_per_second = 1")
        .start()
        .await;
    let slow = app.reader("slow");
    assert_eq!(slow.get("/feed/orders.csv").await.status, 200);
    let refused = eventually_async("one comes too soon", async || {
        let reply = slow.get("/feed/orders.csv").await;
        (reply.status == 429).then_some(reply)
    });
    let refused = refused.await;
    let told = refused.refused(429, "RATE_LIMITED").message;
    assert!(told.contains("requests_per_second"), "{told}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(
        app.reader("screen").get("/feed/orders.csv").await.status,
        200
    );
    // Other reading is not counted.
    assert_eq!(slow.get("/api/streams/orders/items").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_rate_of_a_read_key_is_set_at_run_time() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    let path = "/api/admin/read-keys";
    let made = json!({"name": "lobby", "streams": ["orders"], "requests_per_second": 7});
    let made = admin.make(path, made).await;
    assert_eq!(made["key"]["requests_per_second"], 7);
    let lobby = format!("{path}/lobby");
    for (rate, expected) in [(json!(9), json!(9)), (json!(null), json!(null))] {
        let body = json!({"requests_per_second": rate});
        let changed = admin.send(Method::PATCH, &lobby, &body).await.data();
        assert_eq!(changed["requests_per_second"], expected);
    }
    let body = json!({"requests_per_second": 0});
    let refusal = admin.send(Method::PATCH, &lobby, &body).await;
    refusal.refused(400, "INVALID_REQUEST");
    let body = json!({"requests_per_second": 3});
    admin.send(Method::PATCH, &lobby, &body).await.data();
    // It is in the file.
    let app = app.restart().await;
    let listed = app.admin().get(&lobby).await.data();
    assert_eq!(listed["requests_per_second"], 3);
}
