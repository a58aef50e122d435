//! Unit tests of `render.rs`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name).with_extension("md")).expect("a page")
}

#[test]
fn what_stands_in_a_page_is_text_and_links_lead_where_something_is() {
    let rendered = Rendered::new(
        "# A <b> title\n\nLead.\n\n## How & why, `x`\n\n<script>no</script>\n\n[there][1] [file][2] [gone][3] [out][4]\n\n<!-- not run: a reason -->\n```sh\na < b\n```\n\n[1]: send.md#retries\n[2]: ../../config/default.toml\n[3]: ../../examples/payloads\n[4]: https://example.com\n",
    );
    for part in [
        "<h2 id=\"how--why-x\">",
        "href=\"/docs/send#retries\"",
        "href=\"/docs/default.toml\"",
        "&lt;script&gt;",
        " gone ",
        "href=\"https://example.com\"",
        "<pre tabindex=\"0\"><code>a &lt; b",
    ] {
        assert!(rendered.html.contains(part), "{part}\n{}", rendered.html);
    }
    assert!(!rendered.html.contains("examples/payloads"));
    assert!(!rendered.html.contains("a reason"));
    assert!(!rendered.sections[1].text.contains("a reason"));
    assert_eq!(rendered.sections[0].heading, "A <b> title");
    assert_eq!(rendered.sections[0].text, "Lead.\n");
    assert_eq!(rendered.sections[1].anchor, "how--why-x");
}

#[test]
fn every_link_of_the_guide_leads_somewhere() {
    let pages = PAGES.map(|name| (name, Rendered::new(&text(name))));
    let mut anchors = BTreeSet::new();
    for (name, page) in &pages {
        for section in &page.sections {
            let new = anchors.insert(format!("/docs/{name}#{}", section.anchor));
            assert!(new, "two sections of {name} have one anchor");
        }
    }
    for (name, rendered) in &pages {
        let lead = &rendered.sections[0].text;
        assert!(!lead.is_empty(), "{name} says what it is for");
        for event in Parser::new_ext(&text(name), Options::ENABLE_TABLES) {
            let (Event::Start(Tag::Link { dest_url, .. })
            | Event::Start(Tag::Image { dest_url, .. })) = event
            else {
                continue;
            };
            if dest_url.starts_with("https://") {
                continue;
            }
            let file = dest_url.split('#').next().unwrap_or_default();
            assert!(folder().join(file).exists(), "{name}: {dest_url}");
            let own = address(&dest_url).map(|to| match to.starts_with('#') {
                true => format!("/docs/{name}{to}"),
                false => to,
            });
            if let Some(to) = own.filter(|to| to.contains('#')) {
                assert!(anchors.contains(&to), "{name}: {dest_url} ({to})");
            }
        }
        // A reference without a definition is shown as it is written.
        assert!(!rendered.html.contains("]["), "{name}");
    }
}

#[test]
fn the_program_has_the_pages_as_they_are() {
    let out_dir = tempfile::tempdir().expect("a folder");
    write(&folder(), out_dir.path()).expect("it is written");
    let code = std::fs::read_to_string(out_dir.path().join("guide.rs")).expect("a file");
    assert_eq!(code, include_str!(concat!(env!("OUT_DIR"), "/guide.rs")));
}
