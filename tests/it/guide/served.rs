//! The guide under `/docs` of both listeners.
//!
//! **Invariant**: no page loads anything from elsewhere, and every link leads somewhere.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use guide::{FILES, File, PAGES};

use crate::openapi::open;
use crate::setup::Setup;

/// The targets of an attribute on a page.
fn targets<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    let parts = page.split(&begin as &str).skip(1);
    parts
        .map(|part| part.split('"').next().unwrap_or_default())
        .collect()
}

/// A whole answer as it is sent.
fn bytes(address: SocketAddr, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the daemon listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_guide_is_served_on_both_listeners_and_every_link_leads_somewhere() {
    let process = Setup::with_streams(&["orders"]).spawn();
    for address in [process.service, process.admin] {
        let get = |path: &str| open(address, path);
        let mut waiting = vec!["/docs".to_owned()];
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(path) = waiting.pop() {
            // Other pages of the admin listener need a session.
            let is_ours = path.starts_with("/docs") || path == "/openapi.json";
            if !is_ours || !seen.insert(path.clone()) {
                continue;
            }
            let answer = get(&path);
            assert_eq!(answer.status, 200, "{path}");
            let kind = answer.header("content-type").unwrap_or_default();
            if !kind.starts_with("text/html") {
                continue;
            }
            let policy = answer.header("content-security-policy").expect("a policy");
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
            let page = &answer.body;
            assert!(
                !page.contains("<script") && !page.contains(" style="),
                "{path}"
            );
            let anchors = targets(page, "id");
            for link in targets(page, "href") {
                if let Some(anchor) = link.strip_prefix('#') {
                    assert!(anchors.contains(&anchor), "{path}: {link}");
                } else if link.starts_with('/') {
                    waiting.push(link.split('#').next().unwrap_or_default().to_owned());
                } else {
                    assert!(link.starts_with("https://"), "{path}: {link}");
                }
            }
            for picture in targets(page, "src") {
                let mut files = FILES.iter();
                let own = |file: &File| picture == format!("/docs/{}", file.name());
                assert!(files.any(own), "{path}: {picture}");
            }
        }
        for page in PAGES {
            assert!(
                seen.contains(&format!("/docs/{}", page.name)),
                "{}",
                page.name
            );
        }
    }
}

#[test]
fn files_of_the_guide_are_served_and_the_search_finds_its_sections() {
    let process = Setup::with_streams(&["orders"]).spawn();
    for address in [process.service, process.admin] {
        let get = |path: &str| open(address, path);
        for file in FILES {
            let answer = bytes(address, &format!("/docs/{}", file.name()));
            assert!(answer.ends_with(file.bytes), "{}", file.path);
            let head = String::from_utf8_lossy(&answer[..answer.len() - file.bytes.len()]);
            assert!(head.contains(file.content_type), "{head}");
        }
        let found = get("/docs?q=IDEMPOTENCY+restart").body;
        assert!(
            found.contains("href=\"/docs/send#repeat-safely\""),
            "{found}"
        );
        let found = get("/docs?q=%3Cscript%3E").body;
        assert!(found.contains("value=\"&lt;script&gt;\""), "{found}");
        let missing = get("/docs/no-such-page");
        assert_eq!(missing.status, 404);
        assert!(missing.body.contains("NOT_FOUND"), "{}", missing.body);
    }
}
