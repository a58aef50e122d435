//! The bytes of each format, against files: quotes, line breaks, pictures, right-to-left text, numbers that no float
//! holds, arrays, `null`, and fields that an item does not have.
//!
//! `HEADGATE_WRITE_GOLDEN=1` writes the files anew: look at what git says of them then.

use std::path::Path;

use super::{feed, scores, send};
use crate::app::TestApp;

/// What no format must break at.
const ITEMS: &str = r#"[
    {"id": "m10", "home": {"name": "Bären", "score": 2}, "live": true},
    {"id": "m2", "home": {"name": "Lions \"A\", U18", "score": 10.50}, "live": false, "note": "one\r\ntwo\nthree",
     "picture": "⚽ 👩‍👧", "rtl": "مرحبا, world", "huge": 1e400, "big": 18446744073709551616, "difference": "+3",
     "formula": "=1+1", "tags": ["a", {"b": 1.10}], "none": null, "empty": {}, "markup": "<b>&amp;\"</b>", "tab": "a\tb"}
]"#;

/// The answer with its dates taken out: they are those of the test.
async fn text(app: &TestApp, query: &str) -> String {
    let mut text = feed(app, query).await.text();
    while let (Some(from), Some(to)) = (text.find("<pubDate>"), text.find("</pubDate>")) {
        let date = text[from + "<pubDate>".len()..to].to_owned();
        assert!(date.ends_with(" +0000") && date.len() == 31, "{date}");
        text.replace_range(from..to + "</pubDate>".len(), "");
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_format_is_as_it_was() {
    let app = scores().start().await;
    send(&app, ITEMS).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/feeds");
    let chosen = "fields=Title.Text:home.name,home.score,_position,no.such";
    let all = [
        ("all.json", "scores.json".to_owned()),
        ("nested.json", "scores.json?names=nested".to_owned()),
        ("object.json", format!("scores.json?shape=object&{chosen}")),
        ("one.json", format!("scores.json?shape=one&sort=-home.score&names=.&{chosen}")),
        ("fields.json", "scores.json?shape=fields&key=m2".to_owned()),
        ("all.ndjson", "scores.ndjson".to_owned()),
        ("all.csv", "scores.csv".to_owned()),
        ("excel.csv", "scores.csv?sep=%3B&bom&safe&comma&decimals=1".to_owned()),
        ("all.tsv", "scores.tsv?names=.".to_owned()),
        ("all.xml", "scores.xml".to_owned()),
        ("nested.xml", "scores.xml?names=nested&key=m2".to_owned()),
        ("fields.xml", "scores.xml?shape=fields&key=m10".to_owned()),
        ("all.rss", "scores.rss".to_owned()),
        ("news.rss", "scores.rss?title={home.name}:+{home.score}&description=note&link=https://example.com/{_key}&image=picture".to_owned()),
        ("fields.rss", "scores.rss?shape=fields&key=m10".to_owned()),
        ("all.txt", "scores.txt?fields=_key,home.name,note".to_owned()),
        ("ticker.txt", "scores.txt?text={_position}.+{home.name}+{home.score}&join=+·+&decimals=0".to_owned()),
        ("value.txt", "scores.txt?key=m2&fields=home.score".to_owned()),
    ];
    for format in ::feed::formats() {
        let end = format!(".{format}");
        let has_file = all.iter().any(|(file, _)| file.ends_with(&end));
        assert!(has_file, "no file is of the format {format}");
    }
    for (file, query) in all {
        let found = text(&app, &query).await;
        let path = folder.join(file);
        if std::env::var_os("HEADGATE_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &found).expect("the folder is there");
        }
        let expected = std::fs::read_to_string(&path).expect("a file of the tests");
        assert_eq!(found, expected, "{query} is not {file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_empty_stream_is_an_empty_table() {
    let app = scores().start().await;
    let headers = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    for (query, expected) in [
        ("scores.json", "[]".to_owned()),
        ("scores.json?shape=object", "{}".to_owned()),
        ("scores.json?shape=one", "{}".to_owned()),
        ("scores.json?shape=fields", "[]".to_owned()),
        ("scores.ndjson", String::new()),
        ("scores.csv", "_key\n".to_owned()),
        ("scores.csv?header=false", String::new()),
        ("scores.csv?fields=a.b,Score:c", "a_b,Score\n".to_owned()),
        ("scores.tsv?fields=a.b,c", "a_b\tc\n".to_owned()),
        (
            "scores.xml",
            format!("{headers}<items total=\"0\"></items>\n"),
        ),
        ("scores.xml?shape=one", format!("{headers}<item/>\n")),
        ("scores.txt", String::new()),
    ] {
        let reply = feed(&app, query).await;
        assert_eq!(reply.text(), expected, "{query}");
        assert_eq!(reply.header("x-total-count"), Some("0"));
    }
    assert!(!feed(&app, "scores.rss").await.text().contains("<item>"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rows_are_chosen_and_sorted() {
    let app = scores().start().await;
    send(
        &app,
        r#"[{"id": "m1", "team": "b", "goals": 10, "status": "live", "period": 1},
            {"id": "m2", "team": "a", "goals": 9.5, "status": "live", "period": 2},
            {"id": "m10", "team": "c", "status": "over", "period": 3},
            {"id": "m3", "team": "item, or: so", "goals": 1e3, "status": "live", "period": 10}]"#,
    )
    .await;
    for (query, expected) in [
        ("", "m1 m2 m3 m10"),
        ("&sort=-_key", "m10 m3 m2 m1"),
        ("&sort=goals", "m2 m1 m3 m10"),
        ("&sort=-goals", "m3 m1 m2 m10"),
        ("&sort=status,-team", "m3 m1 m2 m10"),
        ("&limit=2", "m1 m2"),
        ("&limit=2&offset=1", "m2 m3"),
        ("&offset=9", ""),
        ("&key=m10,m1,none", "m1 m10"),
        ("&where=status:live", "m1 m2 m3"),
        ("&where=status:live,period:1|10", "m1 m3"),
        ("&where=!status:live", "m10"),
        ("&where=goals:", "m10"),
        ("&where=!goals:,!team:a", "m1 m3"),
        (r"&where=team:item\,%20or:%20so", "m3"),
        ("&where=goals%3E=10", "m1 m3"),
        ("&where=goals%3C10", "m2"),
        ("&where=goals%3E9,!period:1", "m2 m3"),
        ("&where=goals?", "m1 m2 m3"),
        ("&where=!goals?", "m10"),
        ("&where=_key^m1", "m1 m10"),
        ("&where=_stream:scores,status^o", "m10"),
        ("&where=_key:m2", "m2"),
        ("&sort=-goals&limit=1", "m3"),
    ] {
        let query = format!("scores.txt?fields=_key&join=+{query}");
        assert_eq!(feed(&app, &query).await.text(), expected, "{query}");
    }
    let total = feed(&app, "scores.csv?where=status:live&limit=1").await;
    assert_eq!(total.header("x-total-count"), Some("3"));
    let position = feed(
        &app,
        "scores.txt?fields=_position,_key&sort=-_key&offset=1&limit=2",
    )
    .await;
    assert_eq!(position.text(), "2 m3\n3 m2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn columns_are_chosen_by_their_beginning_and_left_out() {
    let app = scores().start().await;
    let item = r#"{"id": "m1", "home": {"name": "A", "score": 2}, "away": {"name": "B", "score": 1}, "note": null}"#;
    send(&app, item).await;
    for (query, expected) in [
        ("fields=home.*,id", "home_name,home_score,id"),
        ("fields=home.*,Goals:home.score", "home_name,Goals"),
        (
            "fields=away.name,home.*,away.*",
            "away_name,home_name,home_score,away_score",
        ),
        ("fields=-note,-away.*", "_key,id,home_name,home_score"),
        ("fields=-_key,-home.*", "id,away_name,away_score,note"),
        (r"fields=\-note,home.\*", "-note,home_*"),
        ("fields=_stream,id", "_stream,id"),
    ] {
        let text = feed(&app, &format!("scores.csv?{query}")).await.text();
        assert_eq!(text.lines().next(), Some(expected), "{query}");
    }
    let stream = feed(&app, "scores.txt?fields=_stream,id").await;
    assert_eq!(stream.text(), "scores m1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn values_in_a_text_are_changed_by_filters() {
    let app = scores().start().await;
    let item = r#"{"id": "m1", "price": 12.345, "name": "Ann", "a|b": 1, "_position": "mine"}"#;
    send(&app, item).await;
    for (text, expected) in [
        ("{price|decimals:2}", "12.35"),
        ("{price|decimals:1}&comma&decimals=0", "12,3"),
        ("{price}&comma&decimals=0", "12"),
        ("{price|first:2}&decimals=1", "12"),
        ("[{name|pad:4}{name|pad:-4}]", "[Ann  Ann]"),
        ("{note|or:none} {_stream}", "none scores"),
        (r"{a\|b} {_position}&decimals=2", "1.00 1"),
        (r"{name|json}{{name}{open\", "\"Ann\"{open\\"),
    ] {
        let query = format!("scores.txt?text={}", text.replace(' ', "%20"));
        assert_eq!(feed(&app, &query).await.text(), expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_be_used_is_said_and_what_is_not_known_is_ignored() {
    let app = scores().start().await;
    send(&app, r#"{"id": "m1"}"#).await;
    let screen = app.reader("screen");
    for (query, words) in [
        (
            "scores.csv?limit=10001",
            "limit must be a whole number from 1 to 10000",
        ),
        ("scores.csv?limit=0", "limit"),
        ("scores.csv?offset=-1", "offset"),
        ("scores.csv?decimals=2.5", "decimals"),
        ("scores.csv?names=dots", "names must be _"),
        ("scores.csv?names=nested", "names=nested is for json"),
        ("scores.csv?shape=table", "shape must be"),
        ("scores.csv?shape=object", "shape=object is for json"),
        (
            "scores.csv?where=period:1,status",
            "where, character 16: `:`, `^`, `>`, `<` or `?` is expected behind `status`",
        ),
        (
            "scores.csv?where=_position:1",
            "where, character 1: `_position` is counted after `where`",
        ),
        (
            "scores.csv?fields=-id,period",
            "fields, character 5: a list names fields or leaves fields out, not both",
        ),
        (
            "scores.txt?text={id|desimals:2}",
            "text, character 5: the filter `desimals` is not known; `decimals` is",
        ),
        ("scores.csv?sep=%22", "sep must be one character"),
        ("scores.csv?sep=ab", "sep must be one character"),
        ("scores.csv?header=maybe", "header must be true or false"),
    ] {
        let refusal = screen.get(&format!("/feed/{query}")).await;
        let refusal = refusal.refused(400, "INVALID_REQUEST");
        assert!(
            refusal.message.contains(words),
            "{query}: {}",
            refusal.message
        );
    }
    for path in ["/feed/scores.pdf", "/feed/scores", "/feed/scores."] {
        screen.get(path).await.refused(404, "NOT_FOUND");
    }
    let plain = feed(&app, "scores.csv").await;
    assert_eq!(
        feed(&app, "scores.csv?ts=17&_=9&callback=x").await.body,
        plain.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_two_columns_have_the_same_name() {
    let app = scores().start().await;
    send(
        &app,
        r#"{"id": "m1", "a.b": 1, "a_b": 2, "_key": 3, "a b": 4}"#,
    )
    .await;
    let header = async |query: &str| {
        let text = feed(&app, query).await.text();
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(header("scores.csv").await, "_key,id,a_b,a_b_2,_key_2,a b");
    assert_eq!(
        header("scores.csv?names=.").await,
        "_key,id,a.b,a_b,_key_2,a b"
    );
    assert_eq!(header("scores.csv?fields=a.b,a_b:a_b").await, "a_b_2,a_b");
    assert_eq!(
        header("scores.csv?fields=X.Y:a.b,X.Y:a_b").await,
        "X.Y,X.Y_2"
    );
    let xml = feed(&app, "scores.xml?fields=a.b,a_b,a%20b").await.text();
    assert!(
        xml.contains("<a_b>1</a_b><a_b_2>2</a_b_2><a_b_3>4</a_b_3>"),
        "{xml}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_of_any_name_has_a_feed() {
    let app = crate::setup::Setup::new()
        .stream("a.b/c d%.csv")
        .key("desk", "a.b/c d%.csv")
        .read_key("screen", &["a.b/c d%.csv"], "")
        .start()
        .await;
    send(&app, r#"{"id": "1"}"#).await;
    let reply = feed(&app, "a.b%2Fc%20d%25.csv.json").await;
    assert_eq!(reply.text(), r#"[{"_key":"1","id":"1"}]"#);
}
