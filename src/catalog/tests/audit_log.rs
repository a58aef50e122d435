//! What the audit log has of a change, and how it is filtered.

use super::*;
use base::order::{ChangeSeq, Epoch};

#[test]
fn each_change_is_in_the_audit_trail_once() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    let stale = patch(settings::Stream::FIELDS, json!({"stale_after_seconds": 9}));
    desk.catalog
        .change_stream("news", &stale, &actor())
        .expect("changed");
    desk.key("shop", "a", "news").expect("a key");
    desk.catalog
        .rotate_key("shop", "a", Rotation::default(), &actor())
        .expect("rotated");
    desk.catalog
        .revoke_key("shop", "a", &actor())
        .expect("revoked");
    desk.catalog
        .delete_key("shop", "a", &actor())
        .expect("deleted");
    desk.catalog
        .delete_stream("news", false, &actor())
        .expect("deleted");
    let desk = desk.reopened(&settings());
    let entries = desk
        .catalog
        .audit(&AuditFilter::default(), 100)
        .expect("a page");
    let told: Vec<_> = entries
        .iter()
        .rev()
        .map(|entry| format!("{} {} {}", entry.action, entry.kind, entry.name))
        .collect();
    assert_eq!(
        told,
        [
            "create stream news",
            "change stream news",
            "create key a",
            "rotate key a",
            "revoke key a",
            "delete key a",
            "delete stream news",
        ]
    );
    let changed = &entries[5];
    assert_eq!(
        (&*changed.who, &*changed.client),
        ("admin token", "127.0.0.1")
    );
    assert!(
        changed
            .before
            .as_deref()
            .is_some_and(|json| json.contains("\"stale_after_seconds\":null"))
    );
    assert!(
        changed
            .after
            .as_deref()
            .is_some_and(|json| json.contains("\"stale_after_seconds\":9"))
    );
    assert_eq!((&entries[6].before, &entries[0].after), (&None, &None));
    assert_eq!(entries[1].connector.as_deref(), Some("shop"));
    let before = AuditFilter {
        before: Some(entries[2].id),
        ..AuditFilter::default()
    };
    let page = desk.catalog.audit(&before, 2).expect("a page");
    assert_eq!([page[0].id, page[1].id], [entries[3].id, entries[4].id]);
}

#[test]
fn entries_of_version_0_1_are_found_with_the_names_of_today_and_verify() {
    let desk = Desk::new(&settings());
    let id = "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10";
    for action in ["send_again", "resend", "retry"] {
        let change = AuditChange::done(action, ResourceKind::Request, id, json!(1));
        desk.catalog.note(&change, &actor()).expect("it is written");
    }
    for action in ["send_again", "resend"] {
        let filter = AuditFilter {
            action: Some(action.to_owned()),
            ..AuditFilter::default()
        };
        let page = desk.catalog.audit(&filter, 10).expect("a page");
        let found: Vec<&str> = page.iter().map(|entry| &*entry.action).collect();
        assert_eq!(found, ["resend", "send_again"], "{action}");
    }
    let verified = desk.catalog.verify_audit(None).expect("it is read");
    assert!(verified.is_good(), "{verified:?}");
}

#[test]
fn the_audit_trail_is_filtered_by_everything_that_is_given() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    desk.key("shop", "a", "news").expect("a key");
    let by = |who: &str, name: &str| {
        let actor = Actor {
            who: who.into(),
            ..actor()
        };
        let change = AuditChange::done("retry", ResourceKind::Sink, name, json!(1));
        desk.catalog.note(&change, &actor).expect("it is written");
    };
    by("token night", "pool");
    by("page of token night", "50% _off");
    by("token midnight", "pool");
    let all = desk.catalog.audit(&AuditFilter::default(), 100);
    let all = all.expect("a page");
    let at: Vec<Unix> = all.iter().map(|entry| entry.at).collect();
    let check = |filter: AuditFilter, expected: &[usize]| {
        let page = desk.catalog.audit(&filter, 100).expect("a page");
        let found: Vec<i64> = page.iter().map(|entry| entry.id).collect();
        let expected: Vec<i64> = expected.iter().map(|place| all[*place].id).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    let none = AuditFilter::default;
    let text = |text: &str| Some(text.to_owned());
    check(none(), &[0, 1, 2, 3, 4]);
    check(
        AuditFilter {
            action: text("retry"),
            ..none()
        },
        &[0, 1, 2],
    );
    check(
        AuditFilter {
            kind: text("key"),
            ..none()
        },
        &[3],
    );
    check(
        AuditFilter {
            name: text("pool"),
            ..none()
        },
        &[0, 2],
    );
    // What belongs to a connector is found with it, and nothing is a pattern.
    check(
        AuditFilter {
            name: text("shop"),
            ..none()
        },
        &[3],
    );
    check(
        AuditFilter {
            name: text("50% _off"),
            ..none()
        },
        &[1],
    );
    check(
        AuditFilter {
            name: text("%"),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            who: text("night"),
            ..none()
        },
        &[1, 2],
    );
    check(
        AuditFilter {
            who: text("token night"),
            ..none()
        },
        &[1, 2],
    );
    check(
        AuditFilter {
            who: text("page of token night"),
            ..none()
        },
        &[1],
    );
    check(
        AuditFilter {
            who: text("admin token"),
            ..none()
        },
        &[3, 4],
    );
    check(
        AuditFilter {
            who: text("' OR 1 --"),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            since: Some(at[4]),
            until: Some(at[0]),
            ..none()
        },
        &[0, 1, 2, 3, 4],
    );
    check(
        AuditFilter {
            since: Some(at[0] + INSTANT),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            until: Some(at[4] - INSTANT),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            since: Some(Unix::MAX),
            ..none()
        },
        &[],
    );
    let pool = AuditFilter {
        before: Some(all[0].id),
        action: text("retry"),
        name: text("pool"),
        ..none()
    };
    check(pool, &[2]);
}

#[test]
fn an_act_is_copied_once_whoever_copies_it_and_whenever_that_is_killed() {
    let desk = Desk::new(&settings());
    let act = |n: u64| {
        let request_id = format!("request-{n}");
        let after = json!({"request_id": request_id});
        ActToCopy {
            n: ChangeSeq::new(n),
            request_id,
            actor: actor(),
            change: AuditChange::done("hold", ResourceKind::Stream, "orders", after),
        }
    };
    let copied = |desk: &Desk| {
        let holds = AuditFilter {
            action: Some("hold".to_owned()),
            ..AuditFilter::default()
        };
        desk.catalog.audit(&holds, 100).expect("a page").len()
    };
    let first = Epoch::new(7);
    // As an older version leaves it, which is killed before it marks the act.
    let note = desk.catalog.note(&act(3).change, &actor());
    note.expect("it is written");
    for acts in [&[3, 5][..], &[3, 5], &[5, 9], &[9]] {
        let acts: Vec<ActToCopy> = acts.iter().map(|n| act(*n)).collect();
        desk.catalog.copy_acts(first, &acts).expect("it is written");
    }
    assert_eq!(copied(&desk), 3);
    let desk = desk.reopened(&settings());
    for (epoch, n, expected) in [
        (first, 9, 3),
        (first, 10, 4),
        // What another life of the pool still had to copy has its entry; its next number may be a lower one.
        (Epoch::new(8), 10, 4),
        (Epoch::new(9), 4, 5),
    ] {
        let copying = desk.catalog.copy_acts(epoch, &[act(n)]);
        copying.expect("it is written");
        assert_eq!(copied(&desk), expected, "{epoch} {n}");
    }
}
