//! What the pages say.

use super::site::Site;
use crate::process::BY_ID;
use crate::setup::{Setup, key_of};

/// The request ids of the log on a page, in its order.
fn ids(page: &str) -> Vec<String> {
    let rows = page.split(r#"id="request-"#).skip(1);
    rows.map(|row| row[..36].to_owned()).collect()
}

#[test]
fn the_log_is_newest_first_filtered_and_paged_back() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let mut sent: Vec<String> = (0..120)
        .map(|number| process.accepted("orders", "", &format!("{{\"n\": {number}}}")))
        .collect();
    let refused = process.post("orders", "", "{");
    assert_eq!(refused.status, 400);
    let key = "Idempotency-Key: Needle-In-The-Hay\r\n";
    let first = process.accepted("orders", key, "{}");
    process.accepted("orders", key, "{}");
    process.drained();
    sent.reverse();

    let mut found = Vec::new();
    let mut path = "/connectors/tests".to_owned();
    for _ in 0..9 {
        let page = site.page(&path);
        found.extend(ids(&page));
        let Some(older) = page.split("href=\"").find(|part| part.contains("\">Older")) else {
            break;
        };
        let href = older.split('"').next().expect("a link");
        path = href.replace("&amp;", "&").replace("#log", "");
    }
    assert_eq!(found.len(), 123);
    assert_eq!(found[3..], sent);

    let of = |query: &str| ids(&site.page(&format!("/connectors/tests?{query}")));
    assert_eq!(of("status=rejected").len(), 1);
    assert_eq!(of("status=duplicate").len(), 1);
    assert_eq!(of(&format!("text={first}")), [first.as_str()]);
    assert_eq!(
        of(&format!("text={first}&status=rejected")),
        Vec::<String>::new()
    );
    let hay = of("text=needle-in");
    assert!(hay.contains(&first) && hay.len() == 2, "{hay:?}");
    assert_eq!(of("since=2999-01-01T00:00"), Vec::<String>::new());
    assert_eq!(of("until=1999-01-01T00:00"), Vec::<String>::new());
    assert_eq!(
        of("since=1999-01-01T00:00&until=2999-01-01T00:00").len(),
        50
    );
    for wrong in ["status=lost", "since=yesterday", "before=x"] {
        let answer = site.get(&format!("/connectors/tests?{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn a_connector_shows_how_to_send_to_it_and_no_secret() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    process.accepted("orders", "", "{}");
    let page = site.page("/connectors/tests?tab=setup");
    let url = format!("http://{}/api/webhook/orders", process.service);
    assert!(page.contains(&url), "{page}");
    for language in ["curl", "Node.js", "Python", "C#", "Go"] {
        assert!(
            page.contains(&format!("<summary>{language}</summary>")),
            "{language}"
        );
    }
    let secret = key_of("orders");
    for path in ["/", "/connectors", "/connectors/tests", "/streams/orders"] {
        assert!(!site.page(path).contains(&secret), "{path}");
    }
    assert_eq!(site.get("/connectors/nobody").status, 404);
}

#[test]
fn a_page_of_the_pool_is_bounded_and_leads_to_the_next() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let items = (0..60).map(|number| {
        let fields: Vec<String> = (0..30)
            .map(|n| format!("\"f{n}\": {{\"a\": {n}}}"))
            .collect();
        format!("{{\"id\": \"k{number:02}/?&\", {}}}", fields.join(", "))
    });
    let body = format!("[{}]", items.collect::<Vec<_>>().join(", "));
    let id = process.accepted("orders", BY_ID, &body);
    process.drained();
    let page = site.page("/streams/orders");
    let rows = |page: &str| page.matches("<tr data-row").count();
    assert_eq!(rows(&page), 50);
    // Those with most items first, and the others can be chosen.
    assert_eq!(
        page.matches("<th class=\"n\" scope=\"col\" title=\"f")
            .count(),
        24
    );
    assert!(page.contains("Columns 24 of 31"), "{page}");
    assert!(page.contains(&format!("/requests/{id}")));
    let set_up = site.page("/streams/orders?tab=setup");
    assert!(
        set_up.contains("SELECT * FROM &quot;stream_orders&quot;"),
        "{set_up}"
    );
    // Newest first, and by key.
    let older = page.split("rel=\"next\" href=\"").nth(1).expect("a link");
    let older = older.split('"').next().expect("an address");
    assert_eq!(rows(&site.page(&older.replace("&amp;", "&"))), 10);
    let by_key = "/streams/orders?sort=key";
    assert!(
        site.page(by_key)
            .contains(&format!("{by_key}&amp;after=k49%2F%3F%26"))
    );
    assert_eq!(
        rows(&site.page(&format!("{by_key}&after=k49%2F%3F%26"))),
        10
    );
    let item = site.page("/streams/orders/item?key=k59%2F%3F%26");
    assert!(item.contains("<bdi>f29.a</bdi>"), "{item}");
    assert_eq!(site.get("/streams/orders/item?key=none").status, 404);
    assert_eq!(site.get("/streams/nothing").status, 404);
}
