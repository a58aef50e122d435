//! What a node has accepted itself, in the log of all nodes.

use super::*;
use ::postgres::{DatabaseOptions, Durability};

/// A life of the node of this name.
async fn open_as(url: &str, name: &str) -> Arc<Journal> {
    let options = DatabaseOptions {
        urls: vec![url.to_owned()],
        schema: "headgate".to_owned(),
        name: name.to_owned(),
        durability: Durability::Local,
    };
    let database = Database::new(&options).expect("a URL and a plain name");
    open_in(database, Duration::from_secs(60)).await
}

/// Requests, rejected ones among them, and items; and when the last one came, of any node.
async fn counted(journal: &Journal) -> ((u64, u64, u64), Unix) {
    let every = Seq::MIN..Seq::new(1 << 62);
    let counted = journal.log_minutes(every, Unix::MIN).await;
    let (minutes, more) = counted.expect("it reads");
    assert_eq!(more, None);
    let sums = minutes.iter().fold((0, 0, 0), |sums, minute| {
        (
            sums.0 + minute.requests,
            sums.1 + minute.errors,
            sums.2 + minute.items,
        )
    });
    let newest = minutes.iter().map(|minute| minute.newest_at).max();
    (sums, newest.expect("some requests"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_counts_what_it_has_accepted_in_any_of_its_lives() {
    let Some(server) = Postgres::start("a_node_counts_what_it_has_accepted_in_any_of_its_lives")
    else {
        return;
    };
    let url = server.url();
    let (a, b) = (open_as(&url, "a").await, open_as(&url, "b").await);
    submit(&a, &["one", "two"], Some("x")).await;
    submit(&b, &["three"], None).await;
    // A repeat is a request of who was asked.
    submit(&b, &["one", "two"], Some("x")).await;
    assert_eq!(counted(&a).await.0, (1, 0, 2));
    assert_eq!(counted(&b).await.0, (2, 0, 1));
    a.close().await;
    let again = open_as(&url, "a").await;
    assert_eq!(counted(&again).await.0, (1, 0, 2));
    submit(&again, &["four"], None).await;
    assert_eq!(counted(&again).await.0, (2, 0, 3));
    let ((requests, ..), newest) = counted(&b).await;
    assert_eq!(requests, 2);
    assert_eq!(newest, counted(&again).await.1, "keys are used on any node");
    let third = open_as(&url, "c").await;
    assert_eq!(counted(&third).await.0, (0, 0, 0));
    for journal in [again, b, third] {
        journal.close().await;
    }
}
