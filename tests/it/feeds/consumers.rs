//! What programs need that poll: each rule as the program's source or documentation has it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::Value;

use super::{changed, feed, scores, send};

const MATCHES: &str = r#"[{"id": "m1", "home": {"name": "Don’t", "score": 1}, "note": "a\r\nb\nc, \"d\""},
    {"id": "m2", "away": {"name": "Bären"}, "list": [1, 2], "home": {"score": 2}}]"#;

/// Xibo asks with HEAD first, takes `Last-Modified` for the version if there is one, else a digest of the body; it
/// splits CSV at line feeds before it parses, and finds columns by number.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn xibo() {
    let app = scores().start().await;
    send(&app, MATCHES).await;
    let screen = app.reader("screen");
    let path = "/feed/scores.csv";
    let head = screen.call(Method::HEAD, path, &[], "").await;
    let get = screen.get(path).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        Some(&*get.body.len().to_string())
    );
    for reply in [&head, &get] {
        assert_eq!(reply.header("last-modified"), None);
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        assert_eq!(
            reply.header("content-type"),
            Some("text/csv; charset=utf-8")
        );
    }
    assert_eq!(screen.get(path).await.body, get.body, "nothing has changed");
    let text = get.text();
    assert!(!text.contains('\r') && text.ends_with('\n'));
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    assert_eq!(lines.len(), 3);
    let header: Vec<&str> = lines[0].split(',').collect();
    for line in &lines[1..] {
        assert_eq!(cells(line).len(), header.len(), "{line}");
    }
    send(&app, r#"{"id": "m2", "home": {"score": 3}}"#).await;
    assert_ne!(changed(&app, "scores.csv", &get).await.body, get.body);
}

/// The values of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut all, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                cell.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    assert!(!is_quoted, "{line}");
    all.push(cell);
    all
}

/// vMix takes an array of objects, each a row, without arrays inside; it maps a column with exactly the name of a title's
/// field, or else by its place. It showed a text that was read as Latin-1.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn vmix() {
    let app = scores().start().await;
    send(&app, MATCHES).await;
    let query = "scores.json?fields=Headline.Text:home.name,Score.Text:home.score,List.Text:list";
    let reply = feed(&app, query).await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    let rows: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 2);
    for row in rows {
        let row = row.as_object().expect("an object");
        let names: Vec<&str> = row.keys().map(String::as_str).collect();
        assert_eq!(names, ["Headline.Text", "Score.Text", "List.Text"]);
        assert!(
            row.values()
                .all(|value| !value.is_array() && !value.is_object()),
            "{row:?}"
        );
    }
    assert_eq!(rows[0]["Headline.Text"], "Don’t");
    assert_eq!(rows[1]["List.Text"], "[1,2]");
}

/// Flowics sends no header, and believes the charset of the answer; spreadsheets append parameters of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn flowics_and_spreadsheets() {
    let app = scores().start().await;
    send(&app, MATCHES).await;
    let token = app.read_secret("screen");
    for (format, kind) in [
        ("json", "application/json"),
        ("csv", "text/csv"),
        ("tsv", "text/tab-separated-values"),
        ("xml", "application/xml"),
        ("rss", "application/rss+xml"),
        ("txt", "text/plain"),
        ("ndjson", "application/x-ndjson"),
    ] {
        let path = format!("/feed/scores.{format}?token={token}&ts=1700000000");
        let reply = app.anonymous().get(&path).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let expected = format!("{kind}; charset=utf-8");
        assert_eq!(reply.header("content-type"), Some(&*expected));
        assert!(reply.text().contains("Bären"), "{format}");
    }
}

/// Excel asks without a key, and again with a password when it is told that Basic is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn excel() {
    let app = scores().start().await;
    send(&app, MATCHES).await;
    let anyone = app.anonymous();
    let asked = anyone.get("/feed/scores.csv?bom&sep=%3B").await;
    assert_eq!(asked.status, 401);
    let asked = asked.headers.get_all("www-authenticate");
    assert!(
        asked
            .iter()
            .any(|one| one.as_bytes().starts_with(b"Basic realm="))
    );
    let pair = BASE64_STANDARD.encode(format!("me:{}", app.read_secret("screen")));
    let headers = [("Authorization", &*format!("Basic {pair}"))];
    let reply = anyone
        .call(Method::GET, "/feed/scores.csv?bom&sep=%3B", &headers, "")
        .await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.body.starts_with("\u{feff}_key;id;".as_bytes()),
        "{}",
        reply.text()
    );
}

/// BrightSign fills variables from titles and descriptions.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn brightsign() {
    let app = scores().start().await;
    send(&app, MATCHES).await;
    let text = feed(
        &app,
        "scores.rss?shape=fields&key=m1&fields=home:home.name,home.score",
    )
    .await
    .text();
    assert!(
        text.contains("<title>home</title><description>Don’t</description>"),
        "{text}"
    );
    assert!(
        text.contains("<title>home_score</title><description>1</description>"),
        "{text}"
    );
    assert_eq!(text.matches("<item>").count(), 2);
}

