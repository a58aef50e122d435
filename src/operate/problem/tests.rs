//! Unit tests of `problem.rs`.

use std::collections::BTreeSet;

use observe::metrics::PROBLEM_KINDS;

use super::*;

#[test]
fn a_kind_is_counted_by_its_name_of_version_0_1_too() {
    let mut found = Found::default();
    found.push(String::new(), ProblemKind::Unauthenticated);
    let counted: Vec<_> = found.counts().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("unauthenticated", 1), ("strangers", 1)]);
}

#[test]
fn every_kind_leads_to_a_page_of_its_subject() {
    let page = |kind, subject| {
        let sentence = String::new();
        Problem {
            kind,
            subject,
            sentence,
        }
        .page()
    };
    let sink = || ProblemSubject::Sink("a b".to_owned());
    let connector = || ProblemSubject::Connector("shop".to_owned());
    assert_eq!(page(ProblemKind::SinkBehind, sink()), "/sinks/a%20b");
    assert_eq!(
        page(ProblemKind::SinkDeadLetters, sink()),
        "/sinks/a%20b#dead-letters"
    );
    assert_eq!(
        page(ProblemKind::Refused, connector()),
        "/connectors/shop?status=rejected#log"
    );
    assert_eq!(page(ProblemKind::ItemKey, connector()), "/connectors/shop");
    for kind in ProblemKind::ALL {
        assert!(
            page(*kind, ProblemSubject::Daemon).starts_with('/'),
            "{kind:?}"
        );
    }
}

#[test]
fn the_metric_knows_every_kind() {
    let kinds = ProblemKind::ALL.iter().map(|kind| kind.as_str());
    let old = ProblemKind::OLD_NAMES.map(|(name, _)| name);
    let known: BTreeSet<&str> = kinds.chain(old).collect();
    let listed: BTreeSet<&str> = PROBLEM_KINDS.iter().copied().collect();
    assert_eq!(
        listed, known,
        "PROBLEM_KINDS of observe/metrics/condition.rs"
    );
}
