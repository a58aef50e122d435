//! Tests of tickets in memory; those of a cluster are tested with its nodes.

use super::*;

fn grant(origin: Option<&str>) -> Grant {
    let streams = vec!["orders".into()];
    Grant {
        reader: Arc::new(Reader::new("screen", streams.clone())),
        streams,
        origin: origin.map(str::to_owned),
    }
}

async fn give(tickets: &Tickets, grant: Grant) -> (String, Unix) {
    let given = tickets.give(grant).await;
    given.expect("random numbers")
}

async fn take(
    tickets: &Tickets,
    ticket: &str,
    comes_from: impl FnOnce(&str) -> bool,
) -> Option<Grant> {
    let taken = tickets.take(ticket, comes_from).await;
    taken.expect("nothing can fail")
}

#[tokio::test]
async fn a_ticket_is_good_once() {
    let tickets = Tickets::default();
    let (ticket, ends_at) = give(&tickets, grant(None)).await;
    assert!(ends_at > Unix::now() + Duration::from_secs(20));
    assert!(take(&tickets, "tk_another", |_| true).await.is_none());
    assert_eq!(
        take(&tickets, &ticket, |_| true)
            .await
            .expect("the first time")
            .streams,
        ["orders".into()]
    );
    assert!(take(&tickets, &ticket, |_| true).await.is_none());
}

#[tokio::test]
async fn a_key_gives_way_to_itself_and_to_nobody_else() {
    let tickets = Tickets::default();
    let (screen, _) = give(&tickets, grant(None)).await;
    let greedy = || Grant {
        reader: Arc::new(Reader::new("greedy", Vec::new())),
        streams: Vec::new(),
        origin: None,
    };
    let mut given = Vec::new();
    for _ in 0..TICKETS_OF_KEY_MAX + 10 {
        given.push(give(&tickets, greedy()).await.0);
    }
    for (number, ticket) in given.iter().enumerate() {
        let is_there = take(&tickets, ticket, |_| true).await.is_some();
        assert_eq!(is_there, number >= 10, "{number}");
    }
    assert!(take(&tickets, &screen, |_| true).await.is_some());
}

#[tokio::test]
async fn a_bound_ticket_is_good_for_its_origin_only_and_used_up_by_a_try() {
    let tickets = Tickets::default();
    let bound = async || give(&tickets, grant(Some("https://a.example"))).await.0;
    let from = |page: &'static str| move |bound: &str| bound == page;
    let (a, b) = ("https://a.example", "https://b.example");
    assert!(take(&tickets, &bound().await, from(a)).await.is_some());
    let ticket = bound().await;
    assert!(take(&tickets, &ticket, from(b)).await.is_none());
    assert!(take(&tickets, &ticket, from(a)).await.is_none());
}
