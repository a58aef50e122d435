//! The cases of acts, played on the pool itself.

mod by_hand;
mod check;
mod put;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::acts::{Act, ActProgress, ActRefused, Acted, Author, Repeatable, Until};
use base::clock::Lived;
use check::check_answer;
use item::Version;
use item::flatten::{FlattenLimits, flatten};

const CASES: &str = include_str!("../../../tests/fixtures/operate-vectors.json");
const NAME: &str = "scores";

/// The items of a stream: key, fields by name, overridden names.
type Shown = BTreeMap<String, (BTreeMap<String, String>, Vec<String>)>;

#[derive(Debug, Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    settings: Value,
    #[serde(default)]
    follower: Value,
    steps: Vec<Value>,
}

/// One case that is played.
struct Play {
    test: Test,
    case: Case,
    stream: Arc<str>,
    /// Number of the last request.
    seq: u64,
    /// Where the screen stands; none: it is away.
    position: Option<u64>,
    /// Where it stood when it went.
    left_at: u64,
}

/// A text of JSON as an object of texts.
fn texts(json: &str) -> BTreeMap<String, String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).expect("an object");
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name, value.get().to_owned()))
        .collect()
}

fn flat(body: &str) -> String {
    let limits = FlattenLimits {
        flattened_bytes_max: 1 << 20,
        item_bytes_max: 10_000,
    };
    let items = flatten(body.as_bytes(), None, limits).expect("it flattens");
    items.iter().next().expect("an item").fields.to_owned()
}

impl Play {
    async fn new(case: Case) -> Self {
        let test = Test::new().await;
        let mut play = Self {
            test,
            case,
            stream: NAME.into(),
            seq: 0,
            position: Some(0),
            left_at: 0,
        };
        play.settings();
        play.position = Some(play.test.seq());
        play
    }

    fn settings(&self) {
        let on_update = match self.case.settings["on_update"].as_str() {
            Some("merge") => OnUpdate::Merge,
            _ => OnUpdate::Replace,
        };
        let streams = [(Arc::clone(&self.stream), on_update)];
        self.test.pool.set_on_update(streams.into());
    }

    fn submit(&mut self, items: &[(String, Option<String>)], by: Option<&Author>) {
        self.seq += 1;
        let mut writer = ItemsWriter::new(1 << 20, 0);
        for (key, fields) in items {
            let field = |name: &Value| {
                let name = name.as_str()?;
                texts(fields.as_deref()?).remove(name)
            };
            let delete_when = &self.case.settings["delete_when"];
            let removes = by.is_none()
                && field(&delete_when["field"]).is_some_and(|value| {
                    value.trim_matches('"') == delete_when["is"][0].as_str().expect("a value")
                });
            let action = match fields.is_none() || removes {
                true => Action::Remove,
                false => Action::Upsert,
            };
            let version = field(&self.case.settings["version"]).filter(|_| by.is_none());
            let meta = ItemMeta {
                version: version.map(|text| {
                    Version::from_millionths(text.parse::<i128>().expect("a number") * 1_000_000)
                }),
                is_whole: by.is_some(),
                ..ItemMeta::default()
            };
            let fields = fields.as_deref().unwrap_or("{}");
            writer
                .push_with(key, fields, action, meta)
                .expect("it fits");
        }
        let entry = Entry {
            seq: Seq::new(self.seq),
            request_id: by.map_or(Uuid::from_u128(self.seq.into()), |by| by.request_id),
            stream: Arc::clone(&self.stream),
            received_at: Unix::from_ms(self.seq * 1_000),
            arrived: None,
            items: writer.into_items(),
        };
        self.test.settle_all(
            vec![Batch::new(vec![Slice::whole(Arc::new(entry))], 1)],
            true,
        );
    }

