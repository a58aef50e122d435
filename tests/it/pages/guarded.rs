//! Who may see the pages, and from where.

use super::site::Site;
use crate::process::Client;
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::wait::eventually;

const PAGES: [&str; 17] = [
    "/",
    "/connectors",
    "/connectors/tests",
    "/requests/0190a000-0000-7000-8000-000000000000",
    "/sinks",
    "/sinks/pool",
    "/renderers",
    "/streams",
    "/streams/orders",
    "/streams/orders/item?key=1",
    "/new/connector",
    "/new/tool",
    "/presets",
    "/new/stream",
    "/new/read-key",
    "/audit",
    "/sessions",
];

#[test]
fn without_a_session_every_page_is_the_sign_in_page() {
    let process = Setup::with_streams(&["orders"]);
    let process = process.spawn();
    let site = Site::of(&process);
    for path in PAGES {
        let answer = site.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.body.contains(r#"id="sign-in""#), "{}", answer.body);
        let next = format!(r#"name="next" value="{path}""#);
        assert!(answer.body.contains(&next), "{}", answer.body);
    }
    let polled = site.send("GET", "/", &[("HX-Request", "true")], "");
    assert_eq!(polled.status, 401);
    assert_eq!(polled.header("hx-refresh"), Some("true"));
    assert_eq!(site.post("/sign-out", "form_token=x").status, 401);

    // The bearer token opens the API and no page; the session opens pages and no API.
    let mut client = Client::connect(process.admin).expect("it listens");
    let host = format!("Host: {}\r\n", process.admin);
    let head = format!("GET / HTTP/1.1\r\n{host}Authorization: Bearer {ADMIN_TOKEN}\r\n\r\n");
    client.send(&head).expect("it is sent");
    assert_eq!(client.answer().expect("an answer").status, 401);
    let site = Site::signed_in(&process);
    assert_eq!(site.get("/api/admin/status").status, 401);
    assert_eq!(site.get("/metrics").status, 401);
}

#[test]
fn paths_of_version_0_1_lead_to_those_of_today() {
    let process = Setup::with_streams(&["orders"]).spawn();
    assert_eq!(Site::of(&process).get("/sources").status, 401);
    let site = Site::signed_in(&process);
    for (old, now) in [
        ("/sources", "/connectors"),
        ("/sources?sort=name", "/connectors?sort=name"),
        ("/sources/tests?tab=keys", "/connectors/tests?tab=keys"),
        ("/new/source?tool=stripe", "/new/connector?tool=stripe"),
    ] {
        let answer = site.get(old);
        assert_eq!(answer.status, 308, "{old}: {}", answer.body);
        assert_eq!(answer.header("location"), Some(now), "{old}");
        assert_eq!(site.get(now).status, 200, "{now}");
    }
    // A form of a page that was loaded before the upgrade; browsers send it again, with its body.
    let answer = site.submit("/sources/tests/trigger", "");
    assert_eq!(answer.status, 308, "{}", answer.body);
    assert_eq!(answer.header("location"), Some("/connectors/tests/trigger"));
}

#[test]
fn signing_in_makes_a_session_that_ends_with_signing_out() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let mut site = Site::of(&process);
    for wrong in ["", "wrong", "once_0", &ADMIN_TOKEN[1..]] {
        let answer = site.sign_in(wrong);
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.header("set-cookie"), None);
        assert!(wrong.len() < 4 || !answer.body.contains(wrong));
    }
    let answer = site.sign_in(ADMIN_TOKEN);
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), Some("/"));
    let cookie = answer.header("set-cookie").expect("a cookie");
    let port = process.admin.port();
    let (value, attributes) = cookie.split_once(';').expect("attributes");
    let secret = value.strip_prefix(&format!("headgate_{port}="));
    assert_eq!(secret.map(str::len), Some(64), "{cookie}");
    assert_eq!(
        attributes,
        " path=/; max-age=43200; httponly; samesite=strict"
    );

    let page = site.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    for inline in [
        " style=",
        " onclick=",
        "<style",
        "<script>",
        "http://",
        "https://",
    ] {
        assert!(!page.body.contains(inline), "{inline}");
    }

    let other = Site::signed_in(&process);
    let out = site.submit("/sign-out", "");
    assert_eq!(
        (out.status, out.header("location")),
        (303, Some("/sign-in"))
    );
    assert_eq!(site.get("/").status, 401);
    assert_eq!(other.get("/").status, 200);
    assert!(!process.log().contains(secret.expect("64 digits")));
}

