//! Hostile texts on every page that a link leads to.

use std::collections::BTreeSet;

use serde_json::json;

use super::site::{Site, unescaped};
use crate::app::encoded;
use crate::hostile::{IN_A_HEADER, MARKUP, STREAM, daemon, is_raw, texts};
use crate::process::JSON;
use crate::setup::Setup;
use crate::wait::eventually;

/// Attributes that the pages use; a text that breaks out of one brings others.
const ATTRIBUTES: &[&str] = &[
    "action",
    "alt",
    "aria-current",
    "aria-describedby",
    "aria-hidden",
    "aria-invalid",
    "aria-keyshortcuts",
    "aria-label",
    "aria-labelledby",
    "aria-sort",
    "autocapitalize",
    "autocomplete",
    "autofocus",
    "charset",
    "checked",
    "class",
    "colspan",
    "content",
    "data-all",
    "data-cancel",
    "data-columns",
    "data-confirm",
    "data-copy",
    "data-field",
    "data-key",
    "data-label",
    "data-move",
    "data-moves",
    "data-role",
    "data-row",
    "data-step",
    "data-text",
    "data-value",
    "data-usual",
    "data-utc",
    "datetime",
    "defer",
    "dir",
    "disabled",
    "for",
    "form",
    "formaction",
    "formmethod",
    "height",
    "hidden",
    "high",
    "href",
    "hx-get",
    "hx-headers",
    "hx-swap",
    "hx-trigger",
    "id",
    "inputmode",
    "lang",
    "low",
    "max",
    "maxlength",
    "method",
    "min",
    "name",
    "open",
    "optimum",
    "placeholder",
    "preserveaspectratio",
    "readonly",
    "rel",
    "required",
    "role",
    "rows",
    "scope",
    "selected",
    "size",
    "spellcheck",
    "src",
    "step",
    "tabindex",
    "title",
    "type",
    "value",
    "viewbox",
    "width",
    "x",
    "y",
];

/// A page as a browser reads it: tags with their attributes, and the text between them.
#[derive(Debug, Default)]
struct Read {
    tags: Vec<(String, Vec<(String, String)>)>,
    text: String,
}

/// Reads what maud writes, and the guide: every attribute value stands in double quotes.
fn read(page: &str) -> Read {
    let mut read = Read::default();
    let mut rest = page;
    while let Some((text, after)) = rest.split_once('<') {
        read.text.push_str(text);
        let name_end = after.find([' ', '>']).expect("a tag ends");
        let (name, mut inside) = after.split_at(name_end);
        let mut attributes = Vec::new();
        loop {
            inside = inside.trim_start_matches([' ', '/']);
            if let Some(after) = inside.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = inside.find(['=', ' ', '>']).expect("an attribute ends");
            let (attribute, after) = inside.split_at(end);
            let (value, after) = match after.strip_prefix("=\"") {
                Some(value) => value.split_once('"').expect("a value ends"),
                None => after.split_at(after.find([' ', '>']).expect("a value ends")),
            };
            attributes.push((attribute.to_lowercase(), value.to_owned()));
            inside = after;
        }
        if name != "!DOCTYPE" {
            read.tags.push((name.to_lowercase(), attributes));
        }
    }
    read.text.push_str(rest);
    read
}

fn check(path: &str, page: &str) {
    let read = read(page);
    let path: String = path.chars().take(200).collect();
    for (name, attributes) in &read.tags {
        let source = attributes.iter().find(|(attribute, _)| attribute == "src");
        let own = matches!(
            source.map(|(_, value)| value.as_str()),
            Some("/assets/htmx.js" | "/assets/web.js" | "/assets/grid.js")
        );
        assert!(name != "script" || own, "{path}: a script {attributes:?}");
        // The guide has pictures of its own.
        let is_picture = source.is_some_and(|(_, value)| value.starts_with("/docs/"));
        assert!(
            name == "img" && is_picture
                || !["img", "iframe", "object", "style", "base"].contains(&name.as_str()),
            "{path}: {name}"
        );
        for (attribute, value) in attributes {
            let known = ATTRIBUTES.contains(&attribute.as_str());
            assert!(known, "{path}: {name} has {attribute}");
            if ["href", "src", "action", "formaction", "hx-get"].contains(&attribute.as_str()) {
                let own = value.starts_with('/') && !value.starts_with("//");
                assert!(
                    own || value.starts_with('#'),
                    "{path}: {name} leads to {value}"
                );
                assert!(!value.contains(is_raw), "{path}: {value:?}");
            }
            if [
                "title",
                "aria-label",
                "data-confirm",
                "data-field",
                "data-label",
            ]
            .contains(&attribute.as_str())
            {
                assert!(!value.contains(is_raw), "{path}: {attribute} {value:?}");
            }
        }
    }
    let found = read
        .text
        .chars()
        .find(|character| is_raw(*character) && !['\n', '\t'].contains(character));
    assert_eq!(found, None, "{path}");
    assert!(page.len() < 2_500_000, "{path}: {} bytes", page.len());
}

