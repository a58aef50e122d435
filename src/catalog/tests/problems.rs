//! What was told in the stream of problems, by one daemon or by several nodes.
//!
//! **Invariant**: a node changes nothing of what another one has told or is about to tell.

use super::*;
use base::clock::Lived;

const STREAM: &str = "_problems";

fn publishing(key: &str, is_open: bool, id: u8) -> PublishedProblem {
    PublishedProblem {
        key: key.to_owned(),
        fields: "{}".to_owned(),
        is_open,
        published_at: Lived::from_ms(1_000),
        publishing: Some([id; 16]),
    }
}

#[test]
fn a_node_ends_what_it_was_about_to_tell_and_forgets_its_own_in_other_streams() {
    let desk = Desk::new(&settings());
    let catalog = &desk.catalog;
    let keys = |rows: Vec<PublishedProblem>| -> Vec<(String, Option<[u8; 16]>)> {
        rows.into_iter()
            .map(|row| (row.key, row.publishing))
            .collect()
    };
    let row = |key: &str, publishing: Option<u8>| (key.to_owned(), publishing.map(|id| [id; 16]));
    let started = catalog.published_problems(STREAM, "@a").expect("it reads");
    assert_eq!(started, []);
    let of_a = [
        publishing("wal:daemon@a", true, 1),
        publishing("log:daemon@a", false, 1),
    ];
    let of_b = [
        publishing("wal:daemon@b", true, 2),
        publishing("log:daemon@b", false, 2),
    ];
    for (published, stream) in [(&of_a, STREAM), (&of_b, STREAM), (&of_b, "_other")] {
        catalog
            .publish_problems(stream, published)
            .expect("it writes");
    }
    catalog.end_publishing(&[[1; 16]]).expect("it writes");
    let published = catalog.problem_entries(STREAM).expect("it reads");
    let log_of_b = row("log:daemon@b", Some(2));
    let wal_of_a = row("wal:daemon@a", None);
    let wal_of_b = row("wal:daemon@b", Some(2));
    assert_eq!(
        keys(published),
        [log_of_b.clone(), wal_of_a.clone(), wal_of_b.clone()]
    );

    // Node a has another stream now: what it told in the first one is forgotten, and what b did is not.
    let published = catalog
        .published_problems("_other", "@a")
        .expect("it reads");
    assert_eq!(keys(published), [log_of_b.clone(), wal_of_b.clone()]);
    let published = catalog.problem_entries(STREAM).expect("it reads");
    assert_eq!(keys(published), [log_of_b, wal_of_b]);
    // A daemon alone has one stream.
    let published = catalog.published_problems("_third", "").expect("it reads");
    assert_eq!(published, []);
    let published = catalog.problem_entries(STREAM).expect("it reads");
    assert_eq!(published, []);
}
