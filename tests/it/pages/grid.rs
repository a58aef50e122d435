//! The grid of the lists without a script: orders, filters, pages, and what selected rows send.

use serde_json::json;

use super::Site;
use crate::guests::guest;
use crate::pages::site::unescaped;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use base::text::percent_encoded;

/// The rows of the first grid of a page, in its order.
fn rows(page: &str) -> Vec<String> {
    let rows = page.split("data-row=\"").skip(1);
    let keys = rows.map(|row| row.split('"').next().expect("a key").to_owned());
    keys.collect()
}

/// The address of a link with this text.
fn link(page: &str, text: &str) -> Option<String> {
    let before = page.split(&format!(">{text}</a>")).next()?;
    (before.len() < page.len()).then_some(())?;
    let (_, address) = before.rsplit_once("href=\"")?;
    Some(address.split('"').next()?.replace("&amp;", "&"))
}

/// All rows, page after page.
fn walked(site: &Site, first: &str, next: &str) -> Vec<String> {
    let (mut found, mut path) = (Vec::new(), first.to_owned());
    loop {
        let page = site.page(&path);
        found.extend(rows(&page));
        assert!(found.len() < 1_000, "pages without end");
        match link(&page, next) {
            Some(address) => path = address,
            None => return found,
        }
    }
}

/// What the buttons below selected items of `orders` download.
fn downloaded(process: &Process, site: &Site, file: &str, selected: &str) -> String {
    let origin = format!("http://{}", process.admin);
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sf", "--noproxy", "*", "-b", site.cookie()]);
    curl.args(["-H", &format!("Origin: {origin}"), "--data-binary", "@-"]);
    curl.arg(format!("{origin}/streams/orders/{file}"));
    let form = format!("form_token={}&{selected}", site.form_token());
    crate::command_line::finish(&mut curl, &form).ok()
}

fn with_items(count: u32) -> Process {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    for number in 0..count {
        let state = if number % 3 == 0 {
            "a:b, c|d\\"
        } else {
            "open"
        };
        let body = json!({"id": format!("k{number:03}"), "state": state, "n": number});
        process.accepted("orders", BY_ID, &body.to_string());
    }
    process.drained();
    process
}

