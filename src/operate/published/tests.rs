//! When problems are told, on a clock of the test's own.

use super::super::problem::{ProblemKind, ProblemSubject};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// What is known, and the time.
struct Watched {
    published: Published,
    now: (Lived, Unix),
    /// All that was told: second, key, state.
    heard: Vec<(u64, String, String)>,
}

impl Watched {
    fn new() -> Self {
        Self {
            published: Published::new(None),
            now: (Lived::from_ms(1_000_000_000), Unix::from_ms(1_000_000_000)),
            heard: Vec::new(),
        }
    }

    fn second(&self) -> u64 {
        (self.now.0 - Lived::from_ms(1_000_000_000)).as_secs()
    }

    /// So many seconds pass with these problems, looked at each.
    fn pass(&mut self, seconds: u64, problems: &[Problem]) {
        for _ in 0..seconds {
            self.published
                .compare(items(problems, None, self.now.1), self.now);
            let due = self.published.due(self.now);
            self.published.note(&due);
            for one in due {
                let item: ProblemItem = serde_json::from_str(&one.fields).expect("an item");
                self.heard.push((self.second(), one.key, item.state));
            }
            self.now = (self.now.0 + SECOND, self.now.1 + SECOND);
        }
    }

    fn heard(&mut self) -> Vec<(u64, String, String)> {
        std::mem::take(&mut self.heard)
    }
}

fn behind(sink: &str) -> Problem {
    Problem {
        kind: ProblemKind::SinkBehind,
        subject: ProblemSubject::Sink(sink.to_owned()),
        sentence: format!("the sink {sink} is behind"),
    }
}

fn entry(second: u64, key: &str, state: &str) -> (u64, String, String) {
    (second, key.to_owned(), state.to_owned())
}

#[test]
fn what_stands_is_told_after_ten_seconds_and_so_is_its_end() {
    let mut watched = Watched::new();
    watched.pass(9, &[behind("team")]);
    watched.pass(20, &[]);
    assert_eq!(watched.heard(), [], "it did not stand for ten seconds");
    watched.pass(40, &[behind("team")]);
    watched.pass(5, &[]);
    watched.pass(5, &[behind("team")]);
    watched.pass(20, &[]);
    assert_eq!(
        watched.heard(),
        [
            entry(39, "sink_behind:team", "open"),
            entry(89, "sink_behind:team", "resolved")
        ]
    );
    assert!(watched.published.known.is_empty() || watched.second() < 119);
    watched.pass(30, &[]);
    assert!(watched.published.known.is_empty());
}

#[test]
fn one_problem_is_told_once_in_thirty_seconds() {
    let mut watched = Watched::new();
    for _ in 0..12 {
        watched.pass(11, &[behind("team")]);
        watched.pass(11, &[]);
    }
    let heard = watched.heard();
    assert!(heard.len() >= 4, "{heard:?}");
    for pair in heard.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 30, "{heard:?}");
        assert_ne!(pair[0].2, pair[1].2, "{heard:?}");
    }
}

#[test]
fn what_finds_no_room_is_one_item_until_it_is_told() {
    let mut watched = Watched::new();
    let all: Vec<Problem> = (0..150)
        .map(|number| behind(&format!("s{number:03}")))
        .collect();
    watched.pass(300, &all);
    let heard = watched.heard();
    for (second, ..) in &heard {
        let minute = heard
            .iter()
            .filter(|one| (*second..second + 60).contains(&one.0));
        assert!(minute.count() <= MAX, "{second}");
    }
    let many: Vec<_> = heard.iter().filter(|one| one.1 == "many:").collect();
    assert_eq!(many.len(), 2, "{many:?}");
    assert_eq!((&*many[0].2, &*many[1].2), ("open", "resolved"));
    assert_eq!(many[0].0, 10);
    assert_eq!(heard.len(), 152, "each once");
}

#[test]
fn problems_with_one_key_are_one_item() {
    let of_daemon = |sentence: &str| Problem {
        kind: ProblemKind::Wal,
        subject: ProblemSubject::Daemon,
        sentence: sentence.to_owned(),
    };
    let found = items(&[of_daemon("a"), of_daemon("b")], None, Unix::from_ms(0));
    let found: Vec<_> = found.iter().collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&**found[0].0, &*found[0].1.message),
        ("wal:daemon", "a; b")
    );
}

