//! Tickets, sessions and links of two nodes, in a server of the tests' own.

use std::sync::atomic::{AtomicUsize, Ordering};

use postgres_server::Postgres;
use uuid::Uuid;

use super::*;
use crate::{DatabaseOptions, Durability, make};

const LASTS: Duration = Duration::from_secs(60);

/// The tables as two nodes use them.
async fn nodes(server: &Postgres, durability: Durability) -> [AccessTables; 2] {
    let options = DatabaseOptions {
        urls: vec![server.url()],
        schema: "access".to_owned(),
        name: "a".to_owned(),
        durability,
    };
    let database = || Database::new(&options).expect("plain");
    let mut connection = database().connect().await.expect("it connects");
    make(&database(), &mut connection).await.expect("made");
    [(); 2].map(|()| AccessTables::new(database()))
}

fn ticket(name: &str) -> TicketRow {
    TicketRow {
        name: name.to_owned(),
        key: Some([7; 32]),
        key_ends: None,
        streams: vec!["orders".to_owned(), "a,b".to_owned()],
        origin: Some("https://a.example".to_owned()),
    }
}

fn session(number: u8) -> NewSession {
    NewSession {
        sha256: [number; 32],
        id: Uuid::now_v7(),
        token: [1; 32],
        client: "127.0.0.1".to_owned(),
    }
}

#[tokio::test]
async fn a_ticket_is_taken_by_one_node_however_many_ask() {
    let Some(server) = Postgres::start("a_ticket_is_taken_by_one_node") else {
        return;
    };
    let nodes = nodes(&server, Durability::Local).await;
    for round in 0..50_u8 {
        let given = ticket("screen");
        let ends = nodes[0].give_ticket([round; 32], &given, LASTS, 9).await;
        assert!(ends.expect("given") > base::clock::Unix::now());
        let taken = AtomicUsize::new(0);
        let take = async |node: &AccessTables| {
            let got = node.take_ticket([round; 32]).await.expect("an answer");
            if let Some(got) = got {
                assert_eq!(got, given);
                taken.fetch_add(1, Ordering::SeqCst);
            }
        };
        let [a, b] = &nodes;
        tokio::join!(take(a), take(b), take(b), take(a));
        assert_eq!(taken.into_inner(), 1, "round {round}");
    }
}

#[tokio::test]
async fn there_are_so_many_tickets_and_none_that_has_ended() {
    let Some(server) = Postgres::start("there_are_so_many_tickets") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Local).await;
    let other = a.give_ticket([99; 32], &ticket("other"), LASTS, 3).await;
    other.expect("given");
    for number in 0..5 {
        let given = a
            .give_ticket([number; 32], &ticket("screen"), LASTS, 3)
            .await;
        given.expect("given");
    }
    for (number, is_there) in [(0, false), (1, false), (2, true), (99, true)] {
        let taken = b.take_ticket([number; 32]).await.expect("an answer");
        assert_eq!(taken.is_some(), is_there, "{number}");
    }
    a.delete_ended(1).await.expect("deleted");
    let left = [3, 4].map(|number| b.take_ticket([number; 32]));
    let [older, newer] = left;
    assert_eq!(older.await, Ok(None));
    assert!(newer.await.expect("an answer").is_some());
    let ended = a
        .give_ticket([5; 32], &ticket("screen"), Duration::ZERO, 3)
        .await;
    ended.expect("given");
    assert_eq!(b.take_ticket([5; 32]).await, Ok(None));
    let mut of_token = ticket("ops");
    of_token.key = None;
    of_token.key_ends = Some(base::clock::Unix::from_ms(1_234_567));
    let given = a.give_ticket([6; 32], &of_token, LASTS, 3);
    given.await.expect("given");
    assert_eq!(b.take_ticket([6; 32]).await, Ok(Some(of_token)));
    assert_eq!(server.query("SELECT count(*) FROM access.tickets"), "0");
}

