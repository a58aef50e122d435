//! Addresses where nothing is, and the icon, as browsers and programs are answered.

use std::net::SocketAddr;

use crate::process::{Answer, Client, JSON};
use crate::setup::Setup;

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let mut client = Client::connect(address).expect("it listens");
    client
        .request(method, path, headers, "")
        .expect("an answer")
}

#[test]
fn a_browser_is_shown_a_page_with_three_links_where_programs_get_an_error() {
    let process = Setup::with_streams(&["orders"]).spawn();
    for (address, path, status) in [
        (process.service, "/", 200),
        (process.service, "/nothing/here", 404),
        (process.admin, "/nothing/here", 404),
    ] {
        let page = ask(address, "GET", path, BROWSER);
        assert_eq!(page.status, status, "{path}");
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(page.header("vary"), Some("accept"));
        assert!(page.header("x-request-id").is_some());
        let links: Vec<&str> = page.body.split("<li><a href=\"").skip(1).collect();
        assert_eq!(links.len(), 3, "{}", page.body);
        for link in links {
            let target = link.split('"').next().expect("a target");
            let status = ask(address, "GET", target, BROWSER).status;
            // The overview asks to sign in.
            let expected = if target == "/" { 401 } else { 200 };
            assert_eq!(status, expected, "{target}");
        }
        for program in ["", "Accept: */*\r\n", "Accept: application/json\r\n"] {
            let answer = ask(address, "GET", path, program);
            assert_eq!(answer.status, 404);
            assert_eq!(answer.json()["error"]["code"], "NOT_FOUND");
        }
        let sent = ask(address, "POST", path, &format!("{BROWSER}{JSON}"));
        assert_eq!(sent.header("content-type"), Some("application/json"));
        assert!(matches!(sent.status, 404 | 405), "{}", sent.status);
    }
    // What is there says itself why it has nothing.
    let none = ask(process.service, "GET", "/api/streams/none/items", BROWSER);
    assert_eq!(none.json()["error"]["code"], "UNAUTHORIZED");
    for address in [process.service, process.admin] {
        let icon = ask(address, "GET", "/favicon.ico", "");
        assert_eq!(
            (icon.status, icon.header("content-type")),
            (200, Some("image/svg+xml"))
        );
        assert!(icon.body.contains("<svg"), "{}", icon.body);
    }
}
