//! A primary that dies, and the standby that takes its place, while requests come.
//!
//! **Invariant**: what was answered 202 with `durability = "standby"` is there after each of them, and no renderer starts over.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::process::Client;

/// What a renderer at this address is sent, until `ended`.
fn followed(service: SocketAddr, ended: &AtomicBool, sent: &Mutex<String>) {
    let mut screen = screen(service);
    let mut part = [0; 4_096];
    // A heartbeat comes each second.
    while !ended.load(Ordering::Relaxed) {
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended");
        let text = String::from_utf8_lossy(&part[..length]);
        sent.lock().expect("no panic").push_str(&text);
    }
}

/// Submits items until `ended`; the IDs of those that were accepted.
fn submitted(mut client: Client, name: &str, ended: &AtomicBool) -> Vec<String> {
    let mut accepted = Vec::new();
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{name}-{number}");
        let body = json!({ "id": id, "n": 1 }).to_string();
        let answer = client.post("orders", BY_ID, &body).expect("an answer");
        match answer.status {
            202 => accepted.push(id),
            status => assert_eq!(status, 503),
        }
    }
    accepted
}

/// What a renderer is sent, up to this text.
fn read_until(mut screen: TcpStream, text: &str) -> String {
    let (mut sent, mut part) = (String::new(), [0; 4_096]);
    while !sent.contains(text) {
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended: {sent}");
        sent.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    sent
}

/// Ends what runs beside a test, however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// With `durability = "local"`, no commit waits for a standby.
#[test]
fn where_a_standby_lacks_the_newest_changes_every_screen_begins_anew() {
    let test = "where_a_standby_lacks_the_newest_changes_every_screen_begins_anew";
    let Some(mut primary) = Postgres::start(test) else {
        return;
    };
    let standby = primary.standby(None);
    let urls = [primary.url(), standby.url()];
    let setups = ["a", "b"].map(|name| node(&primary, name).set("cluster.urls", urls.to_vec()));
    let mut nodes = setups.each_ref().map(Setup::spawn);
    accepted(&nodes[0], "kept");
    nodes.iter().for_each(|node| _ = shows(node, 1));
    let written = primary.query("SELECT pg_current_wal_lsn()");
    let has_all = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    eventually("the standby has it", || {
        (standby.query(&has_all) == "t").then_some(())
    });
    standby.query("ALTER SYSTEM SET primary_conninfo = ''");
    standby.query("SELECT pg_reload_conf()");
    eventually("the standby receives nothing", || {
        (standby.query("SELECT count(*) FROM pg_stat_wal_receiver") == "0").then_some(())
    });
    for lost in 0..5 {
        accepted(&nodes[0], &format!("lost-{lost}"));
    }
    nodes.iter().for_each(|node| _ = shows(node, 6));
    let shown = read_until(screen(nodes[0].service), r#""complete":true"#);
    let mut ids = shown.lines().filter_map(|line| line.strip_prefix("id: "));
    let before = ids.next_back().expect("a position");
    primary.crash();
    standby.promote();
    for (node, setup) in nodes.iter_mut().zip(&setups) {
        // Its copies are of no use, and it ends.
        eventually("the node has ended", || (!node.lives()).then_some(()));
        *node = setup.spawn();
    }
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("after-{at}"));
    }
    for node in &nodes {
        let keys: Vec<String> = shows(node, 3).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["after-0", "after-1", "kept"]);
        let query = format!("streams=orders&since={before}");
        let begun = read_until(screen_with(node.service, &query, READ_KEY), "after-0");
        assert!(begun.contains("event: reset"), "{begun}");
    }
    nodes.into_iter().for_each(Process::stop);
}

#[test]
fn a_standby_that_takes_the_place_of_the_primary_has_everything() {
    let Some(mut primary) = Postgres::start("a_standby_that_takes_the_place") else {
        return;
    };
    let mut standby = primary.standby(None);
    let urls = [primary.url(), standby.url()];
    let nodes = ["a", "b"].map(|name| {
        node(&primary, name)
            .set("cluster.urls", urls.to_vec())
            .set("cluster.durability", "standby")
            .spawn()
    });
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("before-{at}"));
    }
    let (ended, sent) = (AtomicBool::new(false), Mutex::new(String::new()));
    let service = nodes[1].service;
    let mut accepted = std::thread::scope(|scope| {
        let follower = scope.spawn(|| followed(service, &ended, &sent));
        let names = ["one", "two", "three", "four"];
        let senders: Vec<_> = (names.into_iter().enumerate())
            .map(|(at, name)| {
                scope.spawn({
                    let (client, ended) = (nodes[at % 2].client(), &ended);
                    move || submitted(client, name, ended)
                })
            })
            .collect();
        let ends = Ends(&ended);
        for round in 0..2 {
            // Until something of this round is shown.
            let before = items(&nodes[0]).len();
            eventually("items come", || {
                (items(&nodes[0]).len() > before + 20).then_some(())
            });
            primary.crash();
            standby.promote();
            // The new primary waits for a standby, too, which listens where the old primary did.
            let another = standby.standby(Some(&primary));
            primary = std::mem::replace(&mut standby, another);
            for (at, node) in nodes.iter().enumerate() {
                self::accepted(node, &format!("after-{round}-{at}"));
                ready_becomes(node, None);
            }
        }
        drop(ends);
        let accepted = senders
            .into_iter()
            .map(|sender| sender.join().expect("no panic"));
        let accepted: Vec<String> = accepted.flatten().collect();
        follower.join().expect("no panic");
        accepted
    });
    assert!(accepted.len() > 80, "{}", accepted.len());
    accepted.sort();
    // A 503 can belong to a request that is stored all the same; never the other way.
    eventually("both nodes show everything, and the same", || {
        let shown = nodes.each_ref().map(items);
        let has = |id: &String| shown[0].binary_search_by(|(key, _)| key.cmp(id)).is_ok();
        (shown[0] == shown[1] && accepted.iter().all(has)).then_some(())
    });
    let sent = sent.into_inner().expect("no panic");
    assert!(
        !sent.contains("\"type\":\"reset\"") && !sent.contains("event: reset"),
        "{sent}"
    );
    let chains = nodes
        .each_ref()
        .map(|node| node.admin("/api/admin/audit/verify"));
    assert_eq!(chains[0], chains[1]);
    for node in nodes {
        node.stop();
    }
}
