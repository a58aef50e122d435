//! The grid of the lists: rows of one line, the keyboard, times, columns that are kept, and lists that do not jump.

use serde_json::{Value, json};

use super::admin::{log_without_refusals, origin, sign_in};
use super::daemon::Daemon;
use super::driver::{Window, key};
use crate::process::BY_ID;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

const CLUBS: &str = include_str!("../../fixtures/clubs.txt");

/// Every list.
const LISTS: [&str; 9] = [
    "/streams/orders",
    "/streams",
    "/connectors/tests",
    "/connectors",
    "/sinks",
    "/sinks/crm",
    "/renderers",
    "/audit",
    "/sessions",
];

/// Cells with text on two lines, values that something covers, controls without a name, controls that are too small for a finger, and how much wider
/// than the window the page is.
const CHECKED: &str = "
    const cells = [...document.querySelectorAll('.grid tbody td, .grid tbody th')].filter((cell) => cell.offsetParent);
    const texts = (cell) => {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
      while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
      return found;
    };
    const broken = cells.filter((cell) => texts(cell).some((text) => {
      const range = document.createRange();
      range.selectNodeContents(text);
      return new Set([...range.getClientRects()].filter((box) => box.width > 1).map((box) => Math.round(box.top))).size > 1;
    })).map((cell) => cell.textContent);
    const unnamed = [...document.querySelectorAll('main a, main button, main input:not([type=hidden]), .grid .scroll')]
      .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length || one.title)).map((one) => one.outerHTML);
    const heights = [...document.querySelectorAll('.grid tbody tr')].map((row) => Math.round(row.getBoundingClientRect().height));
    // What changes a value is seen beside it, in its row, or not at all.
    const covered = [...document.querySelectorAll('.grid td > .edit')]
      .filter((edit) => edit.getClientRects().length && getComputedStyle(edit).opacity > 0)
      .filter((edit) => {
        const [own, row] = [edit, edit.closest('tr')].map((one) => one.getBoundingClientRect());
        const value = edit.parentElement.querySelector('.val, .box').getBoundingClientRect();
        return own.top < row.top - 1 || own.bottom > row.bottom + 1 || own.left < value.right - 1 && own.right > value.left + 1;
      }).map((edit) => edit.parentElement.textContent);
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    return { broken, covered, unnamed, twice: ids.filter((id, at) => ids.indexOf(id) !== at), heights: [...new Set(heights)],
      rows: heights.length, wider: document.documentElement.scrollWidth - innerWidth,
      styles: document.querySelectorAll('[style]').length };";

/// Texts of every kind, in a row each, and rejected and failed requests.
fn fill(process: &crate::process::Process) {
    let long = "word ".repeat(60);
    let items = json!([
        {"id": "m1", "name": "Wolverhampton Wanderers of Somewhere Far Away", "score": 2, "note": long},
        {"id": "مباراة-٢٠٢٦-٠٠٧", "name": "نادي الهلال الرياضي السعودي بالرياض", "score": 10},
        {"id": "order-2026-11-24-0123456789abcdef-0123456789abcdef-eu-west-1-000017", "name": "川崎フロンターレ", "score": 0.5},
        {"id": "m4", "name": "<b>bold</b>", "deep": {"list": [1, 2, {"a": "b c d"}]}, "empty": "", "nothing": null},
        {"id": "m5", "name": "line one\nline two", "unbroken": "w".repeat(400)},
    ]);
    process.accepted("orders", BY_ID, &items.to_string());
    for _ in 0..3 {
        assert_eq!(
            process.post("orders", "X-Item-Key: id\r\n", "{}").status,
            400
        );
    }
    process.drained();
}