#[test]
fn items_are_newest_first_or_by_key_and_paged_without_holes() {
    let process = with_items(120);
    let site = Site::signed_in(&process);
    let keys: Vec<String> = (0..120).map(|number| format!("k{number:03}")).collect();
    let newest: Vec<String> = keys.iter().rev().cloned().collect();
    assert_eq!(walked(&site, "/streams/orders", "Older items"), newest);
    assert_eq!(
        walked(&site, "/streams/orders?sort=key", "Next items"),
        keys
    );
    let page = site.page("/streams/orders");
    assert!(
        page.contains("<span class=\"count\">120 items</span>"),
        "{page}"
    );
    let of = |query: &str| walked(&site, &format!("/streams/orders?{query}"), "Next items");
    assert_eq!(of("q=k01"), keys[10..20]);
    assert_eq!(of("q=k010"), ["k010"]);
    assert_eq!(of("q=none"), Vec::<String>::new());
    assert_eq!(of("q=k%25"), Vec::<String>::new());
    for wrong in [
        "sort=a,b",
        "sort=-",
        "before=x",
        "from=x",
        "from=5001",
        "filter=:",
    ] {
        let answer = site.get(&format!("/streams/orders?{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn items_are_sorted_by_a_field_and_say_among_how_many() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let items = (0..120).map(|number| {
        let mut item =
            json!({"id": format!("k{number:03}"), "n": (number * 77) % 120, "key": number % 2});
        if number == 7 {
            item["n"] = json!("text");
        }
        item
    });
    let items: Vec<_> = items.collect();
    process.accepted("orders", BY_ID, &json!(items).to_string());
    process.drained();
    let mut numbers: Vec<i32> = (0..120).filter(|number| *number != 7).collect();
    let named = |numbers: &[i32]| -> Vec<String> {
        let keys = numbers.iter().map(|number| format!("k{number:03}"));
        keys.collect()
    };
    numbers.sort_by_key(|number| (number * 77) % 120);
    let mut ascending = named(&numbers);
    ascending.push("k007".to_owned());
    let head = link(&site.page("/streams/orders"), "n").expect("a link");
    assert_eq!(head, "/streams/orders?sort=n");
    assert_eq!(walked(&site, &head, "Next items"), ascending);
    let page = site.page(&head);
    assert!(page.contains("aria-sort=\"ascending\""), "{page}");
    assert!(
        page.contains("<span class=\"count\">120 items</span>"),
        "{page}"
    );
    let back = link(&page, "n").expect("a link");
    let descending: Vec<String> = ascending.iter().rev().cloned().collect();
    assert_eq!(walked(&site, &back, "Next items"), descending);
    // Numbers of the field that is called like an order; what is equal in it goes by key.
    let by_parity = link(&page, "key").expect("a link");
    let (even, odd): (Vec<i32>, Vec<i32>) = (0..120).partition(|number| number % 2 == 0);
    let expected = named(&[even, odd].concat());
    assert_eq!(walked(&site, &by_parity, "Next items"), expected);
    let filtered = format!("{by_parity}&filter=n%3E%3D100&q=k0");
    let kept = (0..100).filter(|number| *number != 7 && (number * 77) % 120 >= 100);
    let (even, odd): (Vec<i32>, Vec<i32>) = kept.partition(|number| number % 2 == 0);
    assert_eq!(
        walked(&site, &filtered, "Next items"),
        named(&[even, odd].concat())
    );

    for chunk in (0..5_500).collect::<Vec<i32>>().chunks(500) {
        let items: Vec<_> = (chunk.iter())
            .map(|number| json!({"id": format!("m{number:04}"), "n": -number}))
            .collect();
        process.accepted("orders", BY_ID, &json!(items).to_string());
    }
    process.drained();
    let page = site.page("/streams/orders?sort=n");
    assert_eq!(rows(&page)[..2], ["m5499", "m5498"]);
    let among = "5,620 items, sorted among the newest 5,000<";
    assert!(page.contains(among), "{page}");
    let last = site.page("/streams/orders?sort=-n&from=5000");
    assert!(rows(&last).is_empty(), "{last}");
    assert_eq!(rows(&site.page("/streams/orders?sort=-n"))[0], "m0500");
}

#[test]
fn a_value_leads_to_the_items_that_have_it() {
    let process = with_items(120);
    let site = Site::signed_in(&process);
    let page = site.page("/streams/orders");
    let address = link(&page, "a:b, c|d\\").expect("a link");
    let found = walked(&site, &address, "Older items");
    let expected = (0..120).rev().filter(|number| number % 3 == 0);
    let expected: Vec<String> = expected.map(|number| format!("k{number:03}")).collect();
    assert_eq!(found, expected);
    let filtered = site.page(&address);
    assert!(filtered.contains("state: a:b, c|d\\"), "{filtered}");
    // One more, and the first taken back.
    let both = format!("{address}&filter={}", percent_encoded("n:3"));
    assert_eq!(rows(&site.page(&both)), ["k003"]);
    let without = link(&site.page(&both), "×").expect("a link");
    assert_eq!(rows(&site.page(&without)), ["k003"]);
    assert!(without.contains("filter=n%3A3"), "{without}");
}

#[test]
fn selected_items_are_exported_released_and_removed() {
    let process = with_items(9);
    let site = Site::signed_in(&process);
    let selected = "key=k001&key=k003";
    let export = |file: &str| downloaded(&process, &site, file, selected);
    let csv = export("export.csv?safe=true");
    let keys: Vec<&str> = csv
        .lines()
        .map(|line| line.split(',').next().expect("a cell"))
        .collect();
    assert_eq!(keys[1..], ["k001", "k003"], "{csv}");
    assert_eq!(export("export.ndjson").lines().count(), 2);

    let body = r#"{"key": "k001", "fields": {"n": 7}}"#;
    let done = process.call("POST", "/api/admin/streams/orders/override", body);
    assert_eq!(done.status, 202, "{}", done.body);
    assert!(
        site.page("/streams/orders")
            .contains("class=\"n lead over\"")
    );
    let released = site.submit("/streams/orders/release-items", selected);
    assert_eq!(released.status, 303, "{}", released.body);
    let page = site.page("/streams/orders");
    assert!(
        page.contains("1 field shows its source's value again"),
        "{page}"
    );
    assert!(!page.contains("class=\"n lead over\""));

    assert_eq!(site.post("/streams/orders/remove", selected).status, 403);
    assert_eq!(site.submit("/streams/orders/remove", selected).status, 303);
    let page = site.page("/streams/orders");
    assert!(page.contains("2 items are removed."), "{page}");
    assert_eq!(rows(&page).len(), 7);
    let audit = process.list("/api/admin/audit?action=remove");
    assert_eq!(audit.len(), 2);
    for act in ["remove", "expire-items", "release-items", "export.csv"] {
        let answer = site.submit(&format!("/streams/orders/{act}"), "");
        assert_eq!(answer.status, 400, "{act}: {}", answer.body);
    }
}

#[test]
fn selected_items_expire_unless_something_is_pending_for_them() {
    let process = with_items(4);
    let site = Site::signed_in(&process);
    let made = r#"{"key": "made", "fields": {"n": 7}, "create": true}"#;
    let done = process.call("POST", "/api/admin/streams/orders/override", made);
    assert_eq!(done.status, 202, "{}", done.body);
    let expire = |selected: &str, flash: &str| {
        let answer = site.submit("/streams/orders/expire-items", selected);
        assert_eq!(answer.status, 303, "{}", process.log());
        let page = site.page("/streams/orders");
        assert!(page.contains(flash), "{flash}: {page}");
    };
    expire(
        "key=k001&key=made&key=nothing",
        " 2 stay: requests for them are pending, or no source sent them.",
    );
    process.drained();
    let left = rows(&site.page("/streams/orders"));
    assert_eq!(left, ["made", "k003", "k002", "k000"]);
    let of_log = process.list("/api/admin/connectors/headgate/requests");
    assert_eq!(of_log.len(), 1, "{of_log:?}");
    assert_eq!(of_log[0]["endpoint"], "expiry");
    let audit = process.list("/api/admin/audit?action=expire");
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!(audit[0]["name"], "k001");

    let pool = |act: &str| {
        let answer = process.call("POST", &format!("/api/admin/sinks/pool/{act}"), "");
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    pool("pause");
    process.accepted("orders", BY_ID, r#"{"id": "k003", "n": 30}"#);
    expire(
        "key=k003",
        "0 items have expired. 1 stays: a request for it is pending, or no source sent it.",
    );
    expire("key=k002", "1 item is expiring.");
    pool("resume");
    process.drained();
    assert_eq!(
        rows(&site.page("/streams/orders")),
        ["k003", "made", "k000"]
    );
}

/// Names of fields and values that mean something to conditions, addresses or pages.
const HOSTILE: [&str; 14] = [
    "a,b:c",
    "x^y",
    "x>=2",
    "x!",
    "note?",
    "one|two",
    "back\\slash\\",
    "\"quoted\"",
    "<b title='x'>&amp;</b>",
    "../%2F?#&=+ ",
    "line one\nline two",
    "\u{202e}turned",
    "*",
    "null",
];

#[test]
fn every_value_that_is_clicked_leaves_its_own_item_whatever_it_is_called() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let other = |text: &str| format!("{text}.");
    let items = HOSTILE.iter().enumerate().map(|(at, text)| {
        let value = HOSTILE[(at + 1) % HOSTILE.len()];
        let mut item = json!({"id": format!("k{at:02}")});
        item[*text] = json!(value);
        // The same field with another value, in an item that no filter may leave.
        let mut beside = json!({"id": format!("z{at:02}")});
        beside[*text] = json!(other(value));
        [item, beside]
    });
    let items: Vec<_> = items.flatten().collect();
    process.accepted("orders", BY_ID, &json!(items).to_string());
    process.drained();
    let page = site.page("/streams/orders");
    let rows_of_page = page.split("<tr data-row=\"").skip(1);
    let mut filters = 0;
    for row in rows_of_page {
        let key = row.split('"').next().expect("a key");
        for link in row.split("class=\"val\" href=\"").skip(1) {
            let address = unescaped(link.split('"').next().expect("an address"));
            assert_eq!(rows(&site.page(&address)), [key], "{address}");
            filters += 1;
        }
    }
    // What JSON writes with a dot at its end is a field too.
    assert_eq!(filters, 2 * HOSTILE.len(), "{page}");
}

#[test]
fn columns_that_are_chosen_are_shown_and_no_others() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let items =
        json!([{"id": "1", "often": 1, "a,b:c": 2}, {"id": "2", "often": 3, "seldom": "x"}]);
    process.accepted("orders", BY_ID, &items.to_string());
    process.drained();
    let heads = |query: &str| -> Vec<String> {
        let page = site.page(&format!("/streams/orders?{query}"));
        let heads = page.split("scope=\"col\" title=\"").skip(1);
        let heads = heads.map(|head| unescaped(head.split('"').next().expect("a name")));
        heads.collect()
    };
    let last = ["Version", "Source", "Updated"];
    let usual = heads("");
    assert_eq!(usual[..2], ["Key", "often"]);
    assert_eq!(usual[4..], last);
    let chosen = format!("column={}&column=seldom", percent_encoded("a,b:c"));
    let mut two = heads(&chosen)[1..3].to_vec();
    two.sort();
    assert_eq!(two, ["a,b:c", "seldom"]);
    assert_eq!(heads(&chosen)[3..], last);
    assert_eq!(heads("column=nothing")[1..], last);
}

#[test]
fn selected_dead_letters_are_retried_and_discarded_and_no_others() {
    let process = Setup::with_streams(&["orders"])
        .sink("bad", &guest("rejects"), "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    for number in 0..120 {
        let body = json!({"id": format!("k{number:03}")}).to_string();
        process.accepted("orders", BY_ID, &body);
    }
    process.drained();
    let letters = process.dead_letters("bad");
    let newest: Vec<String> = (letters.iter())
        .map(|letter| letter["id"].as_str().expect("an id").to_owned())
        .collect();
    assert!(newest.len() >= 60, "{letters:?}");
    assert_eq!(walked(&site, "/sinks/bad", "Older"), newest);
    let page = site.page(&format!("/sinks/bad/dead-letters/{}", newest[0]));
    let key = letters[0]["key"].as_str().expect("a key");
    assert!(page.contains(&format!("<bdi>{key}</bdi>")), "{page}");

    let three = format!("id={}&id={}&id={}", newest[3], newest[7], newest[9]);
    let answer = site.submit("/sinks/bad/discard", &three);
    assert_eq!(answer.status, 303, "{}", answer.body);
    let left: Vec<String> = (newest.iter().enumerate())
        .filter(|(at, _)| ![3, 7, 9].contains(at))
        .map(|(_, id)| id.clone())
        .collect();
    assert_eq!(walked(&site, "/sinks/bad", "Older"), left);
    let gone = site.get(&format!("/sinks/bad/dead-letters/{}", newest[3]));
    assert_eq!(gone.status, 404, "{}", gone.body);

    let two = format!("id={}&id={}", left[0], left[1]);
    assert_eq!(site.submit("/sinks/bad/again", &two).status, 303);
    let page = site.page("/sinks/bad");
    assert!(page.contains("2 items are being retried."), "{page}");
}

#[test]
fn a_viewer_s_buttons_are_rejected_by_the_server() {
    let token = "[[admin.tokens]]\nname = \"eve\"\nrole = \"viewer\"\nsecret = \"token-of-somebody-who-looks-only\"\n";
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink("bad", &guest("rejects"), "*", "")
        .toml(token)
        .spawn();
    process.accepted("orders", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    process.drained();
    let letters = process.dead_letters("bad");
    let mut viewer = Site::of(&process);
    assert_eq!(
        viewer.sign_in("token-of-somebody-who-looks-only").status,
        303
    );
    assert_eq!(rows(&viewer.page("/streams/orders")), ["b", "a"]);
    let id = format!("id={}", letters[0]["id"].as_str().expect("an id"));
    for (path, fields) in [
        ("/streams/orders/remove", "key=a"),
        ("/streams/orders/release-items", "key=a"),
        ("/streams/orders/expire-items", "key=a"),
        ("/sinks/bad/again", &*id),
        ("/sinks/bad/discard", &*id),
    ] {
        let answer = viewer.submit(path, fields);
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
    }
    assert_eq!(rows(&viewer.page("/streams/orders")), ["b", "a"]);
    assert_eq!(process.dead_letters("bad"), letters);
    // To export is to read.
    let exported = downloaded(&process, &viewer, "export.ndjson", "key=a");
    assert_eq!(exported.lines().count(), 1, "{exported}");
}

#[test]
fn as_many_items_as_a_page_has_are_exported_however_long_their_keys_are() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = Site::signed_in(&process);
    let keys: Vec<String> = (0..50)
        .map(|number| format!("{number:02},{}", "م".repeat(200)))
        .collect();
    let items: Vec<_> = keys.iter().map(|key| json!({"id": key})).collect();
    process.accepted("orders", BY_ID, &json!(items).to_string());
    process.drained();
    let fields = keys
        .iter()
        .map(|key| format!("key={}", percent_encoded(key)));
    let fields: Vec<String> = fields.collect();
    let exported = downloaded(&process, &site, "export.ndjson", &fields.join("&"));
    let exported: Vec<String> = (exported.lines())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|row| row["_key"].as_str().expect("a key").to_owned())
        .collect();
    assert_eq!(exported, keys);
}

