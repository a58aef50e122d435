//! PUTs whose caller is gone before their act is recorded.

use serde_json::json;

use super::*;
use crate::acts::PutIntent;

const M1: &str = r#"{"n":1}"#;

/// With the item `m1`.
async fn play() -> Play {
    let case = json!({ "name": "put", "steps": [] });
    let mut play = Play::new(serde_json::from_value(case).expect("a case")).await;
    play.submit(&[("m1".to_owned(), Some(M1.to_owned()))], None);
    play
}

fn by(request: u128) -> Author {
    Author {
        operator: "anna".into(),
        name: "anna".into(),
        client: "192.0.2.1".to_owned(),
        request_id: Uuid::from_u128(request),
    }
}

fn put(n: u32) -> Act {
    Act::Put {
        key: "m1".to_owned(),
        fields: format!(r#"{{"n":{n}}}"#),
    }
}

fn repeatable(digest: u8) -> Repeatable {
    Repeatable {
        key: "a".to_owned(),
        digest: [digest; 32],
    }
}

const UNDO: Act = Act::Undo { skip: false };

impl Play {
    fn tries(
        &self,
        act: &Act,
        request: u128,
        again: Option<&Repeatable>,
    ) -> Result<ActProgress, ActRefused> {
        let pool = &self.test.pool;
        let done = pool.act(&self.stream, act, &by(request), again);
        done.expect("it writes")
    }

    /// The data that a call is to submit.
    fn begins(&self, act: &Act, request: u128, again: Option<&Repeatable>) -> PutIntent {
        match self.tries(act, request, again) {
            Ok(ActProgress::Submit(intent)) => intent,
            other => panic!("{other:?}"),
        }
    }

    /// Its data comes into the pool.
    fn stores(&mut self, intent: &PutIntent) {
        let by = by(intent.request_id().as_u128());
        self.submit(&[(intent.key.clone(), intent.fields.clone())], Some(&by));
    }

    fn records(&self, intent: &PutIntent) -> Acted {
        let done = self.test.pool.submitted(intent, intent.request_id(), None);
        done.expect("it writes")
    }

    /// Requests and verbs that the audit log is to have.
    fn recorded(&self) -> Vec<(u128, String)> {
        let records = self.test.pool.unaudited(100).expect("it reads").into_iter();
        let id = |id: String| Uuid::parse_str(&id).expect("an id").as_u128();
        records.map(|one| (id(one.request_id), one.verb)).collect()
    }

    /// Those that are under way.
    fn under_way(&self) -> Vec<PutIntent> {
        self.test.pool.put_intents(100).expect("it reads")
    }

    /// The process starts again.
    async fn starts_again(&mut self) {
        let pool = Arc::clone(&self.test.pool);
        pool.close().await.expect("it closes");
        self.test.pool = open(self.test.folder.path()).await;
        self.settings();
    }
}

#[tokio::test]
async fn a_put_whose_caller_is_gone_is_recorded_once_and_can_be_undone() {
    let mut play = play().await;
    assert_eq!(play.under_way().len(), 0);
    let intent = play.begins(&put(7), 1, None);
    play.stores(&intent);
    assert_eq!(play.recorded(), []);
    play.starts_again().await;
    let left = play.under_way();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].request_id(), Uuid::from_u128(1));
    assert_eq!(left[0].fields.as_deref(), Some(r#"{"n":7}"#));
    // Several have read it.
    let first = play.records(&left[0]);
    let second = play.records(&intent);
    assert_eq!(second.request_id, first.request_id);
    assert_eq!(play.recorded(), [(1, "PUT".to_owned())]);
    assert_eq!(play.under_way().len(), 0);
    let record = &play.test.pool.unaudited(1).expect("it reads")[0];
    assert_eq!((&*record.who, &*record.client), ("anna", "192.0.2.1"));
    assert_eq!(record.before["fields"], json!({"n": 1}));
    assert_eq!(record.after["fields"], json!({"n": 7}));
    assert_eq!(play.begins(&UNDO, 2, None).fields.as_deref(), Some(M1));
}

#[tokio::test]
async fn a_repeat_finds_what_is_under_way_and_then_its_answer() {
    let mut play = play().await;
    let (same, other) = (repeatable(1), repeatable(2));
    let first = play.begins(&put(7), 1, Some(&same));
    play.starts_again().await;
    let again = play.begins(&put(7), 2, Some(&same));
    assert_eq!(again.request_id(), first.request_id());
    let reused = play.tries(&put(8), 3, Some(&other));
    assert!(matches!(reused, Err(ActRefused::KeyReused)), "{reused:?}");
    // Without the key it is another act.
    let alone = play.begins(&put(7), 4, None);
    assert_eq!(alone.request_id(), Uuid::from_u128(4));
    play.stores(&again);
    let done = play.records(&again);
    for request in [5, 6] {
        let Ok(ActProgress::Done(acted)) = play.tries(&put(7), request, Some(&same)) else {
            panic!("it was made before");
        };
        assert!(acted.replayed);
        assert_eq!(acted.request_id, done.request_id);
    }
    assert_eq!(play.recorded(), [(1, "PUT".to_owned())]);
}

#[tokio::test]
async fn a_repeat_that_stored_the_data_itself_gives_the_act_its_id() {
    let mut play = play().await;
    let same = repeatable(1);
    let intent = play.begins(&put(7), 1, Some(&same));
    let again = by(2);
    play.submit(&[(intent.key.clone(), intent.fields.clone())], Some(&again));
    let pool = Arc::clone(&play.test.pool);
    for _ in 0..2 {
        let done = pool.submitted(&intent, again.request_id, Some(&same));
        assert_eq!(done.expect("it writes").request_id, again.request_id);
    }
    assert_eq!(play.recorded(), [(2, "PUT".to_owned())]);
    // It is the row that the PUT wrote.
    assert_eq!(play.begins(&UNDO, 3, None).fields.as_deref(), Some(M1));
}

#[tokio::test]
async fn an_undo_of_a_put_that_is_under_way_is_the_same_for_all_who_call_it() {
    let mut play = play().await;
    let intent = play.begins(&put(7), 1, None);
    play.stores(&intent);
    play.records(&intent);
    let undo = play.begins(&UNDO, 2, None);
    play.stores(&undo);
    play.starts_again().await;
    let again = play.begins(&UNDO, 3, None);
    assert_eq!(again.request_id(), undo.request_id());
    let left = play.under_way();
    assert_eq!(left.len(), 1);
    play.records(&left[0]);
    let second = play.records(&again).outcome.undo.expect("an undo");
    assert_eq!(
        (&*second.undone, second.changed),
        ("PUT", vec!["m1".to_owned()])
    );
    let expected = [(1, "PUT".to_owned()), (2, "undo".to_owned())];
    assert_eq!(play.recorded(), expected);
    let nothing = play.tries(&UNDO, 4, None);
    assert!(
        matches!(nothing, Err(ActRefused::NothingToUndo)),
        "{nothing:?}"
    );
}

#[tokio::test]
async fn a_put_whose_data_was_not_accepted_is_no_act() {
    let mut play = play().await;
    let same = repeatable(1);
    let intent = play.begins(&put(7), 1, Some(&same));
    let pool = Arc::clone(&play.test.pool);
    pool.not_submitted(&intent).expect("it writes");
    assert_eq!((play.under_way().len(), play.recorded().len()), (0, 0));
    // Another may have the key now.
    let other = play.begins(&put(8), 2, Some(&repeatable(2)));
    pool.not_submitted(&other).expect("it writes");
    // Who was taken for dead records it nevertheless.
    play.stores(&intent);
    for _ in 0..2 {
        play.records(&intent);
    }
    assert_eq!(play.recorded(), [(1, "PUT".to_owned())]);
}