/// One with lists that have something of every kind.
pub(super) fn daemon() -> crate::process::Process {
    let reason = "no such customer in a text that goes on and on. ".repeat(5);
    let receiver = Receiver::start(move |_, _| answer(400, "", &reason));
    let host = receiver.url("");
    let more = format!(
        "config = {{ url = \"{host}/\" }}\nhttp = {{ hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink("crm", "http-forward", "orders", &more)
        .given_read_key(
            "screen",
            &["orders"],
            "rk_live_for_the_tests_of_grids_0001",
            "",
        )
        .spawn();
    fill(&process);
    process
}

#[test]
fn no_cell_of_any_list_is_on_two_lines_at_a_desk_on_a_wall_or_on_a_phone() {
    let test = "no_cell_of_any_list_is_on_two_lines_at_a_desk_on_a_wall_or_on_a_phone";
    let Some(window) = Window::open(test) else {
        return;
    };
    let process = daemon();
    let clubs: Vec<&str> = CLUBS.lines().collect();
    let items = clubs.chunks(8).enumerate().map(|(at, names)| {
        let named = names
            .iter()
            .zip(["home", "away", "a", "b", "c", "d", "e", "f"]);
        let mut item: serde_json::Map<_, _> = named
            .map(|(club, field)| (format!("{field}.name"), json!(club)))
            .collect();
        item.insert("id".to_owned(), json!(format!("club-{at}")));
        item
    });
    let items: Vec<_> = items.collect();
    process.accepted("orders", BY_ID, &json!(items).to_string());
    process.drained_when(|| process.sink("pool")["lag"] == 0);
    let origin = format!("http://{}", process.admin);
    sign_in(&window, &origin, "/");
    for (width, height) in [(1440, 1000), (390, 844), (3840, 2160)] {
        window.resize(width, height);
        for path in LISTS {
            window.go(&format!("{origin}{path}"));
            let seen = window.run(CHECKED, &json!([]));
            let none = json!([]);
            assert_eq!(seen["broken"], none, "{path} at {width}");
            assert_eq!(seen["covered"], none, "{path} at {width}");
            assert_eq!(seen["unnamed"], none, "{path} at {width}");
            assert_eq!(seen["twice"], none, "{path} at {width}");
            assert_eq!(seen["styles"], 0, "{path} at {width}");
            assert!(
                seen["wider"].as_i64() <= Some(0),
                "{path} at {width}: {seen}"
            );
            let rows = seen["rows"].as_u64();
            assert!(rows > Some(0) || path == "/renderers", "{path}: {seen}");
            let of_row = match width {
                1440 => 36,
                3840 => 46,
                _ => continue,
            };
            // The list of screens is empty.
            if rows > Some(0) {
                assert_eq!(seen["heights"], json!([of_row]), "{path} at {width}");
            }
        }
    }
    assert_eq!(log_without_refusals(&window, &origin), Vec::<String>::new());
}

#[test]
fn a_list_is_walked_selected_and_opened_with_the_keyboard_alone() {
    let Some(window) = Window::open("a_list_is_walked_selected_and_opened_with_the_keyboard_alone")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items =
        r#"[{"id": "a", "name": "one"}, {"id": "b", "name": "two"}, {"id": "c", "name": "one"}]"#;
    daemon.process().accepted("orders", BY_ID, items);
    daemon.process().drained();
    sign_in(&window, &origin(&daemon), "/streams/orders");
    let focused = "return document.activeElement.closest('tr')?.dataset.row ?? null";
    let walk = |keys: &str, row: Value| {
        window.keys(keys);
        window.shows(focused, &row);
    };
    walk("j", json!("c"));
    walk("jj", json!("a"));
    walk("j", json!("a"));
    walk("k", json!("b"));
    window.keys("x");
    let selected = "return [[...document.querySelectorAll('tbody .pick :checked')].map((box) => box.value), getComputedStyle(document.querySelector('.bulk')).display]";
    window.shows(selected, &json!([["b"], "flex"]));
    // Nothing is replaced while something is selected: what is new is counted.
    daemon.process().accepted("orders", BY_ID, r#"{"id": "d"}"#);
    let news = "return document.querySelector('.news').textContent";
    window.shows(news, &json!("1 new"));
    window.shows(focused, &json!("b"));
    window.keys("x");
    let rows =
        "return [...document.querySelectorAll('.grid tbody tr')].map((row) => row.dataset.row)";
    window.shows(rows, &json!(["d", "c", "b", "a"]));
    // The row has the focus still.
    window.shows(focused, &json!("b"));
    // Along the row, to a value: Enter leaves those that have the same.
    window.keys(&String::from_iter([key::RIGHT, key::ENTER]));
    window.shows(rows, &json!(["b"]));
    window.shows(
        "return document.querySelector('.chip').textContent.replace('×', '')",
        &json!("name: two"),
    );
    window.keys(&String::from_iter(['j', key::ENTER]));
    window.shows(
        "return document.querySelector('h1').textContent",
        &json!("b"),
    );
    assert_eq!(
        log_without_refusals(&window, &origin(&daemon)),
        Vec::<String>::new()
    );
}

#[test]
fn times_are_in_the_reader_s_zone_and_ranges_are_sent_in_utc() {
    let Some(window) = Window::open("times_are_in_the_reader_s_zone_and_ranges_are_sent_in_utc")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.process().accepted("orders", BY_ID, r#"{"id": "a"}"#);
    daemon.process().drained();
    window.devtools(
        "Emulation.setTimezoneOverride",
        &json!({"timezoneId": "Asia/Kolkata"}),
    );
    sign_in(&window, &origin(&daemon), "/connectors/tests");
    let times = "const time = document.querySelector('.grid time'); \
                 return [/^(now|\\d+ (s|min) ago)$/.test(time.textContent), /GMT\\+5:30 · \\d\\d:\\d\\d:\\d\\d UTC$/.test(time.title), \
                 document.querySelector('label[for=since]').textContent, document.getElementById('zone').textContent]";
    let zone = "times are in Asia/Calcutta";
    window.becomes("times are local", times, &json!([]), |seen| {
        let shown = seen[3].as_str().unwrap_or_default();
        seen[0] == true
            && seen[1] == true
            && seen[2] == "From"
            && (shown == zone || shown == "times are in Asia/Kolkata")
    });
    window.run(
        "document.getElementById('since').value = '2026-01-31T05:30:00'; document.querySelector('form.filter').requestSubmit()",
        &json!([]),
    );
    let sent = "return [new URL(location.href).searchParams.get('since'), document.getElementById('since')?.value]";
    window.becomes("it is sent in UTC", sent, &json!([]), |seen| {
        seen[0] == "2026-01-31T00:00:00"
            && (seen[1].as_str()).is_some_and(|shown| shown.starts_with("2026-01-31T05:30"))
    });
}

#[test]
fn chosen_columns_are_kept_in_the_browser() {
    let Some(window) = Window::open("chosen_columns_are_kept_in_the_browser") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items = r#"[{"id": "1", "often": 1, "seldom": 1, "name": "x"}, {"id": "2", "often": 2, "name": "y"}]"#;
    daemon.process().accepted("orders", BY_ID, items);
    daemon.process().drained();
    sign_in(&window, &origin(&daemon), "/streams/orders");
    let heads = "return [...document.querySelectorAll('.grid thead th')].map((head) => head.textContent).filter(Boolean)";
    let usual = json!([
        "Key", "often", "name", "seldom", "Version", "Source", "Updated"
    ]);
    window.shows(heads, &usual);
    let numbers =
        "return [...document.querySelectorAll('.grid thead .n')].map((head) => head.textContent)";
    window.shows(numbers, &json!(["often", "seldom", "Version"]));
    window.run(
        "const form = document.querySelector('form[data-columns]'); \
         form.querySelectorAll('[name=column]').forEach((box) => (box.checked = box.value === 'name')); form.requestSubmit()",
        &json!([]),
    );
    let chosen = json!(["Key", "name", "Version", "Source", "Updated"]);
    window.shows(heads, &chosen);
    window.go("about:blank");
    window.go(&format!("{}/streams/orders", origin(&daemon)));
    window.shows(heads, &chosen);
    window.go(&format!("{}/streams/orders?all-columns", origin(&daemon)));
    window.shows(heads, &usual);
}

#[test]
fn a_list_that_is_scrolled_down_stays_until_its_reader_is_back_at_the_top() {
    let Some(window) =
        Window::open("a_list_that_is_scrolled_down_stays_until_its_reader_is_back_at_the_top")
    else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items: Vec<Value> = (0..50)
        .map(|number| json!({"id": format!("k{number:02}")}))
        .collect();
    daemon
        .process()
        .accepted("orders", BY_ID, &json!(items).to_string());
    daemon.process().drained();
    sign_in(&window, &origin(&daemon), "/streams/orders");
    let seen = "const scroll = document.querySelector('.grid .scroll'); \
                return [document.querySelector('.grid tbody tr').dataset.row, scroll.scrollTop, document.querySelector('.news').textContent]";
    window.run(
        "document.querySelector('.grid .scroll').scrollTop = 90",
        &json!([]),
    );
    for (key, news) in [("l1", "1 new"), ("l2", "2 new")] {
        daemon
            .process()
            .accepted("orders", BY_ID, &json!({"id": key}).to_string());
        window.shows(seen, &json!(["k49", 90, news]));
    }
    window.run(
        "document.querySelector('.grid .scroll').scrollTop = 0",
        &json!([]),
    );
    window.shows(seen, &json!(["l2", 0, ""]));
    // Head and first column stay in view.
    let sticky = "const scroll = document.querySelector('.grid .scroll'); scroll.scrollTop = 300; \
                  const [head, box] = [scroll.querySelector('thead th.key'), scroll].map((one) => one.getBoundingClientRect()); \
                  return Math.abs(head.top - box.top) < 2 && head.left - box.left < 50";
    window.shows(sticky, &json!(true));
}

#[test]
fn escape_leaves_a_menu_then_the_row_then_the_selection() {
    let Some(window) = Window::open("escape_leaves_a_menu_then_the_row_then_the_selection") else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    daemon.process().accepted(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 2}]"#,
    );
    daemon.process().drained();
    sign_in(&window, &origin(&daemon), "/streams/orders");
    window.keys("jxjx");
    window.run("document.querySelector('.menu').open = true", &json!([]));
    let state = "return [document.querySelector('.menu').open, document.activeElement.closest('tr')?.dataset.row ?? null, \
                 document.querySelectorAll('tbody .pick :checked').length]";
    window.shows(state, &json!([true, "a", 2]));
    window.keys(&key::ESCAPE.to_string());
    window.shows(state, &json!([false, null, 2]));
    window.keys("j");
    window.shows(state, &json!([false, "b", 2]));
    window.keys(&key::ESCAPE.to_string());
    window.shows(state, &json!([false, null, 2]));
    window.keys(&key::ESCAPE.to_string());
    window.shows(state, &json!([false, null, 0]));
    // All of the page with one box.
    window.click("[data-all]");
    window.shows(state, &json!([false, null, 2]));
}

#[test]
fn a_row_is_a_card_on_a_phone() {
    let Some(window) = Window::open("a_row_is_a_card_on_a_phone") else {
        return;
    };
    let process = daemon();
    let origin = format!("http://{}", process.admin);
    window.resize(390, 844);
    sign_in(&window, &origin, "/streams/orders");
    // Of each card: the key and the time beside it, and up to four values, each with its label on its line.
    let cards = "return [...document.querySelectorAll('.grid tbody tr')].map((row) => {
      const shown = [...row.children].filter((cell) => cell.getClientRects().length);
      const [key, when] = ['.key', '.when'].map((name) => row.querySelector(name).getBoundingClientRect());
      const leads = shown.filter((cell) => cell.matches('.lead'));
      const labels = leads.map((cell) => getComputedStyle(cell, '::before').content.replaceAll('\"', ''));
      return { beside: Math.abs(key.top - when.top) < 8 && key.right <= when.left + 1, leads: leads.length, others: shown.length - leads.length, labels,
        inside: row.getBoundingClientRect().right <= innerWidth };
    })";
    let seen = window.run(cards, &json!([]));
    let seen = seen.as_array().expect("cards");
    assert_eq!(seen.len(), 5);
    for card in seen {
        assert_eq!(card["beside"], true, "{card}");
        assert_eq!(card["inside"], true, "{card}");
        assert_eq!(card["others"], 3, "box, key and time: {card}");
        let labels = card["labels"].as_array().expect("labels");
        assert!((1..=4).contains(&labels.len()), "{card}");
        assert!(
            labels
                .iter()
                .all(|label| !["", "none"].contains(&label.as_str().expect("a text"))),
            "{card}"
        );
    }
    // A finger selects, and what can be done comes into view.
    window.click(".grid tbody tr .pick input");
    let bulk = "const box = document.querySelector('.bulk').getBoundingClientRect(); return box.height > 0 && box.bottom <= innerHeight && box.right <= innerWidth";
    window.shows(bulk, &json!(true));
}
