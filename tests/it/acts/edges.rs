//! What the cases do not have: limits, sinks, feeds, roles, operate keys, the audit log, kills.

use reqwest::Method;
use serde_json::{Value, json};

use super::{act, acts, done, one_stream, operator, scores, token, with_operators};
use crate::app::{Caller, TestApp};
use crate::process::{BY_ID, Client, Process};
use crate::setup::Setup;

const BASE: &str = "/api/admin/streams/scores";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_shown_is_in_items_feeds_and_views_and_not_in_what_is_stored() {
    let app = scores().await;
    let reader = app.reader("screen");
    let feed = async || {
        reader
            .get("/feed/scores.json?fields=home.score")
            .await
            .text()
    };
    assert!(
        feed().await.contains("\"home_score\":2"),
        "{}",
        feed().await
    );
    let tag = |reply: &crate::app::Reply| reply.header("etag").expect("a tag").to_owned();
    let before = reader.get("/api/streams/scores/items").await;
    done(
        &acts(
            &app,
            "anna",
            "override",
            json!({"key": "m1", "fields": {"home": {"score": 3}}}),
        )
        .await,
    );
    let after = reader.get("/api/streams/scores/items").await;
    assert_ne!(tag(&before), tag(&after));
    assert_eq!(after.list()[0]["overridden"], json!(["home.score"]));
    assert!(!after.text().contains("anna"));
    crate::wait::eventually_async("the feed has it", async || {
        feed().await.contains("\"home_score\":3").then_some(())
    })
    .await;
    let of = |view: &str| {
        let sql = format!("SELECT \"home.score\" FROM {view}");
        app.pool()
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .expect("a view")
    };
    assert_eq!((of("stream_scores"), of("shown_scores")), (2, 3));
    // What waits behind a hold alters no tag.
    done(&acts(&app, "anna", "hold", json!({})).await);
    let held = reader.get("/api/streams/scores/items").await;
    app.caller("scores")
        .ingest_by(
            "id",
            r#"[{"id": "m1", "home": {"score": 9}}, {"id": "m2"}]"#,
        )
        .await
        .receipt();
    app.drain().await;
    let waits = reader.get("/api/streams/scores/items").await;
    assert_eq!((tag(&held), held.text()), (tag(&waits), waits.text()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bodies_that_cannot_be_used_change_nothing() {
    let app = scores().await;
    let anna = operator(&app, "anna");
    for (verb, body) in [
        ("hold", "[]"),
        ("hold", r#"{"keys":null}"#),
        ("hold", r#"{"until":-1}"#),
        ("release", ""),
        ("override", ""),
        (
            "override",
            r#"{"key":"m1","fields":{"name":"B"},"untill":3}"#,
        ),
        ("add", r#"{"key":"m1","field":"home.score","by":0}"#),
        ("PUT m1", "[1]"),
        ("PUT m1", ""),
    ] {
        let refused = act(&anna, BASE, (verb, body), None).await;
        refused.refused(400, "INVALID_PAYLOAD");
    }
    let as_form = anna
        .call(Method::POST, &format!("{BASE}/hold"), &[], "{}")
        .await;
    as_form.refused(400, "INVALID_PAYLOAD");
    let large = format!(
        r#"{{"key":"m1","fields":{{"name":"{}"}}}}"#,
        "x".repeat(1 << 20)
    );
    act(&anna, BASE, ("override", &large), None)
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");
    let missing = act(
        &anna,
        BASE,
        ("override", r#"{"key":"m1","fields":{"a":1,"b":2}}"#),
        None,
    )
    .await;
    let missing = missing.refused(404, "FIELD_NOT_FOUND");
    assert_eq!(
        missing.details,
        [json!({"field": "a"}), json!({"field": "b"})]
    );
    let nowhere = act(&anna, "/api/admin/streams/none", ("hold", ""), None).await;
    nowhere.refused(404, "STREAM_NOT_FOUND");
    let shown = app
        .reader("screen")
        .get("/api/streams/scores/items")
        .await
        .list();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].get("overridden"), None);
    let audit = app.admin().get("/api/admin/audit?kind=stream").await.list();
    assert!(
        audit.iter().all(|entry| entry["who"] != "anna"),
        "{audit:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_has_at_most_ten_thousand_overridden_fields() {
    let app = scores().await;
    let fields = |from: usize, count: usize| -> Value {
        (from..from + count)
            .map(|number| (format!("f{number}"), json!(1)))
            .collect()
    };
    let set = async |fields: Value| {
        acts(
            &app,
            "anna",
            "override",
            json!({"key": "m1", "fields": fields, "create": true}),
        )
        .await
    };
    done(&set(fields(0, 9_999)).await);
    set(fields(9_999, 2))
        .await
        .refused(409, "TOO_MANY_OVERRIDES");
    done(&set(fields(9_999, 1)).await);
    // Those that are overridden may be again.
    done(&set(fields(0, 5)).await);
    let released = done(&acts(&app, "ben", "release", json!({})).await);
    assert_eq!(released["released"], 10_000);
    done(&set(fields(0, 5)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_act_is_audited_once_with_who_and_what() {
    let app = scores().await;
    done(
        &acts(
            &app,
            "anna",
            "override",
            json!({"key": "m1", "fields": {"home.score": 3}}),
        )
        .await,
    );
    done(&acts(&app, "ben", "hold", json!({"keys": ["m1"]})).await);
    done(&acts(&app, "ben", "hold", json!({"keys": ["m1"]})).await);
    done(&acts(&app, "ben", "undo", json!({})).await);
    done(&acts(&app, "anna", "PUT m2", json!({"home": {"score": 1}})).await);
    let app = app.restart().await;
    let audit = app.admin().get("/api/admin/audit?kind=stream").await.list();
    let of_acts = audit
        .iter()
        .rev()
        .filter(|entry| entry["who"] == "anna" || entry["who"] == "ben");
    let told: Vec<Value> = of_acts
        .map(|entry| json!([entry["who"], entry["action"], entry["name"]]))
        .collect();
    let expected = [
        ("anna", "override"),
        ("ben", "hold"),
        ("ben", "undo"),
        ("anna", "put"),
    ];
    assert_eq!(
        told,
        expected.map(|(who, verb)| json!([who, verb, "scores"])),
        "{audit:?}"
    );
    let first = audit
        .iter()
        .find(|entry| entry["action"] == "override")
        .expect("the override");
    assert_eq!(first["before"]["fields"], json!({"home.score": 2}));
    assert_eq!(first["after"]["fields"], json!({"home.score": 3}));
    assert!(first["after"]["request_id"].is_string());
    // The data of a PUT is a request of the connector `operator`.
    let log = app.admin().log("operator", "").await;
    assert!(
        log.iter().any(|entry| entry["status"] == "processed"),
        "{log:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn acts_at_once_and_a_kill_before_they_are_marked_are_audited_once() {
    let app = scores().await;
    let add = || {
        acts(
            &app,
            "anna",
            "add",
            json!({"key": "m1", "field": "home.score", "by": 1}),
        )
    };
    let added = futures_util::future::join_all((0..20).map(|_| add())).await;
    added.iter().for_each(|reply| drop(done(reply)));
    let count = async |app: &TestApp| {
        let audit = app.admin().get("/api/admin/audit?action=add").await.list();
        audit.len()
    };
    assert_eq!(count(&app).await, 20);
    // As a kill leaves them that comes after the audit log was written.
    let setup = app.stop().await;
    let pool = rusqlite::Connection::open(setup.data_dir().join("pool.db")).expect("it opens");
    let marked = pool
        .execute("UPDATE acts SET told = 0", [])
        .expect("it changes");
    assert!(marked >= 20, "{marked}");
    drop(pool);
    let app = setup.start().await;
    let added = json!({"key": "m1", "field": "home.score", "by": 1});
    done(&acts(&app, "anna", "add", added).await);
    assert_eq!(count(&app).await, 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_act_that_is_skipped_is_off_the_list_and_stays() {
    let app = scores().await;
    let add = json!({"key": "m1", "field": "home.score", "by": 1});
    done(&acts(&app, "anna", "add", add).await);
    done(&acts(&app, "anna", "undo", json!({"skip": true})).await);
    let anna = operator(&app, "anna");
    let item = anna.get(&format!("{BASE}/items/m1")).await.data();
    assert_eq!(item["fields"]["home.score"], 3);
    let nothing = acts(&app, "anna", "undo", json!({})).await;
    nothing.refused(409, "NOTHING_TO_UNDO");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deleted_stream_leaves_nothing_of_its_acts() {
    let app = with_operators(Setup::new().unlimited()).start().await;
    let make = async || {
        let admin = app.admin();
        admin
            .make("/api/admin/streams", json!({"name": "scores"}))
            .await
    };
    make().await;
    let on_air = json!({"key": "m1", "fields": {"text": "Interval"}, "create": true});
    done(&acts(&app, "anna", "override", on_air).await);
    done(&acts(&app, "ben", "hold", json!({})).await);
    let admin = app.admin();
    let deleted = admin
        .call(Method::DELETE, "/api/admin/streams/scores")
        .await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    make().await;
    let anna = operator(&app, "anna");
    let item = anna.get("/api/admin/streams/scores/items/m1").await;
    item.refused(404, "ITEM_NOT_FOUND");
    acts(&app, "ben", "undo", json!({}))
        .await
        .refused(409, "NOTHING_TO_UNDO");
    let left: u32 = (app.pool())
        .query_row(
            "SELECT (SELECT count(*) FROM acts) + (SELECT count(*) FROM writes)
                + (SELECT count(*) FROM holds) + (SELECT count(*) FROM shown)",
            [],
            |row| row.get(0),
        )
        .expect("a number");
    assert_eq!(left, 0);
    let audit = app.admin().get("/api/admin/audit?name=scores").await.list();
    let actions: Vec<&str> = audit
        .iter()
        .rev()
        .filter_map(|one| one["action"].as_str())
        .collect();
    assert_eq!(actions, ["create", "override", "hold", "delete", "create"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_operate_key_reads_acts_and_is_nobody_elsewhere() {
    let setup = with_operators(one_stream().stream("other"))
        .read_key("desk", &["scores"], "operate = true")
        .read_key("limited", &["scores"], "operate = true\nfields = \"name\"");
    let app = setup.start().await;
    app.caller("scores")
        .ingest_by("id", r#"[{"id": "m1", "n": 1}]"#)
        .await
        .receipt();
    app.drain().await;
    let desk = app.caller_with(app.read_secret("desk"));
    let base = "/api/operate/scores";
    let added = act(
        &desk,
        base,
        ("add", r#"{"key":"m1","field":"n","by":1}"#),
        None,
    )
    .await;
    assert_eq!(done(&added)["value"], 2);
    let item = desk.get("/api/operate/scores/items/m1").await.data();
    assert_eq!(item["overrides"]["n"]["by"], "desk");
    assert_eq!(item["overrides"]["n"]["source"], 1);
    assert_eq!(
        desk.get("/api/streams/scores/items").await.list()[0]["fields"]["n"],
        2
    );
    assert_eq!(
        desk.get("/api/operate/scores").await.data()["overridden"],
        json!({"m1": 1})
    );
    done(&act(&desk, base, ("PUT m3", r#"{"n": 7}"#), None).await);
    done(&act(&desk, base, ("undo", ""), None).await);
    act(&desk, base, ("jump", ""), None)
        .await
        .refused(404, "NOT_FOUND");
    act(&desk, "/api/operate/other", ("hold", ""), None)
        .await
        .refused(404, "STREAM_NOT_FOUND");
    for reads in ["screen", "limited"] {
        let reads = app.caller_with(app.read_secret(reads));
        act(&reads, base, ("hold", ""), None)
            .await
            .refused(403, "FORBIDDEN");
    }
    let sends = app.caller("scores");
    act(&sends, base, ("hold", ""), None)
        .await
        .refused(401, "UNAUTHORIZED");
    let admin = Caller::new(&app.admin_url, Some(app.read_secret("desk")));
    act(&admin, BASE, ("hold", ""), None)
        .await
        .refused(401, "UNAUTHORIZED");
    app.revoke("desk");
    act(&desk, base, ("hold", ""), None)
        .await
        .refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_operate_key_is_made_at_run_time_with_a_beginning_of_its_own() {
    let app = scores().await;
    let made = app
        .admin()
        .make(
            "/api/admin/read-keys",
            json!({"name": "desk", "streams": ["scores"], "operate": true}),
        )
        .await;
    let secret = made["secret"].as_str().expect("a secret");
    assert!(secret.starts_with("ok_live_"), "{secret}");
    let desk = app.caller_with(secret);
    done(&act(&desk, "/api/operate/scores", ("hold", ""), None).await);
    let patch = json!({"operate": false}).to_string();
    let json_body = [("content-type", "application/json")];
    let fixed = Caller::new(&app.admin_url, Some(&app.admin_token()));
    let fixed = fixed
        .call(
            Method::PATCH,
            "/api/admin/read-keys/desk",
            &json_body,
            patch,
        )
        .await;
    assert_eq!(fixed.status, 400, "{}", fixed.text());
}

/// Acts that were answered are there after a kill, and none is there twice.
#[test]
fn a_kill_between_acts_changes_nothing() {
    let setup = with_operators(Setup::with_streams(&["scores"]));
    let mut process = setup.spawn();
    process.processed("scores", BY_ID, r#"[{"id": "m1", "n": 0, "name": "A"}]"#);
    let mut n = 0;
    for round in 0..5 {
        let anna = |process: &Process, verb: &str, body: &str| {
            let mut client = Client::connect(process.admin).expect("it listens");
            let acted = client.call("POST", &format!("{BASE}/{verb}"), &token("anna"), body);
            acted.expect("an answer").data(202)
        };
        for _ in 0..20 {
            n += 1;
            let added = anna(&process, "add", r#"{"key": "m1", "field": "n", "by": 1}"#);
            assert_eq!(added["value"], n);
        }
        anna(&process, "hold", "{}");
        process.kill();
        process = setup.spawn();
        let item = process.admin("/api/admin/streams/scores/items/m1");
        let item = item.get("data").unwrap_or(&item);
        assert_eq!(item["fields"]["n"], n, "round {round}: {item}");
        assert_eq!(item["held"]["by"], "anna", "round {round}: {item}");
        assert_eq!(anna(&process, "undo", "")["undone"], "hold");
    }
}