/// The rows of the grid with this label.
fn rows_of(page: &str, label: &str) -> Vec<String> {
    let of = format!("aria-label=\"{label}\"");
    let (_, grid) = page.split_once(&of).expect("the grid");
    rows(grid.split("</table>").next().expect("its table"))
}

#[test]
fn lists_that_are_whole_are_sorted_by_a_click_on_a_column() {
    let process = Setup::with_streams(&["beta", "alpha", "gamma"])
        .sink("pool", "pool", "*", "")
        .read_key("hall", &["alpha"], "")
        .read_key("lobby", &["gamma"], "")
        .read_key("bar", &["beta"], "")
        .spawn();
    for (stream, items) in [("alpha", 2), ("beta", 11), ("gamma", 9)] {
        let items: Vec<_> = (0..items).map(|number| json!({"id": number})).collect();
        process.accepted(stream, BY_ID, &json!(items).to_string());
    }
    process.drained();
    let site = Site::signed_in(&process);
    let page = site.page("/streams");
    let most = link(&page, "Items").expect("a link");
    let page = site.page(&most);
    assert_eq!(
        rows(&page),
        ["beta", "gamma", "alpha"],
        "numbers, the most first"
    );
    assert!(page.contains("aria-sort=\"descending\""), "{page}");
    let page = site.page(&link(&page, "Items").expect("a link"));
    assert_eq!(rows(&page), ["alpha", "gamma", "beta"]);
    let page = site.page(&link(&page, "Stream").expect("a link"));
    assert_eq!(rows(&page), ["alpha", "beta", "gamma"]);

    // Of several lists on a page, one is sorted.
    let page = site.page("/renderers?sort=-read-keys.read-key");
    let keys = rows_of(&page, "Read keys");
    assert_eq!(keys, ["key-lobby", "key-hall", "key-bar"]);
    let page = site.page("/renderers?sort=read-keys.streams");
    let keys = rows_of(&page, "Read keys");
    assert_eq!(keys, ["key-hall", "key-bar", "key-lobby"]);
    for path in ["/connectors", "/sinks", "/sessions", "/"] {
        let page = site.page(path);
        assert!(page.contains(&format!("href=\"{path}?sort=")), "{path}");
    }
}
