//! Sessions, sign-in links, tickets and the admin token: each is made on one node and used on another.
//!
//! **Invariant**: what counts once counts once in the cluster, and what is over is over on every node.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::*;
use crate::command_line::operate;
use crate::pages::Site;
use crate::pages::managed::{leads_to, secret};
use crate::process::Answer;

fn two(server: &Postgres) -> [Process; 2] {
    ["a", "b"].map(|name| node(server, name).spawn())
}

fn stop(nodes: [Process; 2]) {
    nodes.into_iter().for_each(Process::stop);
}

/// A ticket of a read key.
pub(super) fn ticket(node: &Process, key: &str, body: &str) -> String {
    let given = node.ask("POST", "/api/tickets", key, JSON, body);
    let ticket = given.data(201)["ticket"].take();
    ticket.as_str().expect("a ticket").to_owned()
}

/// The status that a screen is answered, and what came with it; `headers` are whole lines.
fn opens_with(service: SocketAddr, ticket: &str, headers: &str) -> (u16, String) {
    let mut screen = TcpStream::connect(service).expect("it listens");
    let asked = format!(
        "GET /api/live?token={ticket} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n"
    );
    screen.write_all(asked.as_bytes()).expect("it is sent");
    let (mut head, mut part) = (String::new(), [0; 1_024]);
    while !head.contains("\r\n\r\n") {
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended: {head}");
        head.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), head)
}

pub(super) fn opens(node: &Process, ticket: &str) -> u16 {
    opens_with(node.service, ticket, "").0
}

#[test]
fn a_ticket_of_one_node_opens_one_connection_to_any() {
    let Some(server) = Postgres::start("a_ticket_of_one_node_opens_one") else {
        return;
    };
    let nodes = two(&server);
    let [a, b] = &nodes;
    let given = ticket(a, READ_KEY, "{}");
    assert_eq!(opens(b, "tk_another"), 401);
    assert_eq!(opens(b, &given), 200);
    assert_eq!(opens(b, &given), 401);
    assert_eq!(opens(a, &given), 401);
    // Both nodes at the same moment, many times.
    for round in 0..40 {
        let given = ticket(&nodes[round % 2], READ_KEY, "{}");
        let opened = std::thread::scope(|threads| {
            let services = [a, b, a, b].map(|node| node.service);
            let given = &given;
            let asking =
                services.map(|service| threads.spawn(move || opens_with(service, given, "").0));
            asking.map(|asked| asked.join().expect("an answer"))
        });
        let mut sorted = opened;
        sorted.sort_unstable();
        assert_eq!(sorted, [200, 401, 401, 401], "round {round}");
    }
    // Of an admin token.
    let given = a.call("POST", "/api/admin/tickets", "").data(201)["ticket"].take();
    assert_eq!(opens(b, given.as_str().expect("a ticket")), 200);
    let kept = server.query("SELECT string_agg(t::text, '') FROM headgate.tickets t");
    assert!(!kept.contains("tk_") && !kept.contains(READ_KEY), "{kept}");
    stop(nodes);
}

#[test]
fn a_ticket_is_bound_on_every_node_to_its_origin_and_to_its_key() {
    let Some(server) = Postgres::start("a_ticket_is_bound_on_every_node") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| {
        let origins = vec!["https://a.example", "https://b.example"];
        node(&server, name).set("live.origins", origins).spawn()
    });
    let [a, b] = &nodes;
    let bound = r#"{"origin": "https://a.example"}"#;
    for (origin, status) in [("https://a.example", 200), ("https://b.example", 401)] {
        let given = ticket(a, READ_KEY, bound);
        let from = format!("Origin: {origin}\r\n");
        assert_eq!(opens_with(b.service, &given, &from).0, status, "{origin}");
        // A try uses it up.
        let from = "Origin: https://a.example\r\n";
        assert_eq!(opens_with(b.service, &given, from).0, 401, "{origin}");
    }
    let make = |name: &str| {
        let key = json!({ "name": name, "streams": ["orders"] });
        a.make("/api/admin/read-keys", &key).secret()
    };
    let secret = make("lobby");
    let (first, second) = (ticket(a, &secret, ""), ticket(b, &secret, ""));
    assert_eq!(opens(b, &first), 200);
    let revoked = b.call("DELETE", "/api/admin/read-keys/lobby", "");
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    assert_eq!(opens(a, &second), 401, "its key is revoked");
    assert_eq!(opens(b, &second), 401, "its key is revoked");
    stop(nodes);
}

