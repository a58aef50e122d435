//! When problems are told, on a clock of the test's own.

use super::super::problem::{ProblemKind, ProblemSubject};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// What is known, and the time.
struct Watched {
    told: Published,
    now: (Lived, Unix),
    /// All that was told: second, key, state.
    heard: Vec<(u64, String, String)>,
}

impl Watched {
    fn new() -> Self {
        Self {
            told: Published::default(),
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
            self.told
                .compare(items(problems, None, self.now.1), self.now);
            let due = self.told.due(self.now);
            self.told.note(&due);
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
    assert!(watched.told.known.is_empty() || watched.second() < 119);
    watched.pass(30, &[]);
    assert!(watched.told.known.is_empty());
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
    let many: Vec<_> = heard.iter().filter(|one| one.1 == MANY).collect();
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
    let rows: Vec<PublishedProblem> = (watched.told.known.iter())
        .map(|(key, known)| known.row(key, known.told_at.expect("told")))
        .collect();
    let since = watched.told.known["sink_behind:team"].item.since.clone();
    watched.heard();
    watched.told = Published::default();
    watched.told.restore(&rows, watched.now.0);
    watched.pass(60, &[behind("team")]);
    let heard = watched.heard();
    let keys: Vec<_> = heard.iter().map(|one| (&*one.1, &*one.2)).collect();
    assert_eq!(keys, [("sink_behind:other", "resolved")]);
    let mut found = items(&[behind("team")], None, watched.now.1);
    watched.told.dated(&mut found);
    assert_eq!(found["sink_behind:team"].since, since);
}
