//! All items of a stream as a file: `headgate export`, and the link on the page.

use crate::command_line::operate;
use crate::pages::signed_in;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;

const ITEMS: usize = 2_500;

fn process() -> Process {
    let process = Setup::with_streams(&["orders"]).spawn();
    let items: Vec<String> = (0..ITEMS)
        .map(|number| {
            format!(
                r#"{{"id":"n{number}","customer":{{"name":"=A{number}"}},"odd":{}}}"#,
                number % 2
            )
        })
        .collect();
    process.processed("orders", BY_ID, &format!("[{}]", items.join(",")));
    process
}

#[test]
fn an_export_has_every_item_once() {
    let process = process();
    let rows = operate(&process, ["export", "orders", "--format", "ndjson"]).ok();
    let mut keys: Vec<String> = (rows.lines())
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["_key"].to_string()
        })
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!((rows.lines().count(), keys.len()), (ITEMS, ITEMS));
    let array = operate(&process, ["export", "orders", "--format", "json"]).ok();
    let array: Vec<serde_json::Value> = serde_json::from_str(&array).expect("one array");
    assert_eq!(array.len(), ITEMS);
    let path = process.setup.path("orders.csv");
    let to = path.to_str().expect("text");
    let chosen = [
        "export",
        "orders",
        "--fields",
        "Name:customer.name,_position",
        "--where",
        "odd:1",
        "--safe",
        "--to",
        to,
    ];
    operate(&process, chosen).ok();
    let file = std::fs::read_to_string(&path).expect("the file");
    assert_eq!(file.lines().count(), 1 + ITEMS / 2);
    assert!(file.starts_with("Name,_position\n'=A1,1\n"), "{file}");
    assert!(!process.setup.path("orders.csv.part").exists());
    let told = operate(&process, ["export", "none"]).failed(1);
    assert!(told.contains("stream"), "{told}");
    let none = process.setup.path("no/folder.csv");
    let told = operate(
        &process,
        ["export", "orders", "--to", none.to_str().expect("text")],
    )
    .failed(1);
    assert!(told.contains("cannot write"), "{told}");
}

#[test]
fn the_page_of_feeds_has_urls_samples_and_a_key_of_its_own() {
    let process = process();
    let site = signed_in(&process);
    let path = "/streams/orders/feeds";
    let page = site.page(path);
    for words in [
        "/feed/orders.json?token=rk_live_…",
        "/feed/orders.rss?shape=fields&amp;limit=1&amp;token=rk_live_…",
        "customer.name",
        "_key,id,customer_name,odd",
        "n0,n0,=A0,0",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // Columns that are chosen are in the URLs and in the first lines.
    let chosen = site.page(&format!(
        "{path}?place=2&field=id&as=&place=1&field=customer.name&as=Head.Text&place=&field=odd&as=x"
    ));
    assert!(
        chosen.contains("fields=Head.Text%3Acustomer.name%2Cid"),
        "{chosen}"
    );
    assert!(chosen.contains("Head.Text,id\n=A0,n0"), "{chosen}");
    // A key for this one stream, which may stand in a URL and is shown once.
    let made = site.submit(path, "name=mixer&fields=id");
    assert_eq!(made.status, 303, "{}", made.body);
    assert_eq!(
        made.header("location"),
        Some("/streams/orders/feeds?fields=id")
    );
    let shown = site.page("/streams/orders/feeds?fields=id");
    let (_, secret) = shown.split_once("token=rk_live_").expect("a key");
    let secret: String = secret
        .chars()
        .take_while(|one| one.is_ascii_alphanumeric() || *one == '_')
        .collect();
    let answer = crate::openapi::open(
        process.service,
        &format!("/feed/orders.csv?limit=1&token=rk_live_{secret}"),
    );
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        !site
            .page("/streams/orders/feeds?fields=id")
            .contains(&secret),
        "once"
    );
    let key = process.admin("/api/admin/read-keys/mixer");
    assert_eq!(key["allow_in_url"], true);
    assert_eq!(key["streams"], serde_json::json!(["orders"]));
    assert_eq!(site.submit(path, "name=mixer").status, 409);
    // The table in the file is that of the export.
    assert!(
        site.page("/streams/orders")
            .contains("/streams/orders/export.csv?safe")
    );
}