#[test]
fn a_session_of_one_node_is_good_on_the_other_and_ends_on_both() {
    let Some(server) = Postgres::start("a_session_of_one_node_is_good") else {
        return;
    };
    let nodes = two(&server);
    let [a, b] = &nodes;
    let at_a = Site::signed_in(a);
    let at_b = at_a.at(b);
    assert_eq!(at_a.form_token(), at_b.form_token());
    // The form is of one node, and sent to the other; the next page is of the first one.
    let fields = "name=made&stream=orders&mode=live";
    leads_to(
        &at_b.submit("/connectors/tests/new-key", fields),
        "/connectors/tests",
    );
    let key = at_a.page("/connectors/tests");
    assert!(key.contains("shown only now"), "{key}");
    let secret = secret(&key).expect("the key");
    let headers = format!("{JSON}{BY_ID}");
    let sent = b.ask("POST", "/api/ingest", &secret, &headers, r#"{"id": "x"}"#);
    assert_eq!(sent.status, 202, "{}", sent.body);
    for site in [&at_a, &at_b] {
        assert!(!site.page("/connectors/tests").contains("shown only now"));
    }
    let said = at_a.submit("/new/stream", "name=news&on_update=replace");
    assert_eq!(said.status, 303, "{}", said.body);
    let next = said.header("location").expect("a page").to_owned();
    let first = at_b.page(&next);
    assert!(first.contains(r#"<p class="said""#), "{first}");
    assert!(!at_a.page(&next).contains(r#"<p class="said""#));
    // Both nodes list both sessions.
    let other = Site::signed_in(b);
    for node in [a, b] {
        let listed = node.list("/api/admin/sessions");
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert!(listed[0]["since"].as_str() > listed[1]["since"].as_str());
    }
    let page = at_a.page("/sessions");
    assert!(page.matches(", you").count() == 1, "{page}");
    let newest = a.list("/api/admin/sessions")[0]["id"].clone();
    let newest = newest.as_str().expect("an id");
    operate(a, ["session", "end", newest]).ok();
    assert_eq!(other.get("/").status, 401);
    let again = operate(b, ["session", "end", newest]).failed(1);
    assert!(again.contains("no such session"), "{again}");
    leads_to(&at_b.submit("/sign-out", ""), "/sign-in");
    assert_eq!(at_a.get("/").status, 401);
    assert_eq!(at_b.get("/").status, 401);
    assert!(a.list("/api/admin/sessions").is_empty());
    let secret_of_session = at_a.cookie().split_once('=').expect("a cookie").1;
    let kept = server.query("SELECT string_agg(s::text, '') FROM headgate.sessions s");
    assert!(!kept.contains(secret_of_session), "{kept}");
    stop(nodes);
}

#[test]
fn a_link_of_one_node_signs_in_on_the_other_once() {
    let Some(server) = Postgres::start("a_link_of_one_node_signs_in") else {
        return;
    };
    let nodes = two(&server);
    let [a, b] = &nodes;
    let link = a.sign_in_link();
    let (_, invitation) = link.split_once('#').expect("a secret");
    let mut site = Site::of(b);
    assert_eq!(site.sign_in(invitation).status, 303);
    assert_eq!(site.at(a).get("/").status, 200);
    for node in [a, b] {
        assert_eq!(Site::of(node).sign_in(invitation).status, 401);
    }
    stop(nodes);
}

#[test]
fn one_node_makes_the_admin_token_and_all_accept_it() {
    let Some(server) = Postgres::start("one_node_makes_the_admin_token") else {
        return;
    };
    let setup = |name: &str| node(&server, name).without_token();
    let status = |node: &Process, token: &str| {
        let mut client = crate::process::Client::connect(node.admin).expect("it listens");
        let answer = client.get("/api/admin/status", token).expect("an answer");
        answer.status
    };
    let a = setup("a").spawn();
    let token = a.setup.admin_token();
    let b = setup("b").spawn();
    let file = b.setup.data_dir().join("admin.token");
    assert!(!file.exists(), "the other node has made it");
    for node in [&a, &b] {
        assert_eq!(status(node, &token), 200);
        assert_eq!(status(node, "at_another_token"), 401);
    }
    // It is no secret of the database, and stays when nodes are started again.
    let dumped = server.query("SELECT t::text FROM headgate.admin_token t");
    assert!(!dumped.contains(&token), "{dumped}");
    let setups = [a.setup.clone(), b.setup.clone()];
    a.stop();
    b.stop();
    // A file with another token is not accepted.
    std::fs::write(&file, "at_another_token\n").expect("it writes");
    let [a, b] = setups.map(|setup| setup.spawn());
    for node in [&a, &b] {
        assert_eq!(status(node, &token), 200);
        assert_eq!(status(node, "at_another_token"), 401);
    }
    b.says("is not the one of the cluster");
    assert!(!a.log().contains("is not the one of the cluster"));
    stop([a, b]);
}

#[test]
fn without_the_database_pages_are_shown_to_who_was_signed_in_and_nobody_signs_in() {
    let Some(mut server) = Postgres::start("without_the_database_pages_are_shown") else {
        return;
    };
    let nodes = two(&server);
    let [a, b] = &nodes;
    let at_a = Site::signed_in(a);
    let form_token = at_a.form_token();
    let given = ticket(a, READ_KEY, "");
    server.crash();
    let refused = |answer: &Answer| {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.header("retry-after").is_some(), "{}", answer.head);
        assert!(
            answer.body.contains("database of the cluster"),
            "{}",
            answer.body
        );
    };
    ready_becomes(a, Some("database"));
    // Node a has seen the session, node b has not.
    let overview = at_a.page("/");
    assert!(overview.contains("Sign out"), "{overview}");
    let unknown = at_a.at(b).get("/");
    refused(&unknown);
    assert_eq!(unknown.header("refresh"), Some("5"));
    refused(&at_a.post("/sign-out", &format!("form_token={form_token}")));
    refused(&Site::of(a).sign_in(crate::setup::ADMIN_TOKEN));
    refused(&Site::of(b).sign_in("once_of_nobody"));
    assert_eq!(Site::of(b).sign_in("of_nobody").status, 401);
    refused(&a.ask("POST", "/api/tickets", READ_KEY, JSON, ""));
    let (status, head) = opens_with(b.service, &given, "");
    assert_eq!(status, 503, "{head}");
    assert!(head.to_lowercase().contains("retry-after:"), "{head}");
    for (method, path) in [
        ("GET", "/api/admin/sessions"),
        ("POST", "/api/admin/sign-in-links"),
        ("POST", "/api/admin/tickets"),
    ] {
        refused(&a.call(method, path, ""));
    }
    // Without a session the admin API answers.
    let cluster = a.admin("/api/admin/cluster");
    assert_eq!(cluster["database"]["reachable"], false, "{cluster}");
    server.resume();
    for node in &nodes {
        ready_becomes(node, None);
        eventually("the session is known again", || {
            (at_a.at(node).get("/").status == 200).then_some(())
        });
    }
    leads_to(&at_a.submit("/sign-out", ""), "/sign-in");
    stop(nodes);
}