    /// Whether it is one that the pool can be asked.
    fn act(&mut self, step: &Value) -> Option<Result<Acted, ActRefused>> {
        let text = |name: &str| step[name].as_str();
        let (who, verb, body) = (text("who")?, text("verb")?, text("body")?);
        if !matches!(who, "anna" | "ben" | "ok_scores")
            || step["expect"]["status"] == 400 && step["expect"]["code"] == "INVALID_PAYLOAD"
        {
            return None;
        }
        let by = Author {
            operator: who.into(),
            name: who.into(),
            client: String::new(),
            request_id: Uuid::now_v7(),
        };
        let repeatable = text("idempotency_key").map(|key| {
            let mut digest = [0; 32];
            let said = format!("{verb} {body}");
            digest
                .iter_mut()
                .zip(said.bytes())
                .for_each(|(at, byte)| *at = byte);
            Repeatable {
                key: key.to_owned(),
                digest,
            }
        });
        let raw = texts(body);
        let value: Value = serde_json::from_str(body).expect("JSON");
        let own = |name: &str| value[name].as_str().map(str::to_owned);
        let keys = || serde_json::from_value(value["keys"].clone()).unwrap_or(None);
        let create = value["create"] == true;
        let until = value.get("until").map(|until| {
            let seconds = until.as_u64();
            seconds.map(|seconds| Until::Lived(Lived::now() + Duration::from_secs(seconds)))
        });
        let act = match verb {
            "override" => Act::Override {
                key: own("key")?,
                fields: flat(&raw["fields"]),
                until: until.flatten(),
                create,
            },
            "add" => Act::Add {
                key: own("key")?,
                field: own("field")?,
                step: raw["by"].clone(),
                until,
                create,
            },
            "release" => Act::Release {
                key: own("key"),
                fields: serde_json::from_value(value["fields"].clone()).unwrap_or(None),
            },
            "hold" => Act::Hold {
                keys: keys(),
                until,
            },
            "take" => Act::Take { keys: keys() },
            "resume" => Act::Resume { keys: keys() },
            "undo" => Act::Undo {
                skip: value["skip"] == true,
            },
            put => Act::Put {
                key: put.strip_prefix("PUT ")?.to_owned(),
                fields: flat(body),
            },
        };
        let pool = Arc::clone(&self.test.pool);
        let stream = Arc::clone(&self.stream);
        Some(
            match pool
                .act(&stream, &act, &by, repeatable.as_ref())
                .expect("it acts")
            {
                Err(refused) => Err(refused),
                Ok(ActProgress::Done(acted)) => Ok(acted),
                Ok(ActProgress::Submit(put)) => {
                    self.submit(&[(put.key.clone(), put.fields.clone())], Some(&by));
                    let acted = pool.submitted(&put, by.request_id, repeatable.as_ref());
                    Ok(acted.expect("it acts"))
                }
            },
        )
    }

    fn run(&self, sql: &str) {
        self.test
            .pool
            .lock()
            .connection
            .execute_batch(sql)
            .expect(sql);
    }

    /// So many seconds pass.
    fn pass(&mut self, seconds: i64) {
        for table in ["writes", "holds"] {
            self.run(&format!(
                "UPDATE {table} SET until_lived = until_lived - {seconds}000"
            ));
        }
        self.test.pool.end_acts().expect("it ends");
        let Some(life) = self.case.settings["expire_after_seconds"].as_i64() else {
            return;
        };
        // How old an item is stands in the columns of time that nothing else reads.
        self.run(&format!(
            "UPDATE items SET expires_ms = coalesce(expires_ms, {life}) - {seconds}"
        ));
        let due = self
            .test
            .pool
            .expired(Lived::from_ms(0), (i64::MIN, 0), 10)
            .expect("it reads");
        for item in due {
            if item.at.0 <= 0 {
                self.submit(&[(item.key, None)], None);
            }
        }
    }

    async fn shown(&self) -> Shown {
        let items = self
            .test
            .pool
            .items(NAME, None, EVERYTHING)
            .await
            .expect("it reads");
        let mut shown = Shown::new();
        for item in items {
            let mut fields = texts(&item.fields);
            fields.remove("key");
            let names: Vec<String> = match &*item.overridden {
                "" => Vec::new(),
                names => serde_json::from_str(names).expect("names"),
            };
            assert!(item.overridden != "[]");
            shown.insert(item.key, (fields, names));
        }
        shown
    }

