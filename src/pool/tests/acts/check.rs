//! What must hold after a step.

use serde_json::{Value, json};

use super::{NAME, Play, Shown};
use crate::acts::{ActRefused, Acted};

impl Play {
    pub(super) async fn check(&mut self, expect: &Value, what: &str) {
        let shown = self.shown().await;
        let mut expected = Shown::new();
        for (key, item) in expect["shown"].as_object().expect("items") {
            let fields = serde_json::from_value(item["fields"].clone()).expect("fields");
            let names = serde_json::from_value(item["overridden"].clone()).expect("names");
            expected.insert(key.clone(), (fields, names));
        }
        assert_eq!(shown, expected, "{what}");
        let stored = serde_json::to_value(self.stored()).expect("JSON");
        assert_eq!(stored, expect["sink"], "{what}");
        self.test.pool.refresh_views().expect("views");
        let keys: Vec<String> = self.view("shown_scores").into_keys().collect();
        assert_eq!(keys, expected.into_keys().collect::<Vec<_>>(), "{what}");
        let held: Vec<String> = {
            let acts = self.test.pool.stream_acts(NAME, 100).expect("it reads");
            let stream = acts.held.map(|_| "*".to_owned());
            stream
                .into_iter()
                .chain(acts.held_keys.into_iter().map(|held| held.key))
                .collect()
        };
        let expected: Vec<String> =
            serde_json::from_value(expect["held"].clone()).unwrap_or_default();
        assert_eq!(held, expected, "{what}");
        // Each change that is told has a number above all earlier ones, and one number for one key.
        let numbers = self.view("shown_scores");
        let mut distinct: Vec<&String> = numbers.values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), numbers.len(), "{what}");
        if let Some(position) = self.position {
            let (update, remove) = self.heard(position).await;
            self.position = Some(self.test.seq());
            if self.case.follower.is_null() {
                assert_eq!(
                    json!([update, remove]),
                    json!([expect["update"], expect["remove"]]),
                    "{what}"
                );
            }
        }
    }
}

pub(super) fn check_answer(acted: &Result<Acted, ActRefused>, expect: &Value, what: &str) {
    let acted = match acted {
        Ok(acted) => acted,
        Err(refused) => {
            assert_eq!(refused.code(), expect["code"], "{what}: {refused}");
            return;
        }
    };
    assert_eq!(expect["status"], 202, "{what}");
    let mut answer = serde_json::to_value(&acted.outcome).expect("JSON");
    if let Some(value) = &acted.outcome.value {
        answer["value"] = value.get().into();
    }
    if let Some(undo) = answer["undo"].take().as_object() {
        answer = Value::Object(undo.clone());
    }
    for (name, value) in expect["answer"].as_object().expect("an answer") {
        let own = match (&**name, &answer["changed_holds"]) {
            ("changed", changed) if !changed.is_null() => changed,
            _ => &answer[name],
        };
        assert_eq!(own, value, "{what}: {name}");
    }
    assert_eq!(acted.replayed, expect["replayed"] == true, "{what}");
}