/// The links of a page to other pages.
fn links(page: &str) -> Vec<String> {
    let all = read(page).tags.into_iter();
    let links = all
        .filter(|(name, _)| name == "a")
        .flat_map(|(_, attributes)| attributes);
    let paths = links
        .filter(|(attribute, _)| attribute == "href")
        .map(|(_, href)| href);
    let paths = paths.map(|path| path.replace("&amp;", "&"));
    let paths = paths.map(|path| path.split('#').next().unwrap_or_default().to_owned());
    paths.filter(|path| path.starts_with('/')).collect()
}

#[test]
fn no_text_breaks_out_of_any_page_that_a_link_leads_to() {
    let process = daemon();
    let site = Site::signed_in(&process);
    let mut waiting = vec!["/".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let is_page = !["/openapi.json", "/docs/default.toml"].contains(&&*path)
            && !path.contains("/export.csv")
            // Filters add up without end.
            && path.matches("filter=").count() < 2;
        if !is_page || !seen.insert(path.clone()) {
            continue;
        }
        let answer = site.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        check(&path, &answer.body);
        waiting.extend(links(&answer.body));
    }
    // An item for each text, a request for each submission, and the pages of the navigation.
    for (begin, least) in [
        ("/streams/orders/item", texts().len()),
        ("/requests/", 2 * texts().len()),
        ("/streams/%3Cb%3E", 1),
        ("/settings", 1),
        ("/docs", 1),
    ] {
        let found = seen.iter().filter(|path| path.starts_with(begin)).count();
        assert!(found >= least, "{begin}: {found}");
    }
}

#[test]
fn what_is_asked_for_is_not_repeated_as_markup() {
    let process = daemon();
    let site = Site::signed_in(&process);
    let mut asked = texts();
    asked.extend([IN_A_HEADER.to_owned(), STREAM.to_owned()]);
    for text in asked {
        let text: String = text.chars().take(1_000).collect();
        let encoded = crate::app::encoded(&text);
        for path in [
            format!("/connectors/{encoded}"),
            format!("/connectors/tests?text={encoded}"),
            format!("/connectors/tests?status={encoded}"),
            format!("/requests/{encoded}"),
            format!("/sinks/{encoded}"),
            format!("/streams/{encoded}"),
            format!("/streams/orders?after={encoded}"),
            format!("/streams/orders/item?key={encoded}"),
            format!("/{encoded}?{encoded}"),
        ] {
            let answer = site.get(&path);
            assert!(
                (200..500).contains(&answer.status),
                "{path}: {}",
                answer.status
            );
            let stranger = Site::of(&process).get(&path);
            for answer in [answer, stranger] {
                let kind = answer.header("content-type").unwrap_or_default();
                if kind.starts_with("text/html") {
                    check(&path, &answer.body);
                } else {
                    assert_eq!(kind, "application/json", "{path}");
                }
            }
        }
        for form in ["/settings/back-up", "/sinks/back/discard"] {
            let fields = format!("dir=%2F{encoded}%2Fx&id={encoded}&key={encoded}none");
            let answer = site.submit(form, &fields);
            assert!(
                (400..500).contains(&answer.status),
                "{form}: {}",
                answer.status
            );
            check(form, &answer.body);
        }
    }
}

#[test]
fn the_reader_of_these_tests_sees_what_breaks_out() {
    let page = format!("<p title=\"{}\">x</p>", "\" onclick=\"window.broken=1");
    let read_page = read(&page);
    assert!(
        read_page.tags[0]
            .1
            .iter()
            .any(|(name, _)| name == "onclick")
    );
    let page = format!("<p>{MARKUP}</p>").replace('\'', "\"");
    assert!(read(&page).tags.iter().any(|(name, _)| name == "script"));
}

#[test]
fn the_sql_line_of_a_stream_runs_as_it_stands_and_obeys_nothing_in_its_name() {
    let process = Setup::with_streams(&[]).spawn();
    let site = Site::signed_in(&process);
    let pwned = process.setup.path("pwned");
    for stream in [
        "it's",
        "a'$(touch pwned)'b",
        "\"; touch pwned; \"",
        "`touch pwned`",
    ] {
        let made = process.call(
            "POST",
            "/api/admin/streams",
            &json!({"name": stream}).to_string(),
        );
        assert_eq!(made.status, 201, "{}", made.body);
        let connector = json!({"name": "shop", "kind": "ingest"}).to_string();
        process.call("POST", "/api/admin/connectors", &connector);
        let key = json!({"name": format!("key-{}", stream.len()), "stream": stream}).to_string();
        let key = process
            .call("POST", "/api/admin/connectors/shop/keys", &key)
            .data(201);
        let key = key["secret"].as_str().expect("a secret").to_owned();
        let answer = process.ask("POST", "/api/ingest", &key, JSON, r#"{"said": "hello"}"#);
        process.request_becomes(&answer.request_id(), "processed");
        let path = format!("/streams/{}?tab=setup", encoded(stream));
        let line = eventually("its view is there", || {
            let page = site.page(&path);
            let (_, line) = page.split_once(r#"<code id="sql">"#)?;
            let (line, _) = line.split_once("</code>")?;
            Some(unescaped(line))
        });
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &line])
            .current_dir(process.setup.path(""));
        match crate::command_line::demo::there_is("sqlite3") {
            true => {
                let shown = crate::command_line::finish(&mut shell, "").ok();
                assert!(shown.contains("hello"), "{line}: {shown}");
            }
            false => return,
        }
        assert!(!pwned.exists(), "{line}");
    }
}
