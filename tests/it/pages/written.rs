//! What the buttons of the pages do.

use super::site::Site;
use crate::guests::guest;
use crate::process::BY_ID;
use crate::setup::Setup;

#[test]
fn dead_letters_are_sent_again_and_discarded_by_their_buttons() {
    let process = Setup::with_streams(&["orders"])
        .sink("bad", &guest("rejects"), "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let body = r#"[{"id": "1"}, {"id": "2"}, {"id": "3"}]"#;
    let first = process.accepted("orders", BY_ID, body);
    let second = process.accepted("orders", BY_ID, body);
    process.request_becomes(&first, "failed");
    process.request_becomes(&second, "failed");
    let letters = process.dead_letters("bad");
    let before = letters.len();
    assert!(before >= 2, "{letters:?}");
    let page = site.page("/sinks/bad");
    assert_eq!(page.matches("name=\"id\" value=").count(), before);
    let own = site.page(&format!("/requests/{first}"));
    assert!(
        own.contains("Resend to all sinks") && own.contains("failed"),
        "{own}"
    );

    // Nothing without the form token, nothing for what is not there.
    assert_eq!(site.post("/sinks/bad/discard", "all=yes").status, 403);
    assert_eq!(site.submit("/sinks/bad/discard", "").status, 400);
    assert_eq!(site.submit("/sinks/bad/discard", "all=no").status, 400);
    assert_eq!(site.submit("/sinks/bad/discard", "id=999999").status, 404);
    assert_eq!(site.submit("/sinks/nobody/retry", "").status, 404);
    assert_eq!(process.dead_letters("bad").len(), before);

    let id = letters[0]["id"].as_str().expect("an id");
    let answer = site.submit("/sinks/bad/discard", &format!("id={id}"));
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/sinks/bad"))
    );
    assert!(
        site.page("/sinks/bad")
            .contains("1 dead letter is discarded.")
    );
    assert!(
        !site.page("/sinks/bad").contains("is discarded"),
        "said once"
    );
    assert_eq!(process.dead_letters("bad").len(), before - 1);

    let answer = site.submit("/sinks/bad/again", &format!("request={first}"));
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert!(site.page("/sinks/bad").contains("being retried."));
    process.drained();
    process.request_becomes(&first, "failed");
    assert_eq!(site.submit("/sinks/bad/retry", "").status, 303);
    assert!(site.page("/sinks/bad").contains("No waiting retries."));

    assert_eq!(site.submit("/sinks/bad/discard", "all=yes").status, 303);
    assert_eq!(process.dead_letters("bad").len(), 0);
}

#[test]
fn waiting_retries_are_given_up_and_sinks_forgotten_by_their_buttons() {
    let mut folder = Setup::with_streams(&["orders"]).sink(
        "back",
        &guest("doorkeeper"),
        "*",
        "ordering = \"strict\"\n",
    );
    let process = folder.spawn();
    let site = Site::signed_in(&process);
    let send = |body: &str| process.accepted("orders", BY_ID, body);
    let closed = send(r#"{"id": "close"}"#);
    process.request_becomes(&closed, "processed");
    let waiting = send(r#"[{"id": "retry-a"}, {"id": "b"}]"#);
    process.sink_becomes("back", "retrying", |sink| sink["retries"] == 1);
    let behind = send(r#"{"id": "c"}"#);
    let page = site.page("/sinks/back");
    assert!(
        page.contains("Waiting retries") && page.contains(&waiting),
        "{page}"
    );
    let id = process.admin("/api/admin/sinks/back/retries")[0]["id"].take();
    let id = id.as_str().expect("an id");
    assert_eq!(site.post("/sinks/back/end-retries", "all=yes").status, 403);
    for path in ["/sinks/back/end-retries", "/sinks/back/give-up"] {
        assert_eq!(site.submit(path, "").status, 400, "{path}");
    }
    assert_eq!(site.submit("/sinks/back/end-retries", "id=999").status, 404);
    let answer = site.submit("/sinks/back/end-retries", &format!("id={id}"));
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/sinks/back"))
    );
    let page = site.page("/sinks/back");
    assert!(
        page.contains("1 batch is ended, with 2 dead letters."),
        "{page}"
    );
    process.request_becomes(&behind, "processed");
    assert_eq!(
        site.submit("/sinks/back/end-retries", "all=yes").status,
        303
    );
    assert!(
        !site.page("/sinks/back").contains("Delete sink data"),
        "it is configured"
    );
    assert_eq!(site.submit("/sinks/back/forget", "").status, 409);

    folder.change("name = \"back\"", "name = \"front\"");
    process.sink_becomes("back", "unconfigured", |sink| {
        sink["state"] == "unconfigured"
    });
    let overview = site.page("/");
    assert!(overview.contains("headgate sink forget back"), "{overview}");
    let page = site.page("/sinks/back");
    assert!(
        page.contains("Delete sink data") && !page.contains("Retry all dead letters"),
        "{page}"
    );
    let answer = site.submit("/sinks/back/forget", "");
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/sinks"))
    );
    let page = site.page("/sinks");
    assert!(
        page.contains("All data of the sink back is deleted."),
        "{page}"
    );
    assert_eq!(site.page("/").matches("headgate sink forget").count(), 0);
}

#[test]
fn an_item_is_removed_by_its_button() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    process.accepted("orders", BY_ID, r#"[{"id": "a/b &c"}, {"id": "d"}]"#);
    process.drained();
    assert_eq!(site.post("/streams/orders/remove", "key=d").status, 403);
    let answer = site.submit("/streams/orders/remove", "key=a%2Fb+%26c");
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/streams/orders"))
    );
    let page = site.page("/streams/orders");
    assert!(page.contains("The item a/b &amp;c is removed."), "{page}");
    assert_eq!(page.matches("/item?key=").count(), 1);
    // A removal is taken whether or not there is such an item; no item has no key.
    for (key, status) in [("a%2Fb+%26c", 303), ("", 400)] {
        let answer = site.submit("/streams/orders/remove", &format!("key={key}"));
        assert_eq!(answer.status, status, "{key}");
    }
}
