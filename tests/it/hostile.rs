//! Texts that break pages and terminals, and what must not come out where they went in.

use serde_json::{Value, json};

use crate::process::Process;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

/// What markup in a text would do.
pub(crate) const MARKUP: &str =
    "<img src=x onerror='window.broken = 1'><script>window.broken = 1</script>";
/// A header value as a caller may send it: visible ASCII.
pub(crate) const IN_A_HEADER: &str = "\"><script>window.broken=1</script><b/x='`";
/// A stream's name may hold anything but control characters.
pub(crate) const STREAM: &str = "<b>\"'&amp;\u{202e}\u{200b}</b>";

/// One of each kind.
pub(crate) fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        MARKUP,
        "\" onmouseover=\"window.broken=1\" x='",
        "'-window.broken=1-'",
        "</td></table></main><h1>taken over</h1>",
        "</textarea></title></style><script>window.broken=1</script>",
        "javascript:window.broken=1",
        "&lt;script&gt;&#60;b&#62;",
        "{{7*7}}${7*7}<%= 7 %>",
        "\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{1b}[2J",
        "\u{9b}31m\u{85}\u{90}q\u{9c}\u{7f}",
        "right\u{202e}tfel\u{2066}\u{200f}\u{61c}",
        "zero\u{200b}width\u{feff}\u{2060}",
        "tags\u{e0041}\u{e007f} soft\u{ad} notes\u{fff9}\u{180e}",
        "nul\0 and\r\nlines\u{2028}\u{2029}\t",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("w".repeat(10_000));
    texts
}

/// Whether a reader's terminal would obey this character, or not show it.
pub(crate) fn is_raw(character: char) -> bool {
    let unseen = "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{2060}\u{feff}\u{ad}\u{180e}";
    character.is_control()
        || unseen.contains(character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
        || ('\u{fff9}'..='\u{fffb}').contains(&character)
        || ('\u{e0000}'..='\u{e007f}').contains(&character)
}

/// A daemon that has been sent all of them: as keys, fields, values, streams, headers, and reasons of a sink that gives
/// up.
pub(crate) fn daemon() -> Process {
    let reasons = texts();
    let receiver = Receiver::start(move |_, before| {
        let reason = &reasons[before % reasons.len()];
        answer(400, "", reason)
    });
    let host = receiver.url("");
    let more = format!(
        "batch = {{ items_max = 1 }}\nretry = {{ first_ms = 10, max_ms = 40, attempts = 1 }}\nconfig = {{ url = \"{host}/\" }}\nhttp = {{ hosts = [\"{host}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink("back", "http-forward", "*", &more)
        .given_read_key(
            "screen",
            &["orders"],
            "rk_live_for_the_hostile_texts_00001",
            "",
        )
        .spawn();
    let made = process.call(
        "POST",
        "/api/admin/streams",
        &json!({"name": STREAM}).to_string(),
    );
    assert_eq!(made.status, 201, "{}", made.body);
    fill(&process);
    process
}

fn fill(process: &Process) {
    let mut last = String::new();
    for (number, text) in texts().into_iter().enumerate() {
        let key: String = text.chars().take(100).collect();
        let mut item = serde_json::Map::new();
        item.insert("id".to_owned(), Value::from(key));
        item.insert(text.chars().take(200).collect(), Value::from(text.clone()));
        item.insert("nested".to_owned(), json!({ "in": [text.clone()] }));
        let headers = format!(
            "X-Item-Key: id\r\nUser-Agent: {IN_A_HEADER}\r\nIdempotency-Key: {IN_A_HEADER}{number}\r\n"
        );
        last = process.accepted("orders", &headers, &Value::Object(item).to_string());
        // What a refusal repeats.
        let twice = json!(text).to_string();
        let refused = process.post("orders", "", &format!("{{{twice}: 1, {twice}: 2}}"));
        assert_eq!(refused.status, 400, "{}", refused.body);
    }
    let missing = format!("X-Item-Key: {IN_A_HEADER}\r\n");
    assert_eq!(process.post("orders", &missing, "{}").status, 400);
    process.request_becomes(&last, "failed");
    process.drained();
    let letters = process.dead_letters("back");
    assert!(letters.len() >= texts().len(), "{}", letters.len());
}