#[test]
fn after_signing_in_the_page_that_was_asked_for_comes_and_no_other_site() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::of(&process);
    for (next, expected) in [
        ("%2Fsinks%3Fa%3Db", "/sinks?a=b"),
        ("%2F%2Fevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2Fa%0D%0Ab", "/"),
    ] {
        let answer = site.post("/sign-in", &format!("token={ADMIN_TOKEN}&next={next}"));
        assert_eq!(answer.header("location"), Some(expected), "{next}");
    }
}

#[test]
fn pages_are_not_shown_under_a_foreign_name() {
    let process = Setup::with_streams(&["orders"])
        .set("admin.hosts", vec!["headgate.example"])
        .spawn();
    let site = Site::signed_in(&process);
    let port = process.admin.port();
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "x.headgate.example",
        "",
    ] {
        for path in ["/", "/sign-in"] {
            let answer = site.send("GET", path, &[("Host", &format!("{host}:{port}"))], "");
            assert_eq!(answer.status, 403, "{host} {path}");
            assert!(answer.body.contains("[admin]"), "{}", answer.body);
        }
    }
    for host in ["headgate.example", "localhost", "hg.localhost", "[::1]"] {
        let answer = site.send("GET", "/", &[("Host", &format!("{host}:{port}"))], "");
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[test]
fn writes_of_other_sites_do_nothing() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let own = format!("http://{}", process.admin);
    let token = site.form_token();
    let other_token = Site::signed_in(&process).form_token();
    let refused = |headers: &[(&str, &str)], token: &str| {
        let answer = site.send("POST", "/sign-out", headers, &format!("form_token={token}"));
        assert_eq!(answer.status, 403, "{headers:?}");
        assert_eq!(site.get("/").status, 200, "{headers:?}");
    };
    refused(&[], &token);
    refused(&[("Origin", "null")], &token);
    refused(&[("Origin", "http://evil.example")], &token);
    refused(&[("Origin", "http://127.0.0.1:1")], &token);
    refused(&[("Origin", &own), ("Sec-Fetch-Site", "same-site")], &token);
    refused(&[("Sec-Fetch-Site", "cross-site")], &token);
    refused(&[("Origin", &own)], "");
    refused(&[("Origin", &own)], &other_token);
    let signing_in = site.send(
        "POST",
        "/sign-in",
        &[("Origin", "http://evil.example")],
        &format!("token={ADMIN_TOKEN}"),
    );
    assert_eq!(signing_in.status, 403);
    let answer = site.send(
        "POST",
        "/sign-out",
        &[("Origin", &own), ("Sec-Fetch-Site", "same-origin")],
        &format!("form_token={token}"),
    );
    assert_eq!(answer.status, 303);
}

#[test]
fn what_was_seen_is_not_sent_again() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let digest_of = |live: &str| {
        let (_, rest) = live.split_once("X-Seen&quot;: &quot;").expect("a digest");
        rest[..64].to_owned()
    };
    let poll = |seen: &str| site.send("GET", "/", &[("HX-Request", "true"), ("X-Seen", seen)], "");
    // What the page counts may still change: connections that end, the disk that others use.
    let mut seen = digest_of(&site.page("/"));
    eventually("a poll that has nothing new", || {
        let answer = poll(&seen);
        if answer.status == 204 {
            return Some(());
        }
        let newer = digest_of(&answer.body);
        assert_ne!(newer, seen, "{}", answer.head);
        seen = newer;
        None
    });
    process.accepted("orders", "", r#"{"id": 1}"#);
    let news = poll(&seen);
    assert_eq!(news.status, 200);
    assert!(news.body.starts_with(r#"<div id="live""#), "{}", news.body);
    assert!(!news.body.contains(&seen));
}

#[test]
fn the_assets_need_no_session_and_keep_their_licence() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::of(&process);
    for (name, kind) in [
        ("htmx.js", "text/javascript; charset=utf-8"),
        ("web.js", "text/javascript; charset=utf-8"),
        ("web.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let answer = site.get(&format!("/assets/{name}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind))
        );
        let tag = answer.header("etag").expect("a tag").to_owned();
        let path = format!("/assets/{name}");
        let again = site.send("GET", &path, &[("If-None-Match", &tag)], "");
        assert_eq!(again.status, 304, "{}", again.head);
    }
    let htmx = site.get("/assets/htmx.js").body;
    assert!(htmx.starts_with("/*! htmx 2.0.11") && htmx.contains("Zero-Clause BSD"));
}
