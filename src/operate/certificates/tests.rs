//! Unit tests of `certificates.rs`.

use std::time::Duration;

use super::*;

const NOW: Unix = Unix::from_ms(1_769_860_800_000);
const DAY: Duration = Duration::from_hours(24);
const MS: Duration = Duration::from_millis(1);

fn problem_text(begins_at: Unix, ends_at: Unix) -> Option<String> {
    let term = Term {
        file: "/etc/a.pem".to_owned(),
        whose: Whose::Listener,
        begins_at,
        ends_at,
    };
    term.problem("service", NOW)
}

#[test]
fn what_ends_within_two_weeks_is_told_with_its_day_and_nothing_else() {
    let ends = |left: Duration| problem_text(Unix::MIN, NOW + left);
    let what = "the certificate of the service listener, /etc/a.pem,";
    let renew = "renew it: the daemon rereads the file when it changes";
    assert_eq!(ends(14 * DAY), None);
    for (left, words) in [
        (14 * DAY - MS, "expires on 2026-02-14, in 13 days"),
        (2 * DAY, "expires on 2026-02-02, in 2 days"),
        (2 * DAY - MS, "expires on 2026-02-02, in a day"),
        (MS, "expires on 2026-01-31, in less than a day"),
        (
            Duration::ZERO,
            "expired on 2026-01-31, and clients refuse it",
        ),
    ] {
        assert_eq!(ends(left), Some(format!("{what} {words}; {renew}")));
    }
    let early = problem_text(NOW + MS, NOW + 30 * DAY).expect("it is told");
    assert!(early.contains("is not valid before 2026-01-31"), "{early}");
}

#[test]
fn those_in_use_are_told_until_others_are() {
    let certificates = Certificates::default();
    let term = |ends_at| Term {
        file: "a.pem".to_owned(),
        whose: Whose::Clients,
        begins_at: Unix::MIN,
        ends_at,
    };
    certificates.set("service", vec![term(NOW)]);
    certificates.set("admin", vec![term(Unix::MAX), term(NOW)]);
    let problem_text = certificates.problems();
    assert_eq!(problem_text.len(), 2, "{problem_text:?}");
    let issuer = "the issuer of client certificates of the admin listener, a.pem, expired";
    assert!(problem_text[0].starts_with(issuer), "{problem_text:?}");
    certificates.set("admin", vec![term(Unix::MAX)]);
    certificates.set("service", Vec::new());
    assert!(certificates.problems().is_empty());
}
