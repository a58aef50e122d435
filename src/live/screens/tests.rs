//! Unit tests of `screens.rs`.

use super::*;

/// What a node has not stored yet, as another one reads it.
fn stored(screens: &Screens) -> Vec<(String, ScreenRecord)> {
    let taken = screens.take_unwritten(true, |_, _| true);
    let written = serde_json::to_string(&taken).expect("JSON");
    serde_json::from_str(&written).expect("records")
}

#[test]
fn nodes_know_where_a_screen_is_and_that_it_is_to_reload() {
    let [here, there] = ["a", "b"].map(|name| {
        let screens = Screens::default();
        screens.set_node(name);
        screens
    });
    let node_of = |screens: &Screens| screens.of("lobby").expect("it is known").node;
    let wait = |before: Option<Lived>| while Some(Lived::now()) == before {};
    here.connected("lobby", &asker(), None);
    assert_eq!(there.merge(stored(&here)), [""; 0]);
    assert_eq!(node_of(&there).as_deref(), Some("a"));
    assert!(stored(&there).is_empty(), "it is stored already");

    there.reload("lobby");
    let reload = stored(&there);
    assert_eq!(here.merge(reload.clone()), ["lobby"]);
    assert_eq!(here.merge(reload), [""; 0], "once");
    assert_eq!(node_of(&here).as_deref(), Some("a"));

    // It moves: what is older is not taken.
    wait(here.of("lobby").map(|record| record.changed()));
    there.connected("lobby", &asker(), None);
    let moved = stored(&there);
    here.merge(moved);
    assert_eq!(node_of(&here).as_deref(), Some("b"));
    wait(there.of("lobby").map(|record| record.changed()));
    there.left("lobby");
    let old = here.of("lobby").map(|record| ("lobby".to_owned(), record));
    there.merge(old.into_iter().collect());
    assert_eq!(node_of(&there), None);
}

fn asker() -> Asker {
    Asker {
        client: "10.0.0.7".to_owned(),
        agent: None,
    }
}

#[test]
fn what_is_refused_after_it_was_there_is_refused_until_it_is_there_again() {
    let screens = Screens::default();
    let of = || screens.of("lobby").expect("it is known");
    screens.refused("lobby", &asker(), "expired");
    assert!(of().refused_at().is_some() && of().seen_at().is_none());
    screens.connected("lobby", &asker(), None);
    assert!(of().refused_at().is_none() && of().seen_at().is_some());
}

#[test]
fn what_comes_and_goes_is_written_at_once_and_the_rest_once_a_minute() {
    let screens = Screens::default();
    let kept = |all| {
        let taken = screens.take_unwritten(all, |_, record| record.is_screen());
        taken.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    screens.connected("plain", &asker(), None);
    screens.polled("sheet", &asker(), "/feed/orders.csv");
    assert_eq!(kept(false), ["sheet"], "`plain` is no screen");
    screens.polled("sheet", &asker(), "/feed/orders.csv");
    assert_eq!(kept(false), [""; 0]);
    assert_eq!(kept(true), ["sheet"]);
    let record = screens.of("sheet").expect("it is known");
    screens.not_written(&[("sheet".to_owned(), record.clone())]);
    assert_eq!(kept(true), ["sheet"]);

    let others = Screens::default();
    let written = serde_json::to_string(&record).expect("JSON");
    let read = serde_json::from_str(&written).expect("a record");
    others.restore(vec![("sheet".to_owned(), read)]);
    assert_eq!(others.of("sheet"), Some(record));
}