#[tokio::test]
async fn a_session_is_the_same_on_both_nodes_and_ends_on_both() {
    let Some(server) = Postgres::start("a_session_is_the_same_on_both_nodes") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Local).await;
    let new = session(1);
    a.begin_session(&new, LASTS, 2).await.expect("begun");
    let seen = b.visit(new.sha256).await.expect("an answer");
    let seen = seen.expect("it has begun");
    assert_eq!((seen.id, seen.token), (new.id, new.token));
    assert_eq!((seen.has_flash, seen.issued_for), (false, None));
    // Noted once a minute.
    let at = "SELECT seen > clock_timestamp() - interval '30 s' FROM access.sessions";
    server.query("UPDATE access.sessions SET seen = clock_timestamp() - interval '59 s'");
    b.visit(new.sha256).await.expect("an answer");
    assert_eq!(server.query(at), "f");
    server.query("UPDATE access.sessions SET seen = clock_timestamp() - interval '61 s'");
    b.visit(new.sha256).await.expect("an answer");
    assert_eq!(server.query(at), "t");
    for number in 2..4 {
        let begun = b.begin_session(&session(number), LASTS, 2).await;
        begun.expect("begun");
    }
    assert_eq!(a.visit(new.sha256).await, Ok(None), "the oldest made way");
    let listed = a.sessions(&[[1; 32]]).await.expect("an answer");
    assert_eq!(listed.len(), 2);
    assert_eq!(a.sessions(&[[2; 32]]).await, Ok(Vec::new()));
    let id = listed[0].id;
    assert_eq!(b.end_session(id, &[[2; 32]]).await, Ok(None));
    let ended = b.end_session(id, &[[1; 32]]).await.expect("an answer");
    assert_eq!(ended.as_ref(), Some(&listed[0]), "the newest is first");
    assert_eq!(a.end_session(id, &[[1; 32]]).await, Ok(None));
    assert_eq!(a.visit([3; 32]).await, Ok(None));
    let over = a.begin_session(&session(9), Duration::ZERO, 9).await;
    over.expect("begun");
    assert_eq!(b.visit([9; 32]).await, Ok(None));
    b.delete_ended(9).await.expect("deleted");
    assert_eq!(server.query("SELECT count(*) FROM access.sessions"), "1");
}

#[tokio::test]
async fn what_is_kept_for_a_page_is_returned_once() {
    let Some(server) = Postgres::start("what_is_kept_for_a_page_is_returned_once") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Local).await;
    let one = session(1).sha256;
    a.begin_session(&session(1), LASTS, 9).await.expect("begun");
    a.set_flash(one, b"done").await.expect("kept");
    let issued = a.keep_issued(one, "/connectors/shop", b"sealed", LASTS);
    issued.await.expect("kept");
    let seen = b.visit(one).await.expect("an answer").expect("a session");
    assert!(seen.has_flash);
    assert_eq!(seen.issued_for.as_deref(), Some("/connectors/shop"));
    let both = tokio::join!(a.take_flash(one), b.take_flash(one));
    let mut both = [both.0.expect("an answer"), both.1.expect("an answer")];
    both.sort();
    assert_eq!(both, [None, Some(b"done".to_vec())]);
    assert_eq!(a.take_issued(one, "/connectors/other").await, Ok(None));
    let both = tokio::join!(
        a.take_issued(one, "/connectors/shop"),
        b.take_issued(one, "/connectors/shop")
    );
    let mut both = [both.0.expect("an answer"), both.1.expect("an answer")];
    both.sort();
    assert_eq!(both, [None, Some(b"sealed".to_vec())]);
    let over = a.keep_issued(one, "/connectors/shop", b"sealed", Duration::ZERO);
    over.await.expect("kept");
    assert_eq!(b.take_issued(one, "/connectors/shop").await, Ok(None));
    b.delete_ended(9).await.expect("deleted");
    let left =
        "SELECT count(*) FROM access.sessions WHERE issued IS NOT NULL OR issued_for IS NOT NULL";
    assert_eq!(server.query(left), "0");
}

