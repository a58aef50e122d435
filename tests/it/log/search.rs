//! Search: what a text finds, in which order, and what it does not read.

use serde_json::{Value, json};

use crate::pages::Site;
use crate::process::{Answer, BY_ID, Client, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use base::text::percent_encoded;

/// All that a text finds, page after page, and how many pages that took.
fn found(process: &Process, text: &str, limit: usize) -> (Vec<Value>, usize) {
    let (mut hits, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!(
            "/api/admin/search?q={}&limit={limit}{cursor}",
            percent_encoded(text)
        );
        let answer = process.call("GET", &path, "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let page = answer.json();
        let data = page["data"].as_array().expect("a list");
        assert!(data.len() <= limit, "{page}");
        hits.extend(data.iter().cloned());
        pages += 1;
        assert!(pages < 500, "pages without end: {page}");
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={}", percent_encoded(next)),
            None => {
                assert_eq!(page["stopped_at"], Value::Null);
                return (hits, pages);
            }
        }
    }
}

/// Kind and key of each.
fn keys(hits: &[Value]) -> Vec<String> {
    let key = |hit: &Value| {
        let text = |name: &str| hit[name].as_str().expect("a text").to_owned();
        format!("{} {}", text("kind"), text("key"))
    };
    hits.iter().map(key).collect()
}

#[test]
fn a_text_finds_keys_ids_names_and_errors_in_one_order() {
    let receiver = Receiver::start(|_, _| answer(400, "", "no such Customer"));
    let host = receiver.url("");
    let more = format!(
        "config = {{ url = \"{host}/\" }}\nhttp = {{ hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let process = Setup::with_streams(&["orders", "other", "o-1-stream"])
        .sink("pool", "pool", "*", "")
        .sink("crm", "http-forward", "other", &more)
        .spawn();
    let first = process.accepted(
        "orders",
        &format!("{BY_ID}Idempotency-Key: Delivery-Of-o-1\r\n"),
        r#"[{"id": "o-1", "name": "Ada", "gone": null, "total": 10.50}, {"id": "o-12"}, {"id": "O-1x"}, {"id": "p-o-1"}]"#,
    );
    let failed = process.failed("other", BY_ID, r#"{"id": "o-1", "to": "other"}"#);
    let refused = process.post("orders", "X-Item-Key: o-1-missing\r\n", "{}");
    assert_eq!(refused.status, 400);
    let refused = refused.header("x-request-id").expect("an id").to_owned();
    // Nobody waits for the log entry of what was refused.
    process.request_becomes(&refused, "rejected");
    process.drained();

    let expected = [
        "item o-1".to_owned(),
        "item o-1".to_owned(),
        "stream o-1-stream".to_owned(),
        "key o-1-stream".to_owned(),
        "item o-12".to_owned(),
        "dead_letter o-1".to_owned(),
        format!("request {refused}"),
        format!("request {first}"),
    ];
    for limit in [50, 3, 1] {
        let (hits, _) = found(&process, "o-1", limit);
        assert_eq!(keys(&hits), expected, "{limit}");
    }
    let (hits, _) = found(&process, "o-1", 50);
    assert_eq!(hits[0]["stream"], "orders");
    assert_eq!(hits[0]["title"], "Ada · 10.50");
    assert_eq!(hits[0]["page"], "/streams/orders/item?key=o-1");
    assert_eq!(hits[1]["stream"], "other");
    assert_eq!(hits[5]["page"], "/sinks/crm#dead-letters");

    let of = |text: &str| keys(&found(&process, text, 50).0);
    assert_eq!(of(&failed), [format!("request {failed}")]);
    assert_eq!(of("delivery-of-O-1"), [format!("request {first}")]);
    assert_eq!(of("such customer"), ["dead_letter o-1".to_owned()]);
    assert_eq!(of("crm"), ["sink crm"]);
    assert!(of("TESTS").contains(&"connector tests".to_owned()));
    assert_eq!(of("no such thing at all"), Vec::<String>::new());

    // Each page that a hit names is there, and shows it.
    let site = Site::signed_in(&process);
    for hit in &hits {
        let path = hit["page"].as_str().expect("a path");
        let path = path.split('#').next().expect("a path");
        let key = hit["key"].as_str().expect("a key");
        assert!(site.page(path).contains(key), "{path}");
    }
    let page = site.page("/search?q=o-1");
    for heading in ["Items", "Requests", "Streams", "Dead letters"] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(page.contains("8 hits, everything was searched"), "{page}");
}

#[test]
fn a_search_of_a_long_log_says_where_it_stopped_and_continues() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let needle = process.accepted("orders", "Idempotency-Key: needle\r\n", "{}");
    // More than one page reads.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(process.service).expect("it listens");
                for _ in 0..5_100 {
                    let answer = client.post("orders", "", "{}").expect("an answer");
                    assert_eq!(answer.status, 202);
                }
            });
        }
    });
    let first = process.call("GET", "/api/admin/search?q=needle", "").json();
    assert_eq!(first["data"], json!([]));
    let stopped = first["stopped_at"].as_str().expect("a time");
    assert!(stopped.ends_with('Z'), "{stopped}");
    let (hits, pages) = found(&process, "needle", 50);
    assert_eq!(keys(&hits), [format!("request {needle}")]);
    assert!(pages > 1);
    let page = Site::signed_in(&process).page("/search?q=needle");
    assert!(page.contains("Search further back"), "{page}");
    assert!(page.contains("No results so far."), "{page}");
}

#[test]
fn any_text_is_found_as_text_or_refused() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let texts = [
        "100%_x\\",
        "it's \"quoted\" `here`",
        "مباراة-٢٠٢٦",
        "<b>bold</b>&amp;",
        "\u{202e}turned",
        "{\"key\":\"\"}",
        "\u{10ffff}\u{10ffff}",
    ];
    let items: Vec<Value> = texts.iter().map(|text| json!({ "id": text })).collect();
    process.accepted("orders", BY_ID, &json!(items).to_string());
    process.drained();
    let site = Site::signed_in(&process);
    for text in texts {
        let (hits, _) = found(&process, text, 50);
        assert_eq!(keys(&hits), [format!("item {text}")]);
        let start: String = text.chars().take(1).collect();
        let (hits, _) = found(&process, &start, 50);
        assert!(keys(&hits).contains(&format!("item {text}")), "{text}");
        site.page(&format!("/search?q={}", percent_encoded(text)));
    }
    let refused = |path: &str| -> Answer {
        let answer = process.call("GET", path, "");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        answer
    };
    let long = format!("/api/admin/search?q={}", "a".repeat(10_000));
    assert!(refused(&long).body.contains("10000 bytes"));
    for wrong in ["?q=", "", "?q=a%00b", "?q=a&limit=0", "?q=a&cursor=x"] {
        refused(&format!("/api/admin/search{wrong}"));
    }
    for wrong in [&"a".repeat(10_000), "a%00b", "a&cursor=x"] {
        assert_eq!(site.get(&format!("/search?q={wrong}")).status, 400);
    }
    assert!(site.page("/search").contains("Finds items by key"));
}
