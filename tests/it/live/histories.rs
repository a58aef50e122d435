//! A property over real sockets: after any history, every renderer holds exactly what the pool holds.
//!
//! A history is some upserts (in one stream they are merged) and removals in three streams, while renderers of both
//! transports follow some of the streams, go away, come back, come back to where they were long ago, or stay for
//! several histories. Some see the items through a filter. Now and then the daemon is started again, and forgets removals.
//!
//! `HEADGATE_LIVE_HISTORIES` sets the number of histories, `HEADGATE_SEED` repeats a run's choices (not its timing).
#![expect(
    clippy::disallowed_methods,
    reason = "settings of the test from the environment"
)]

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::watch;

use crate::app::{Caller, Content, Random, Renderer, TestApp, Transport};
use crate::setup::Setup;

const HISTORIES_DEFAULT: u64 = 1_000;
/// Daemons at once; each lives through its share of the histories, one after the other.
const DAEMONS: u64 = 4;
const HISTORIES_TO_A_RESTART: u64 = 40;
const STREAMS: [&str; 3] = ["replaced", "merged", "other"];
const RENDERERS: usize = 3;
const KEYS: u64 = 12;

#[test]
fn after_any_history_every_renderer_holds_what_the_pool_holds() {
    let histories = number("HEADGATE_LIVE_HISTORIES").unwrap_or(HISTORIES_DEFAULT);
    let seed = number("HEADGATE_SEED").unwrap_or_else(|| getrandom::u64().expect("randomness"));
    eprintln!("{histories} histories with HEADGATE_SEED={seed}");
    let started = Instant::now();
    let mut random = Random(seed);
    let messages: u64 = std::thread::scope(|scope| {
        let daemons: Vec<_> = (0..DAEMONS)
            .map(|daemon| {
                let random = Random(random.next());
                let share = histories / DAEMONS + u64::from(daemon < histories % DAEMONS);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(1)
                        .enable_all()
                        .build();
                    let at = Cell::new(0);
                    let run = AssertUnwindSafe(|| {
                        let runtime = runtime.expect("a runtime");
                        runtime.block_on(run(random, share, &at))
                    });
                    std::panic::catch_unwind(run).unwrap_or_else(|_| {
                        let at = at.get();
                        panic!("in history {at} of daemon {daemon}, HEADGATE_SEED={seed}")
                    })
                })
            })
            .collect();
        let runs = daemons.into_iter().map(|daemon| daemon.join());
        runs.map(|messages| messages.expect("every history ends well"))
            .sum()
    });
    eprintln!("{messages} messages, {:?}", started.elapsed());
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a whole number"))
}

/// Which items a follower sees, by key and fields, and which of their fields.
struct Sight {
    query: &'static str,
    sees: fn(&str, &Value) -> bool,
    fields: &'static [&'static str],
}

const SIGHTS: [Sight; 6] = [
    Sight {
        query: "",
        sees: |_, _| true,
        fields: &["id", "a", "b", "c"],
    },
    Sight {
        query: "key=3,5,11&fields=b,a",
        sees: |key, _| ["3", "5", "11"].contains(&key),
        fields: &["a", "b"],
    },
    Sight {
        query: "where=a%3E%3D500",
        sees: |_, fields| fields["a"].as_u64().is_some_and(|a| a >= 500),
        fields: &["id", "a", "b", "c"],
    },
    Sight {
        query: "where=!b?&fields=-c",
        sees: |_, fields| fields["b"].is_null(),
        fields: &["id", "a", "b"],
    },
    Sight {
        query: "where=a%3C300,_key%5E1&fields=a,c",
        sees: |key, fields| key.starts_with('1') && fields["a"].as_u64().is_some_and(|a| a < 300),
        fields: &["a", "c"],
    },
    Sight {
        query: "key=1,2,3,4&where=c%3E400",
        sees: |key, fields| {
            ["1", "2", "3", "4"].contains(&key) && fields["c"].as_u64().is_some_and(|c| c > 400)
        },
        fields: &["id", "a", "b", "c"],
    },
];

impl Sight {
    /// What of the pool's content is seen.
    fn of(&self, content: &Content) -> Content {
        let mut seen = content.clone();
        for items in seen.values_mut() {
            items.retain(|key, item| (self.sees)(key, &item["fields"]));
            for item in items.values_mut() {
                let fields = item["fields"].as_object_mut().expect("fields");
                fields.retain(|name, _| self.fields.contains(&&**name));
            }
        }
        seen
    }
}

/// A renderer over several histories.
struct Follower {
    renderer: Renderer,
    streams: Vec<&'static str>,
    sight: &'static Sight,
    /// What it held at some time, and its position then.
    bookmark: Option<(Content, String)>,
}

/// All histories of one daemon; how many messages were received.
async fn run(mut random: Random, histories: u64, at: &Cell<u64>) -> u64 {
    let [replaced, merged, other] = STREAMS;
    let mut app = Setup::new()
        .stream(replaced)
        .stream(merged)
        .merging(merged)
        .stream(other)
        .key(replaced, replaced)
        .key(merged, merged)
        .key(other, other)
        .read_key("screen", &STREAMS, "")
        .unlimited()
        .start()
        .await;
    let mut followers: Vec<Follower> = (0..RENDERERS)
        .map(|_| newcomer(&app, &mut random))
        .collect();
    let mut messages = 0;
    for history in 0..histories {
        at.set(history);
        if random.once_in(HISTORIES_TO_A_RESTART) {
            app = restarted(app, &mut followers, &mut random).await;
        }
        messages += live_through(&app, &mut followers, &mut random).await;
    }
    for follower in &mut followers {
        let content = follower.sight.of(&app.content(&follower.streams).await);
        follower.renderer.holds(&content).await;
    }
    messages
}