/// Players and monitors ask with HEAD, and keep what has the tag that they know.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_tag_stands_for_bytes_and_head_for_get() {
    let app = scores().start().await;
    let screen = app.reader("screen");
    let mut seen: HashMap<String, Vec<u8>> = HashMap::new();
    let mut tags: HashMap<Vec<u8>, String> = HashMap::new();
    let mut before = None;
    for body in [
        r#"{"id": "m1", "home": {"score": 1}}"#,
        r#"{"id": "m1", "home": {"score": 2}}"#,
        r#"{"id": "m2", "home": {"score": 2}}"#,
        r#"{"id": "m1", "home": {"score": 1}}"#,
    ] {
        send(&app, body).await;
        if let Some(before) = &before {
            changed(&app, "scores.json", before).await;
        }
        before = Some(feed(&app, "scores.json").await);
        for query in [
            "scores.json",
            "scores.json?key=m1",
            "scores.json?limit=1",
            "scores.ndjson",
            "scores.csv",
            "scores.csv?key=m1",
            "scores.tsv",
            "scores.xml",
            "scores.rss",
            "scores.txt",
            "scores.txt?key=m1",
        ] {
            let path = format!("/feed/{query}");
            let get = feed(&app, query).await;
            let tag = get.header("etag").expect("a tag").to_owned();
            let bytes = seen.entry(tag.clone()).or_insert_with(|| get.body.clone());
            assert_eq!(*bytes, get.body, "{query}: one tag, two bodies");
            // In a cluster, a position is behind the digest.
            let digest = tag.split('-').next().expect("a digest").replace('"', "");
            let known = tags.entry(get.body.clone());
            let known = known.or_insert_with(|| digest.clone());
            assert_eq!(*known, digest, "{query}: one body, two digests");
            let again = [("If-None-Match", &*format!("\"other\", W/{tag}"))];
            let head = screen.call(Method::HEAD, &path, &[], "").await;
            if head.header("etag") == Some(&tag) {
                assert_eq!(head.status, 200);
                for name in [
                    "content-type",
                    "content-length",
                    "cache-control",
                    "x-total-count",
                ] {
                    assert_eq!(head.header(name), get.header(name), "{query}: {name}");
                }
                assert_eq!(head.body, b"");
                let same = screen.call(Method::GET, &path, &again, "").await;
                if same.header("etag") == Some(&tag) {
                    assert_eq!((same.status, same.body.len()), (304, 0), "{query}");
                    assert_eq!(same.header("cache-control"), Some("no-cache"));
                }
            }
        }
    }
    // Each query has a body, and some of them have another one later: how many depends on how soon they are asked again.
    assert!(seen.len() > 11, "{} bodies", seen.len());
}

/// A program that maps by place finds each column where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn columns_stay_where_they_are() {
    let app = scores().start().await;
    let header = |text: String| text.lines().next().unwrap_or_default().to_owned();
    send(&app, r#"{"id": "m1", "z": 1, "b": {"y": 2}}"#).await;
    let first = feed(&app, "scores.csv").await;
    assert_eq!(header(first.text()), "_key,id,z,b_y");
    send(
        &app,
        r#"[{"a": 0, "b": {"y": 1, "a": 2}, "id": "m0"}, {"id": "m1"}]"#,
    )
    .await;
    let second = changed(&app, "scores.csv", &first).await;
    assert_eq!(header(second.text()), "_key,id,z,b_y,a,b_a");
    let app = app.restart().await;
    assert_eq!(feed(&app, "scores.csv").await.body, second.body);
    // What the first item that brought it no longer has is a column all the same.
    assert!(second.text().contains("\nm1,m1,,,,\n"), "{}", second.text());
}

/// Browsers may read it from pages that are allowed, and are told how many rows there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pages_of_other_origins() {
    let app = scores()
        .toml("[live]\norigins = [\"https://a.example\"]\n")
        .start()
        .await;
    send(&app, MATCHES).await;
    let screen = app.reader("screen");
    let ask = async |origin: &str| {
        let headers = [("Origin", origin)];
        screen
            .call(Method::GET, "/feed/scores.json", &headers, "")
            .await
    };
    let reply = ask("https://a.example").await;
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("https://a.example")
    );
    let exposed = reply
        .header("access-control-expose-headers")
        .expect("headers");
    assert!(
        exposed.contains("x-total-count") && exposed.contains("etag"),
        "{exposed}"
    );
    ask("https://b.example")
        .await
        .refused(403, "ORIGIN_NOT_ALLOWED");
    let preflight = screen
        .call(Method::OPTIONS, "/feed/scores.json", &[], "")
        .await;
    assert_eq!(preflight.status, 204);
}