#[test]
fn the_next_daemon_goes_on_where_the_one_before_it_was() {
    let mut watched = Watched::new();
    watched.pass(15, &[behind("team"), behind("other")]);
    let rows: Vec<PublishedProblem> = (watched.published.known.iter())
        .map(|(key, known)| known.row(key, known.published_at.expect("published")))
        .collect();
    let since = watched.published.known["sink_behind:team"]
        .item
        .since
        .clone();
    watched.heard();
    watched.published = Published::new(None);
    watched.published.restore(&rows, watched.now.0);
    watched.pass(60, &[behind("team")]);
    let heard = watched.heard();
    let keys: Vec<_> = heard.iter().map(|one| (&*one.1, &*one.2)).collect();
    assert_eq!(keys, [("sink_behind:other", "resolved")]);
    let mut found = items(&[behind("team")], None, watched.now.1);
    watched.published.dated(&mut found);
    assert_eq!(found["sink_behind:team"].since, since);
}

/// What all nodes of a cluster have told, by key, as the catalog has it. Each is told at once.
#[derive(Default)]
struct Shared {
    published: BTreeMap<String, PublishedProblem>,
    /// All that was told: key, state, message.
    heard: Vec<(String, String, String)>,
}

impl Watched {
    fn of_node(name: &str) -> Self {
        Self {
            published: Published::new(Some(name)),
            ..Self::new()
        }
    }

    /// The same as [`pass`](Watched::pass) on a node; if it runs the sinks, with the nodes that live.
    fn pass_in(
        &mut self,
        shared: &mut Shared,
        seconds: u64,
        problems: &[Problem],
        live: Option<&[&str]>,
    ) {
        let names = |live: &[&str]| live.iter().map(|name| (*name).to_owned()).collect();
        let live: Option<BTreeSet<String>> = live.map(names);
        for _ in 0..seconds {
            let found = items(problems, self.published.node.as_deref(), self.now.1);
            self.published.compare(found, self.now);
            let rows: Vec<_> = shared.published.values().cloned().collect();
            self.published.share(&rows, live.as_ref(), self.now);
            let due = self.published.due(self.now);
            self.published.note(&due);
            for one in due {
                let item: ProblemItem = serde_json::from_str(&one.fields).expect("an item");
                shared
                    .heard
                    .push((one.key.clone(), item.state, item.message));
                match one.is_open {
                    true => drop(shared.published.insert(one.key.clone(), one)),
                    false => drop(shared.published.remove(&one.key)),
                }
            }
            self.now = (self.now.0 + SECOND, self.now.1 + SECOND);
        }
    }
}

impl Shared {
    /// Keys and states of what was told since the last call.
    fn heard(&mut self) -> Vec<(String, String)> {
        let heard = std::mem::take(&mut self.heard).into_iter();
        heard.map(|(key, state, _)| (key, state)).collect()
    }
}

fn published(key: &str, state: &str) -> (String, String) {
    (key.to_owned(), state.to_owned())
}

#[test]
fn nodes_with_the_same_problem_have_an_entry_each() {
    let (mut shared, problem) = (Shared::default(), [behind("team")]);
    let [mut a, mut b] = ["a", "b"].map(Watched::of_node);
    let live: Option<&[&str]> = Some(&["a", "b"]);
    a.pass_in(&mut shared, 15, &problem, live);
    b.pass_in(&mut shared, 15, &problem, None);
    let of_a = published("sink_behind:team@a", "open");
    let of_b = published("sink_behind:team@b", "open");
    assert_eq!(shared.heard(), [of_a, of_b]);
    a.pass_in(&mut shared, 100, &[], live);
    assert_eq!(
        shared.heard(),
        [published("sink_behind:team@a", "resolved")]
    );
    // A restart of one node leaves what the other one has told.
    let rows: Vec<_> = shared.published.values().cloned().collect();
    a.published = Published::new(Some("a"));
    a.published.restore(&rows, a.now.0);
    a.pass_in(&mut shared, 100, &[], live);
    b.pass_in(&mut shared, 100, &problem, None);
    assert_eq!(shared.heard(), []);
    assert_eq!(node_of("sink_behind:team@b"), Some("b"));
    assert_eq!(node_of("unauthenticated:daemon"), None);
}