fn newcomer(app: &TestApp, random: &mut Random) -> Follower {
    let mut streams = STREAMS.to_vec();
    streams.retain(|_| !random.once_in(3));
    if streams.is_empty() {
        streams.push(*random.one_of(&STREAMS));
    }
    let transport = *random.one_of(&Transport::ALL);
    let max_rate = *random.one_of(&[30, 200, 1_000]);
    let mut renderer = app.renderer(transport, &streams).max_rate(max_rate);
    let sight = &SIGHTS[usize::try_from(random.within(0..SIGHTS.len() as u64)).expect("small")];
    renderer.asks(sight.query);
    Follower {
        renderer,
        streams,
        sight,
        bookmark: None,
    }
}

async fn restarted(app: TestApp, followers: &mut [Follower], random: &mut Random) -> TestApp {
    for follower in followers.iter_mut() {
        follower.renderer.disconnect();
    }
    let stopped = app.stop().await;
    let forgets = random.once_in(2);
    if forgets {
        // As if there were more: the older half goes.
        stopped.tamper(
            "pool.db",
            "UPDATE history SET floor = max(floor, (SELECT coalesce(avg(seq), 0) FROM removed WHERE seq > 0) / 1);
             UPDATE history SET floor = CAST(floor AS INTEGER);
             UPDATE removed SET seq = 0 WHERE seq <= (SELECT floor FROM history)",
        );
    }
    let app = stopped.start().await;
    for follower in followers {
        follower.renderer.moved(&app.service);
    }
    app
}

/// One history; how many messages were received.
async fn live_through(app: &TestApp, followers: &mut [Follower], random: &mut Random) -> u64 {
    let (tell, told) = watch::channel(None);
    let mut present = Vec::new();
    for follower in followers {
        if random.once_in(12) {
            *follower = newcomer(app, random);
        }
        if !random.once_in(3) || present.is_empty() {
            present.push(follow(follower, Random(random.next()), told.clone()));
        }
    }
    let mut choices = Random(random.next());
    let writing = async {
        write(app, &mut choices).await;
        let content = app.content(&STREAMS).await;
        tell.send_replace(Some(Arc::new(content)));
    };
    let (messages, ()) = tokio::join!(join_all(present), writing);
    messages.into_iter().sum()
}

async fn write(app: &TestApp, random: &mut Random) {
    let callers = STREAMS.map(|stream| app.caller(stream));
    for _ in 0..random.within(3..14) {
        let at = usize::try_from(random.within(0..3)).expect("small");
        let (stream, caller) = (STREAMS[at], &callers[at]);
        match random.within(0..12) {
            0..3 => remove(caller, stream, random).await,
            3 => {
                // Two at once: which is accepted first is open.
                let (mut one, mut two) = (Random(random.next()), Random(random.next()));
                let remove = remove(caller, stream, &mut two);
                tokio::join!(put(caller, &mut one), remove);
            }
            4 => tokio::time::sleep(Duration::from_millis(random.within(1..20))).await,
            _ => put(caller, random).await,
        }
    }
}

async fn put(caller: &Caller, random: &mut Random) {
    let items: Vec<String> = (0..random.within(1..5))
        .map(|_| {
            let key = random.within(0..KEYS);
            let field = ["a", "b", "c"][usize::try_from(random.within(0..3)).expect("small")];
            let value = random.within(0..1_000);
            format!(r#"{{"id": {key}, "{field}": {value}}}"#)
        })
        .collect();
    let body = format!("[{}]", items.join(","));
    caller.ingest_by("id", body).await.receipt();
}

async fn remove(caller: &Caller, stream: &str, random: &mut Random) {
    let path = format!("/api/streams/{stream}/items/{}", random.within(0..KEYS));
    let reply = caller.call(reqwest::Method::DELETE, &path, &[], "").await;
    reply.receipt();
}

/// Follows until everything is written, and then until it holds everything; how many messages it received.
async fn follow(
    follower: &mut Follower,
    mut random: Random,
    mut told: watch::Receiver<Option<Arc<Content>>>,
) -> u64 {
    let Follower {
        renderer,
        streams,
        sight,
        bookmark,
    } = follower;
    if !renderer.is_connected() {
        renderer.connect().await;
    }
    let mut messages = 0;
    loop {
        let next = tokio::select! {
            next = renderer.next() => next,
            all = told.wait_for(Option::is_some) => {
                all.expect("the writer is there");
                break;
            }
        };
        next.expect("the daemon closes no connection");
        messages += 1;
        match random.within(0..14) {
            0 | 1 => {
                renderer.disconnect();
                renderer.connect().await;
            }
            2 => {
                renderer.disconnect();
                tokio::time::sleep(Duration::from_millis(random.within(0..15))).await;
                renderer.connect().await;
            }
            3 => *bookmark = renderer.id.clone().map(|id| (renderer.content.clone(), id)),
            // Somebody whose page slept for long.
            4 => {
                if let Some((content, id)) = bookmark.clone() {
                    renderer.disconnect();
                    renderer.content = content;
                    renderer.connect_from(Some(&id)).await;
                }
            }
            // Somebody who wrote down a position and nothing else since.
            5 => {
                if let Some((_, id)) = bookmark.clone() {
                    renderer.disconnect();
                    renderer.connect_from(Some(&id)).await;
                }
            }
            6 if random.once_in(3) => {
                renderer.forget();
                *bookmark = None;
                renderer.connect().await;
            }
            _ => {}
        }
    }
    let mut content = told.borrow().as_deref().cloned().expect("it is written");
    content.retain(|stream, _| streams.contains(&&**stream));
    messages += renderer.holds(&sight.of(&content)).await.len() as u64;
    if random.once_in(2) {
        renderer.disconnect();
    }
    messages
}
