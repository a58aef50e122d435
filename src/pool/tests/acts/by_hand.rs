//! What the cases do not have: each of these is a fault that no case finds.

use serde_json::{Value, json};

use super::*;

/// A stream of its own, which nobody has acted on.
struct Desk(Play);

impl Desk {
    async fn new() -> Self {
        let case = json!({ "name": "by hand", "steps": [] });
        Self(Play::new(serde_json::from_value(case).expect("a case")).await)
    }

    /// One with `m1`, which has two fields.
    async fn with_m1() -> Self {
        let mut desk = Self::new().await;
        desk.source("m1", r#"{"home":2,"away":1}"#);
        desk
    }

    fn source(&mut self, key: &str, fields: &str) {
        self.0
            .submit(&[(key.to_owned(), Some(fields.to_owned()))], None);
    }

    fn tries(&mut self, who: &str, verb: &str, body: Value) -> Result<Acted, ActRefused> {
        let body = body.to_string();
        let step = json!({ "who": who, "verb": verb, "body": body, "expect": {} });
        self.0.act(&step).expect("a known operator")
    }

    fn acts(&mut self, who: &str, verb: &str, body: Value) -> Acted {
        let acted = self.tries(who, verb, body.clone());
        acted.unwrap_or_else(|refused| panic!("{verb} {body}: {refused}"))
    }

    fn overrides(&mut self, who: &str, fields: Value) -> Acted {
        self.acts(who, "override", json!({ "key": "m1", "fields": fields }))
    }

    /// An undo; what changed, and who covers it.
    fn undoes(&mut self, who: &str, body: Value) -> (Vec<String>, Vec<String>) {
        let undo = self.acts(who, "undo", body).outcome.undo;
        let undo = undo.expect("it says what it did");
        (undo.changed, undo.covered_by)
    }

    async fn shown(&self, key: &str) -> Option<String> {
        self.0.test.fields(NAME, key).await
    }

    fn of_item(&self, key: &str) -> crate::acts::ItemActs {
        self.0.test.pool.item_acts(NAME, key).expect("it reads")
    }

    async fn restart(&mut self) {
        let pool = Arc::clone(&self.0.test.pool);
        pool.close().await.expect("it closes");
        self.0.test.pool = open(self.0.test.folder.path()).await;
    }
}

#[tokio::test]
async fn the_release_of_a_field_leaves_the_others() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 7, "away": 8}));
    let released = desk.acts("anna", "release", json!({"key": "m1", "fields": ["home"]}));
    assert_eq!(released.outcome.released, Some(1));
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":2,"away":8}"#)
    );
}

#[tokio::test]
async fn nobody_covers_an_act_of_their_own() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 7}));
    desk.acts(
        "anna",
        "add",
        json!({"key": "m1", "field": "home", "by": 1}),
    );
    desk.undoes("anna", json!({"skip": true}));
    let (changed, covered_by) = desk.undoes("anna", json!({}));
    assert_eq!((changed, covered_by), (vec!["m1".to_owned()], Vec::new()));
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":3,"away":1}"#)
    );
}

#[tokio::test]
async fn an_idempotency_key_is_of_one_stream() {
    let mut desk = Desk::with_m1().await;
    let hold = json!({
        "who": "anna", "verb": "hold", "body": "{}", "idempotency_key": "press-1", "expect": {},
    });
    let mut press = |stream: &str| {
        desk.0.stream = stream.into();
        let acted = desk.0.act(&hold).expect("a known operator");
        acted.expect("it acts").replayed
    };
    assert_eq!(
        [press(NAME), press("other"), press(NAME)],
        [false, false, true]
    );
}

#[tokio::test]
async fn an_add_keeps_the_time_that_is_there() {
    let mut desk = Desk::with_m1().await;
    let seven = json!({"key": "m1", "fields": {"home": 7}, "until": 100});
    desk.acts("anna", "override", seven);
    desk.acts(
        "anna",
        "add",
        json!({"key": "m1", "field": "home", "by": 1}),
    );
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":8,"away":1}"#)
    );
    assert!(desk.of_item("m1").overrides[0].until.is_some());
    desk.0.pass(101);
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":2,"away":1}"#)
    );
}