#[tokio::test]
async fn a_link_is_accepted_once_and_the_last_one_only() {
    let Some(server) = Postgres::start("a_link_is_accepted_once") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Local).await;
    for link in [1, 2] {
        let ends = a.invite([1; 32], [link; 32], LASTS).await;
        assert!(ends.expect("stored") > base::clock::Unix::now());
    }
    assert_eq!(b.accept_invitation([1; 32]).await, Ok(None));
    let both = tokio::join!(a.accept_invitation([2; 32]), b.accept_invitation([2; 32]));
    let mut both = [both.0.expect("an answer"), both.1.expect("an answer")];
    both.sort();
    assert_eq!(both, [None, Some([1; 32])]);
    let over = a.invite([1; 32], [3; 32], Duration::ZERO).await;
    over.expect("stored");
    assert_eq!(b.accept_invitation([3; 32]).await, Ok(None));
}

#[tokio::test]
async fn one_digest_of_an_admin_token_stays() {
    let Some(server) = Postgres::start("one_digest_of_an_admin_token_stays") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Local).await;
    assert_eq!(a.admin_token().await, Ok(None));
    let both = tokio::join!(a.put_admin_token([1; 32]), b.put_admin_token([2; 32]));
    assert_eq!(both.0, both.1);
    assert_eq!(a.put_admin_token([3; 32]).await, both.0);
    assert_eq!(b.admin_token().await, both.0.map(Some));
}

#[tokio::test]
async fn without_its_standby_people_sign_in_and_screens_connect_and_nobody_signs_out() {
    let Some(server) = Postgres::start("without_its_standby_people_sign_in") else {
        return;
    };
    let [a, b] = nodes(&server, Durability::Standby).await;
    // Whose server was compared with the one of the cluster.
    assert_eq!(a.admin_token().await, Ok(None));
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.query("SELECT pg_reload_conf()");
    let waits = || server.query("SHOW synchronous_standby_names") == "nobody";
    while !waits() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let new = session(1);
    a.begin_session(&new, LASTS, 9).await.expect("begun");
    server.query("SET synchronous_commit = local; UPDATE access.sessions SET seen = clock_timestamp() - interval '2 min'");
    b.visit(new.sha256)
        .await
        .expect("an answer")
        .expect("a session");
    a.set_flash(new.sha256, b"done").await.expect("kept");
    b.take_flash(new.sha256)
        .await
        .expect("an answer")
        .expect("once");
    for round in 0..20 {
        // What the server tidies up whenever it comes across it, whoever asks.
        server.query(
            "SET synchronous_commit = local; CREATE TABLE access.t (a int); DROP TABLE access.t",
        );
        let ticket = ticket("screen");
        let given = a.give_ticket([round; 32], &ticket, LASTS, 9).await;
        given.expect("given");
        let taken = b.take_ticket([round; 32]).await.expect("an answer");
        assert_eq!(taken, Some(ticket));
    }
    a.delete_ended(9).await.expect("deleted");
    let out = a.end_session(new.id, &[new.token]).await;
    assert!(matches!(out, Err(DatabaseError::Away(_))), "{out:?}");
    // Nobody may take it for ended, as it is not on the standby.
    assert!(b.visit(new.sha256).await.expect("an answer").is_some());
}

#[tokio::test]
async fn nobody_waits_for_a_database_that_is_known_to_be_away() {
    let Some(server) = Postgres::start("nobody_waits_for_a_database") else {
        return;
    };
    let [a, _] = nodes(&server, Durability::Local).await;
    a.0.database().set_away(true);
    let visit = a.visit([1; 32]).await;
    assert!(matches!(visit, Err(DatabaseError::Away(_))), "{visit:?}");
    a.0.database().set_away(false);
    assert_eq!(a.visit([1; 32]).await, Ok(None));
}
