//! Screens: wherever one is connected, every node says so and can have it reload.

use std::io::Read as _;
use std::net::TcpStream;

use super::*;
use crate::command_line::operate;

const LOBBY_KEY: &str = "rk_live_of_the_screen_in_the_lobby";
const EXPECTED: &str = "expect = true\naway_after_seconds = 2\npage = \"/render/orders\"";

/// A node whose configuration expects a screen.
fn expecting(server: &Postgres, name: &str) -> Setup {
    node(server, name).given_read_key("lobby", &["orders"], LOBBY_KEY, EXPECTED)
}

/// The screen, connected to this node.
fn connected(node: &Process) -> TcpStream {
    screen_with(node.service, "streams=orders&screen=left", LOBBY_KEY)
}

/// Reads what the screen is sent until it has this text.
fn is_sent(screen: &mut TcpStream, text: &str) {
    let (mut sent, mut part) = (String::new(), [0; 1_024]);
    while !sent.contains(text) {
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended: {sent}");
        sent.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// Waits until a node says this state of the screen, and that it is at this other node.
fn is_said(node: &Process, state: &str, at: Option<&str>) {
    eventually(&format!("it is said to be {state} at {at:?}"), || {
        let screens = node.admin("/api/admin/screens");
        let mut found = screens.as_array().expect("a list").iter();
        let lobby = found.find(|one| one["name"] == "lobby")?;
        (lobby["state"] == state && lobby["node"].as_str() == at).then_some(())
    });
}

#[test]
fn a_screen_that_is_connected_to_one_node_is_away_for_none_and_reloads_from_any() {
    let Some(server) = Postgres::start("a_screen_that_is_connected_to_one_node") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| expecting(&server, name).spawn());
    let [a, b] = &nodes;
    for node in &nodes {
        eventually("it is missed", || {
            node.problems().contains("screen lobby").then_some(())
        });
    }

    let mut screen = connected(b);
    is_said(b, "here", None);
    is_said(a, "here", Some("b"));
    for node in &nodes {
        eventually("it is missed no longer", || {
            (!node.problems().contains("screen lobby")).then_some(())
        });
    }
    let listed = operate(a, ["screen", "list"]).ok();
    assert!(listed.contains("here on node b"), "{listed}");
    let counted = b.admin("/api/admin/renderers");
    assert_eq!(counted[0]["node"], "b", "{counted}");
    assert_eq!(a.admin("/api/admin/renderers"), json!([]));
    assert_eq!(a.admin("/api/admin/status")["node"], "a");

    let told = a.call("POST", "/api/admin/screens/lobby/reload", "");
    assert_eq!(told.data(200)["notified"], 1);
    is_sent(&mut screen, "\"reload\"");

    // It moves to the other node, and then it is gone.
    drop(screen);
    is_said(a, "away", None);
    let screen = connected(a);
    is_said(a, "here", None);
    is_said(b, "here", Some("a"));
    drop(screen);
    for node in &nodes {
        is_said(node, "away", None);
        eventually("it is missed again", || {
            node.problems()
                .contains("screen lobby has been away")
                .then_some(())
        });
    }
    nodes.into_iter().for_each(Process::stop);
}
