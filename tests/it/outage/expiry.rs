//! Items that are not renewed go by an entry of the journal, which every sink hears of.

use crate::process::BY_ID;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::stored::one;
use crate::wait::eventually;

fn folder(receiver: &Receiver, expire_after_seconds: u32) -> Setup {
    let forward = format!(
        "config = {{ url = \"{}\", form = \"item-array\" }}\n\
         http = {{ hosts = [\"http://{}\"], networks = [\"127.0.0.1\"] }}\n",
        receiver.url("/"),
        receiver.address
    );
    Setup::with_streams(&["seats"])
        .connector(
            "tests",
            &format!("expire_after_seconds = {expire_after_seconds}"),
        )
        .sink("forward", "http-forward", "seats", &forward)
        .sink("pool", "pool", "seats", "")
}

#[test]
fn what_expires_is_removed_by_an_entry_of_the_log_that_every_sink_hears_of() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = folder(&receiver, 2);
    let process = folder.spawn();
    process.accepted("seats", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    eventually("the receiver hears that both are removed", || {
        let items = receiver
            .seen()
            .into_iter()
            .flat_map(|seen| seen.json().as_array().expect("a list").clone());
        let removed = items.filter(|item| item["removed"] == true);
        let mut keys: Vec<_> = removed.map(|item| item["key"].clone()).collect();
        keys.sort_by_key(ToString::to_string);
        (keys == ["a", "b"]).then_some(())
    });
    process.drained();
    assert!(folder.items("seats").is_empty());
    process.stop();
    let sql = "SELECT group_concat(DISTINCT connector || ' ' || endpoint || ' ' || stream) || ' ' || sum(items)
               FROM requests WHERE endpoint = 3";
    let logged: String = one(&folder.journal(), sql);
    assert_eq!(logged, "headgate 3 seats 2", "each once");
}

#[test]
fn what_expired_is_gone_when_a_start_shows_anything() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = folder(&receiver, 3600);
    let process = folder.spawn();
    process.processed("seats", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    process.stop();
    let sql = "UPDATE items SET expires_ms = 0 WHERE key = 'a'";
    assert_eq!(folder.tamper("pool.db", sql), 1);
    let process = folder.spawn();
    let first: Vec<_> = folder
        .items("seats")
        .into_iter()
        .map(|(key, ..)| key)
        .collect();
    assert_eq!(first, ["b"]);
    process.stop();
}
