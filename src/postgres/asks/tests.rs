//! Unit tests of `asks.rs`.

use super::*;
use crate::{DatabaseOptions, Durability, make};
use postgres_server::Postgres;

const LONG: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_question_is_taken_by_one_node_and_never_when_it_was_withdrawn() {
    let Some(server) = Postgres::start("a_question_is_taken_by_one_node") else {
        return;
    };
    let options = DatabaseOptions {
        urls: vec![server.url()],
        schema: "asks".to_owned(),
        name: "a".to_owned(),
        durability: Durability::Local,
    };
    let database = Database::new(&options).expect("plain");
    let mut connection = database.connect().await.expect("it connects");
    make(&database, &mut connection).await.expect("made");
    let (one, other) = (Asks::new(database.clone()), Asks::new(database));
    for round in 0..50_u8 {
        let id = Uuid::now_v7();
        one.ask(id, &[round]).await.expect("stored");
        assert_eq!(one.state(id).await, Ok(AskState::Waits));
        assert_eq!(one.take("late", Duration::ZERO).await, Ok(None));
        let (taken, also, withdrawn) = tokio::join!(
            one.take("one", LONG),
            other.take("other", LONG),
            other.withdraw(id)
        );
        let taken = [taken.expect("an answer"), also.expect("an answer")];
        let mut takers = taken.iter().zip(["one", "other"]);
        let taker = takers.find_map(|(took, name)| took.as_ref().map(|took| (took, name)));
        let withdrawn = withdrawn.expect("an answer");
        let times = taken.iter().flatten().count() + usize::from(withdrawn);
        assert_eq!(times, 1, "{taken:?} {withdrawn}");
        let Some((took, name)) = taker else {
            assert_eq!(one.state(id).await, Ok(AskState::Gone));
            continue;
        };
        assert_eq!(*took, (id, vec![round]));
        assert_eq!(one.state(id).await, Ok(AskState::Taken(name.to_owned())));
        other.answer(id, b"done").await.expect("stored");
        assert_eq!(
            one.state(id).await,
            Ok(AskState::Answered(b"done".to_vec()))
        );
        one.delete(id).await.expect("deleted");
        assert_eq!(one.state(id).await, Ok(AskState::Gone));
    }
}