#[test]
fn what_a_node_said_that_is_gone_is_resolved_by_the_node_that_runs_the_sinks() {
    let mut shared = Shared::default();
    let [mut a, mut b] = ["a", "b"].map(Watched::of_node);
    b.pass_in(&mut shared, 15, &[behind("team")], None);
    shared.heard();
    a.pass_in(&mut shared, 100, &[], Some(&["a", "b"]));
    a.pass_in(&mut shared, 100, &[], None);
    a.pass_in(&mut shared, 29, &[], Some(&["a"]));
    a.pass_in(&mut shared, 1, &[], Some(&["a", "b"]));
    a.pass_in(&mut shared, 29, &[], Some(&["a"]));
    assert_eq!(shared.heard(), [], "it lives, or may be restarting");
    a.pass_in(&mut shared, 10, &[], Some(&["a"]));
    let message = "resolved: node b is gone, which said: the sink team is behind";
    let resolved = ("sink_behind:team@b", "resolved", message);
    let heard = std::mem::take(&mut shared.heard);
    let heard: Vec<_> = heard
        .iter()
        .map(|one| (&*one.0, &*one.1, &*one.2))
        .collect();
    assert_eq!(heard, [resolved]);
    assert!(shared.published.is_empty());
    // It was only cut off: its problem is still there.
    b.now = a.now;
    b.pass_in(&mut shared, 10, &[behind("team")], None);
    assert_eq!(shared.heard(), [published("sink_behind:team@b", "open")]);
    b.pass_in(&mut shared, 100, &[], None);
    assert_eq!(
        shared.heard(),
        [published("sink_behind:team@b", "resolved")]
    );
}

#[test]
fn what_another_node_is_about_to_tell_comes_first_and_is_told_if_that_one_is_gone_too() {
    let mut shared = Shared::default();
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(Watched::of_node);
    b.pass_in(&mut shared, 15, &[behind("team")], None);
    a.now = b.now;
    a.pass_in(&mut shared, 31, &[], Some(&["a"]));
    let key = "sink_behind:team@b";
    // Node a has written it down, and cannot tell it.
    let (_, _, message) = shared.heard.pop().expect("it is resolved");
    let item = b.published.known[key].item.clone();
    let item = ProblemItem { message, ..item };
    let row = PublishedProblem {
        key: key.to_owned(),
        fields: serde_json::to_string(&item).expect("an item"),
        is_open: false,
        published_at: a.now.0,
        publishing: Some([1; 16]),
    };
    shared.published.insert(key.to_owned(), row.clone());
    shared.heard();
    b.now = a.now;
    b.pass_in(&mut shared, 29, &[behind("team")], None);
    assert_eq!(shared.heard(), []);
    b.pass_in(&mut shared, 10, &[behind("team")], None);
    assert_eq!(shared.heard(), [published(key, "open")]);

    shared.published.insert(key.to_owned(), row);
    c.now = b.now;
    c.pass_in(&mut shared, 31, &[], Some(&["c"]));
    let heard = shared.heard.pop().expect("it is told");
    let message = "resolved: node b is gone, which said: the sink team is behind";
    assert_eq!((&*heard.1, &*heard.2), ("resolved", message));
}

#[test]
fn a_daemon_alone_resolves_what_nodes_have_told_in_its_files_and_nodes_what_it_has() {
    let mut shared = Shared::default();
    let mut node = Watched::of_node("a");
    node.pass_in(&mut shared, 15, &[behind("team")], None);
    let rows: Vec<_> = shared.published.values().cloned().collect();
    let mut alone = Watched::new();
    alone.published.restore(&rows, alone.now.0);
    alone.pass(60, &[behind("team")]);
    let heard = alone.heard();
    let keys: Vec<_> = heard.iter().map(|one| (&*one.1, &*one.2)).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys.contains(&("sink_behind:team@a", "resolved")));
    assert!(keys.contains(&("sink_behind:team", "open")));

    let known = &alone.published.known["sink_behind:team"];
    let row = known.row("sink_behind:team", alone.now.0);
    shared = Shared::default();
    shared.published.insert(row.key.clone(), row);
    node.pass_in(&mut shared, 40, &[], Some(&["a"]));
    let heard = shared.heard();
    assert_eq!(
        heard.last(),
        Some(&published("sink_behind:team", "resolved"))
    );
}
