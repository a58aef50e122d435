//! Screens: what is known of each while it is there and when it is away, and having one load its page again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{TestApp, Transport};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// What is listed of a screen.
async fn screen(app: &TestApp, name: &str) -> Option<Value> {
    let screens = app.admin().get("/api/admin/screens").await.list();
    screens.into_iter().find(|screen| screen["name"] == name)
}

async fn becomes(app: &TestApp, name: &str, state: &str) -> Value {
    eventually_async(&format!("{name} is {state}"), async || {
        screen(app, name).await.filter(|one| one["state"] == state)
    })
    .await
}

fn setup() -> Setup {
    Setup::screen()
        .set("problems.stream", "_problems")
        .read_key(
            "lobby",
            &["orders"],
            "expect = true\naway_after_seconds = 1\npage = \"/render/orders\"",
        )
        .read_key("hall", &["orders"], "")
}

async fn problems(app: &TestApp) -> String {
    app.admin().get("/api/admin/status").await.data()["problems"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_known_while_it_is_there_when_it_is_away_and_after_a_restart() {
    let app = setup().start().await;
    assert!(screen(&app, "hall").await.is_none(), "nobody used it");
    let never = screen(&app, "lobby").await.expect("it is expected");
    assert_eq!(
        (&never["state"], &never["page"], &never["expect"]),
        (&json!("never"), &json!("/render/orders"), &json!(true))
    );
    eventually_async("it should be there", async || {
        let problems = problems(&app).await;
        problems
            .contains("screen lobby has never connected")
            .then_some(())
    })
    .await;

    let mut here = Vec::new();
    for transport in Transport::ALL {
        let secret = app.read_secret("lobby");
        let mut renderer = crate::app::Renderer::new(&app.service, transport, secret, &["orders"]);
        renderer.asks("screen=left&page=/render/orders%3Fsize%3D2%23rk_live_x&size=1920x1080&v=7");
        renderer.connect().await;
        renderer.snapshots().await;
        here.push(renderer);
    }
    let shown = becomes(&app, "lobby", "here").await;
    assert_eq!(shown["connections"], 2);
    assert_eq!(
        (
            &shown["screen"],
            &shown["shows"],
            &shown["size"],
            &shown["version"]
        ),
        (
            &json!("left"),
            &json!("/render/orders?size=2"),
            &json!("1920x1080"),
            &json!("7")
        )
    );
    assert!(!problems(&app).await.contains("lobby"));
    let metric = "headgate_screen_connected{screen=\"lobby\"}";
    app.admin().counts(metric, 1.0).await;

    // A page that did not say that it is a screen is not told.
    let mut plain = crate::app::Renderer::new(
        &app.service,
        Transport::Sse,
        app.read_secret("lobby"),
        &["orders"],
    );
    plain.connect().await;
    plain.snapshots().await;
    let reload = "/api/admin/screens/lobby/reload";
    let told = app.admin().call(Method::POST, reload).await.data();
    assert_eq!(told, json!({"notified": 2, "told": 2}));
    for renderer in &mut here {
        let control = renderer.until("control", |one| one.kind == "control").await;
        assert_eq!(control.last().expect("a message").json["action"], "reload");
    }
    app.caller("shop").ingest(r#"{"id": 1}"#).await.receipt();
    let next = plain.next().await.expect("a message");
    assert_eq!(next.kind, "update", "{}", next.text);
    drop((here, plain));

    let away = becomes(&app, "lobby", "away").await;
    assert_eq!(away["since"], away["last_seen"]);
    app.admin().counts(metric, 0.0).await;
    eventually_async("it is a problem", async || {
        let problems = problems(&app).await;
        problems
            .contains("screen lobby has been away since")
            .then_some(())
    })
    .await;
    let app = app.restart().await;
    let after = screen(&app, "lobby").await.expect("it is known");
    assert_eq!(
        (&after["state"], &after["shows"], &after["last_seen"]),
        (&json!("away"), &away["shows"], &away["last_seen"])
    );
    let answer = app.admin().call(Method::POST, reload).await.data();
    assert_eq!(answer, json!({"notified": 0, "told": 0}));
    let nowhere = "/api/admin/screens/hall/reload";
    app.admin()
        .call(Method::POST, nowhere)
        .await
        .refused(404, "READ_KEY_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_count_and_a_refused_key_is_told() {
    let app = setup().start().await;
    let hall = app.reader("hall");
    hall.get("/feed/orders.csv").await;
    let polling = becomes(&app, "hall", "polling").await;
    assert_eq!(polling["shows"], "/feed/orders.csv");
    assert_eq!(polling["connections"], 0);

    let made = json!({"name": "wall", "streams": ["orders"]});
    let made = app.admin().make("/api/admin/read-keys", made).await;
    let secret = made["secret"].as_str().expect("a key").to_owned();
    let mut wall = crate::app::Renderer::new(&app.service, Transport::Sse, &secret, &["orders"]);
    wall.asks("screen=wall");
    wall.connect().await;
    becomes(&app, "wall", "here").await;
    let revoke = "/api/admin/read-keys/wall/revoke";
    app.admin().call(Method::POST, revoke).await.data();
    wall.rest().await;
    assert!(wall.try_connect(None).await.is_err());
    let refused = becomes(&app, "wall", "refused").await;
    assert_eq!(refused["reason"], "the read key is revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_screen_says_of_itself_has_a_form() {
    let app = setup().start().await;
    let lobby = app.reader("lobby");
    for query in [
        &format!("screen={}", "x".repeat(65)),
        "screen=a%07",
        &format!("screen=a&page={}", "x".repeat(501)),
        "screne=a",
    ] {
        let answer = lobby.get(&format!("/api/live?{query}")).await;
        answer.refused(400, "INVALID_REQUEST");
    }
}