#[tokio::test]
async fn a_hold_that_is_made_again_stays_that_of_who_made_it() {
    let mut desk = Desk::with_m1().await;
    desk.acts("anna", "hold", json!({}));
    let held = desk.of_item("m1").held.expect("it is held");
    desk.acts("ben", "hold", json!({"until": 100}));
    let again = desk.of_item("m1").held.expect("it is held");
    assert_eq!((&*again.by, again.since), ("anna", held.since));
    assert!(again.until.is_some());
}

#[tokio::test]
async fn a_key_that_is_not_there_cannot_be_held_and_none_of_the_others_is() {
    let mut desk = Desk::with_m1().await;
    let refused = desk.tries("anna", "hold", json!({"keys": ["m1", "m11"]}));
    assert_eq!(
        refused.expect_err("m11 is not there").code(),
        "ITEM_NOT_FOUND"
    );
    assert_eq!(desk.of_item("m1").held, None);
}

#[tokio::test]
async fn what_goes_on_beneath_an_override_is_told_as_it_is_shown() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 3}));
    let pool = Arc::clone(&desk.0.test.pool);
    let _listener = pool.changes().listen(&[NAME.into()], None);
    let position = pool.position().seq;
    desk.source("m1", r#"{"home":4,"away":1}"#);
    desk.source("m1", r#"{"home":4,"away":2}"#);
    let Recent::Changes { changes: told, .. } =
        pool.changes()
            .read()
            .after(NAME, None, position, usize::MAX)
    else {
        panic!("nothing is told");
    };
    // The newest of an item is what the memory keeps.
    let told: Vec<_> = told
        .iter()
        .map(|change| String::from_utf8_lossy(&change.json))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let fields = r#""fields":{"home":3,"away":2}"#;
    assert!(told[0].contains(fields), "{told:?}");
}

#[tokio::test]
async fn a_take_that_others_built_on_is_not_undone() {
    let mut desk = Desk::with_m1().await;
    desk.acts("anna", "hold", json!({}));
    desk.source("m1", r#"{"home":5,"away":1}"#);
    desk.acts("anna", "take", json!({}));
    desk.acts("ben", "resume", json!({}));
    let refused = desk.tries("anna", "undo", json!({}));
    assert_eq!(refused.expect_err("ben resumed").code(), "UNDO_CONFLICT");
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":5,"away":1}"#)
    );
}

#[tokio::test]
async fn a_hold_whose_time_has_passed_does_not_come_back() {
    let mut desk = Desk::with_m1().await;
    desk.acts("anna", "hold", json!({"until": 100}));
    desk.acts("anna", "resume", json!({}));
    desk.0
        .run("UPDATE acts SET scope = json_set(scope, '$.before[0].until_lived', 1) WHERE verb = 'resume'");
    let undo = desk.acts("anna", "undo", json!({})).outcome.undo;
    assert!(!undo.expect("it says what it did").exact);
    assert_eq!(desk.of_item("m1").held, None);
}

#[tokio::test]
async fn a_put_names_what_is_not_seen_and_is_not_undone_over_the_source() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 3}));
    let put = desk.acts("ben", "PUT m1", json!({"home": 8, "away": 8}));
    assert_eq!(put.outcome.overridden, Some(vec!["home".to_owned()]));
    desk.source("m1", r#"{"home":9,"away":9}"#);
    let refused = desk.tries("ben", "undo", json!({}));
    assert_eq!(
        refused.expect_err("the source went on").code(),
        "UNDO_CONFLICT"
    );
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":3,"away":9}"#)
    );
}

#[tokio::test]
async fn what_an_undo_needs_stays_when_another_act_leaves_the_list() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 3}));
    desk.overrides("ben", json!({"home": 4}));
    desk.overrides("ben", json!({"away": 4}));
    desk.undoes("ben", json!({"skip": true}));
    assert_eq!(desk.undoes("ben", json!({})).0, ["m1"]);
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":3,"away":4}"#)
    );
}