    fn view(&self, name: &str) -> BTreeMap<String, String> {
        let writer = self.test.pool.lock();
        let known = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
        let made: i64 = writer
            .connection
            .query_row(known, [name], |row| row.get(0))
            .expect("it reads");
        if made == 0 {
            return BTreeMap::new();
        }
        let sql = format!("SELECT _key, _seq FROM {name}");
        let mut select = writer.connection.prepare(&sql).expect("a view");
        let rows = select.query_map([], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.to_string()))
        });
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    fn stored(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let writer = self.test.pool.lock();
        let mut select = writer
            .connection
            .prepare("SELECT key, fields FROM items")
            .expect("SQL");
        let rows = select.query_map([], |row| {
            Ok((row.get(0)?, texts(row.get_ref(1)?.as_str()?)))
        });
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    /// What the screen hears: updates and removals, from memory and the same from the file.
    async fn heard(&mut self, position: u64) -> (Vec<String>, Vec<String>) {
        let file = self.test.read(NAME, position).await;
        let mut told: BTreeMap<String, bool> = BTreeMap::new();
        for (key, _, removed) in file {
            told.insert(key, removed);
        }
        let of = |removed: bool| {
            let keys = told.iter().filter(|(_, gone)| **gone == removed);
            keys.map(|(key, _)| key.clone()).collect()
        };
        (of(false), of(true))
    }

    async fn step(&mut self, at: usize) {
        let step = self.case.steps[at].clone();
        let expect = &step["expect"];
        let what = format!("{}, step {at}: {step}", self.case.name);
        let mut acted = None;
        match step["do"].as_str().expect("a verb") {
            "source" => {
                let items = step["items"].as_array().expect("items").iter();
                let items: Vec<(String, Option<String>)> = items
                    .map(|item| {
                        let text = |at: usize| item[at].as_str().expect("a text").to_owned();
                        (text(0), Some(flat(&text(1))))
                    })
                    .collect();
                self.submit(&items, None);
            }
            "remove" => {
                for key in step["keys"].as_array().expect("keys") {
                    self.submit(&[(key.as_str().expect("a key").to_owned(), None)], None);
                }
            }
            "act" => match self.act(&step) {
                None => return,
                done => acted = done,
            },
            "restart" => {
                let pool = Arc::clone(&self.test.pool);
                pool.close().await.expect("it closes");
                self.test.pool = open(self.test.folder.path()).await;
                self.settings();
                self.position = Some(self.test.seq());
            }
            "time" => self.pass(step["seconds"].as_i64().expect("seconds")),
            "away" => {
                self.left_at = self.position.take().expect("it is there");
            }
            "back" => self.position = Some(self.left_at),
            "look" => {
                let acts = self
                    .test
                    .pool
                    .item_acts(NAME, step["key"].as_str().expect("a key"));
                let acts = acts.expect("it reads");
                let overrides: serde_json::Map<String, Value> = acts
                    .overrides
                    .into_iter()
                    .map(|own| {
                        (
                            own.field,
                            serde_json::json!([own.value, own.source, own.by]),
                        )
                    })
                    .collect();
                assert_eq!(Value::Object(overrides), expect["overrides"], "{what}");
            }
            other => panic!("{other}"),
        }
        if let Some(acted) = acted {
            check_answer(&acted, expect, &what);
        }
        self.check(expect, &what).await;
    }
}

#[tokio::test]
async fn every_case_of_acts_ends_as_it_says() {
    let cases: Cases = serde_json::from_str(CASES).expect("the cases");
    assert!(cases.cases.len() >= 135);
    for case in cases.cases {
        let mut play = Play::new(case).await;
        for at in 0..play.case.steps.len() {
            play.step(at).await;
        }
    }
}
