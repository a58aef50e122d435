//! The page of a connector: its log first, reasons in groups, and what is set up once in tabs.

use super::site::Site;
use crate::process::{BY_ID, Process};
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::wait::eventually;

fn rejected(process: &Process, body: &str) {
    assert_eq!(process.post("orders", BY_ID, body).status, 400, "{body}");
}

/// The address of the first link to this path.
fn link_to(page: &str, path: &str) -> String {
    let (_, rest) = page.split_once(&format!("href=\"{path}")).expect("a link");
    let rest = rest
        .split('"')
        .next()
        .expect("it ends")
        .replace("&amp;", "&");
    format!("{path}{}", rest.split('#').next().expect("a path"))
}

#[test]
fn a_connector_begins_with_its_log_and_has_the_rest_in_tabs() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    let path = "/connectors/tests";
    let test = "HEADGATE_KEY";
    let empty = site.page(path);
    // Nothing came yet: how to send stands there.
    for part in [test, "Waiting for the first request.", "Begins with"] {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    process.accepted("orders", BY_ID, r#"{"id": 1}"#);
    let log = site.page(path);
    assert!(!log.contains(test) && !log.contains("Begins with"), "{log}");
    for tab in ["", "?tab=setup", "?tab=keys", "?tab=limits"] {
        let page = site.page(&format!("{path}{tab}"));
        let current = format!("href=\"{path}{tab}\" aria-current=\"page\"");
        assert!(page.contains(&current), "{page}");
        let shows =
            |part: &str, on: &str| assert_eq!(page.contains(part), tab == on, "{tab}: {part}");
        shows("title=\"Errors\"", "");
        shows(test, "?tab=setup");
        shows("Begins with", "?tab=keys");
        shows("Stored today", "?tab=limits");
        assert!(!page.contains(ADMIN_TOKEN));
    }
    assert_eq!(site.get(&format!("{path}?tab=nothing")).status, 400);
}

#[test]
fn reasons_are_grouped_and_lead_to_their_requests_as_a_problem_leads_to_its_place() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let site = Site::signed_in(&process);
    for body in [r#"[{"name": "a"}]"#, r#"[{"id": 1}, {"name": "a"}]"#] {
        for _ in 0..6 {
            rejected(&process, body);
        }
    }
    rejected(&process, "no JSON");
    let page = eventually("the reasons are there", || {
        let page = site.page("/connectors/tests");
        (page.contains("<strong>12 ×</strong>") && page.contains("<strong>1 ×</strong>"))
            .then_some(page)
    });
    assert!(page.contains("13 rejected or failed requests"), "{page}");
    let found = site.page(&link_to(&page, "/connectors/tests?status=rejected"));
    assert_eq!(found.matches("href=\"/requests/").count(), 12, "{found}");

    let overview = eventually("the problem is there", || {
        let page = site.page("/");
        page.contains("class=\"problem\"").then_some(page)
    });
    let shown = site.page(&link_to(&overview, "/connectors/tests?status=rejected"));
    assert_eq!(shown.matches("href=\"/requests/").count(), 13, "{shown}");
}