#[tokio::test]
async fn a_restart_goes_on_with_overrides_and_holds() {
    let mut desk = Desk::with_m1().await;
    desk.source("m2", r#"{"home":0}"#);
    desk.overrides("anna", json!({"home": 3}));
    desk.acts("anna", "hold", json!({"keys": ["m2"]}));
    desk.restart().await;
    desk.source("m1", r#"{"home":4,"away":4}"#);
    desk.source("m2", r#"{"home":4}"#);
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":3,"away":4}"#)
    );
    assert_eq!(desk.shown("m2").await.as_deref(), Some(r#"{"home":0}"#));
}

#[tokio::test]
async fn an_item_is_as_old_as_its_source_whatever_is_shown() {
    let mut desk = Desk::with_m1().await;
    let updated_at = async |desk: &Desk| {
        let item = desk.0.test.pool.item(NAME, "m1").await.expect("it reads");
        item.expect("it is there").updated_at
    };
    let before = updated_at(&desk).await;
    desk.overrides("anna", json!({"home": 3}));
    assert_eq!(updated_at(&desk).await, before);
}

#[tokio::test]
async fn ten_thousand_keys_can_be_held_and_a_hundred_acts_undone() {
    let mut desk = Desk::with_m1().await;
    let keys: Vec<String> = (0..10_001).map(|number| format!("k{number}")).collect();
    let items: Vec<_> = keys
        .iter()
        .map(|key| (key.clone(), Some("{}".to_owned())))
        .collect();
    desk.0.submit(&items, None);
    let refused = desk.tries("anna", "hold", json!({ "keys": keys }));
    assert_eq!(refused.expect_err("too many").code(), "TOO_MANY_HELD");
    desk.acts("anna", "hold", json!({ "keys": &keys[1..] }));
    desk.acts("anna", "resume", json!({ "keys": &keys[1..] }));

    for number in 0..101 {
        desk.overrides("ben", json!({ "home": number + 10 }));
    }
    for _ in 0..100 {
        desk.undoes("ben", json!({}));
    }
    let refused = desk.tries("ben", "undo", json!({}));
    assert_eq!(
        refused.expect_err("all are undone").code(),
        "NOTHING_TO_UNDO"
    );
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":10,"away":1}"#)
    );
}

#[tokio::test]
async fn a_stream_that_is_gone_is_held_no_more() {
    let mut desk = Desk::with_m1().await;
    desk.overrides("anna", json!({"home": 3}));
    desk.acts("anna", "hold", json!({}));
    desk.0.test.pool.forget_acts(NAME).expect("it forgets");
    let left = desk.0.test.pool.stream_acts(NAME, 10).expect("it reads");
    assert_eq!(left, crate::acts::StreamActs::default());
    desk.source("m1", r#"{"home":9}"#);
    assert_eq!(desk.shown("m1").await.as_deref(), Some(r#"{"home":9}"#));
}

#[tokio::test]
async fn what_ends_by_a_time_of_either_clock_is_audited() {
    let mut desk = Desk::with_m1().await;
    let seven = json!({"key": "m1", "fields": {"home": 7}, "until": 100});
    desk.acts("anna", "override", seven);
    desk.acts("anna", "hold", json!({"until": 100}));
    desk.0.pass(101);
    // By the wall clock, which is another one.
    desk.overrides("anna", json!({"away": 7}));
    let wall = Unix::now().to_column();
    desk.0.run(&format!(
        "UPDATE writes SET until_wall = {wall} WHERE field = '\"away\"'"
    ));
    desk.0.test.pool.end_acts().expect("it ends");
    assert_eq!(
        desk.shown("m1").await.as_deref(),
        Some(r#"{"home":2,"away":1}"#)
    );
    let acts = desk.0.test.pool.unaudited(100).expect("it reads");
    let own = acts.iter().filter(|act| act.who == "headgate");
    let mut verbs: Vec<_> = own.map(|act| &*act.verb).collect();
    verbs.sort_unstable();
    assert_eq!(verbs, ["release", "release", "resume"]);
}
