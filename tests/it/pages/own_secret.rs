//! Notion, which makes the secret itself: from the form to the token that is shown once.

use super::managed::{leads_to, secret};
use super::site::Site;
use crate::process::{JSON, Process};
use crate::setup::Setup;
use crate::wait::eventually;

const TOKEN: &str = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";

fn send(process: &Process) -> u16 {
    let body = format!(r#"{{"verification_token": "{TOKEN}"}}"#);
    let answer = (process.client()).request("POST", "/api/webhook/wiki/wiki", JSON, &body);
    answer.expect("an answer").status
}

#[test]
fn notion_is_connected_without_a_secret_and_its_token_is_shown_once() {
    let process = Setup::with_streams(&["wiki"]).spawn();
    let site = Site::signed_in(&process);
    let form = site.page("/new/connector?tool=notion");
    let (_, input) = form.split_once(r#"id="secret""#).expect("a field");
    let (input, _) = input.split_once('>').expect("it ends");
    assert!(!input.contains("required"), "{input}");
    let made = site.submit(
        "/new/connector?tool=notion",
        "name=wiki&stream=wiki&secret=",
    );
    leads_to(&made, "/connectors/wiki");
    let page = site.page("/connectors/wiki");
    for said in ["It then sends its verification token", "no secret yet"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let take = "/connectors/wiki/keys/main/take-secret";
    leads_to(&site.submit(take, ""), "/connectors/wiki");
    let page = site.page("/connectors/wiki");
    assert!(page.contains("The tool has not sent its secret"), "{page}");

    assert_eq!(send(&process), 200);
    let page = site.page("/connectors/wiki");
    for said in [
        "Notion sent its verification token at ",
        "Accept token",
        take,
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains(TOKEN), "{page}");
    // The page that is open says so, too.
    let polled = site.send("GET", "/connectors/wiki", &[("HX-Request", "true")], "");
    assert!(polled.body.contains("Accept token"), "{}", polled.body);

    leads_to(&site.submit(take, ""), "/connectors/wiki");
    let page = site.page("/connectors/wiki");
    assert_eq!(secret(&page).as_deref(), Some(TOKEN), "{page}");
    assert!(
        page.contains("The verification token of Notion, shown only now"),
        "{page}"
    );
    for path in ["/connectors/wiki", "/connectors/wiki/keys/main", "/audit"] {
        let page = site.page(path);
        assert!(!page.contains(TOKEN), "{path}: {page}");
        assert!(!page.contains("no secret yet"), "{path}: {page}");
    }
    eventually("it was a greeting", || {
        let page = site.page("/connectors/wiki");
        page.contains("Notion sent a challenge at ").then_some(())
    });
    // The same once more is answered, for it is the secret.
    assert_eq!(send(&process), 200);
    assert!(!process.log().contains(TOKEN));
}

#[test]
fn the_token_for_a_declared_key_is_shown_with_where_to_put_it() {
    let verify = "verify = { scheme = \"notion\" }";
    let setup = Setup::with_streams(&["wiki"]).signing_key("wiki", "main", "wiki", verify);
    let process = setup.spawn();
    let site = Site::signed_in(&process);
    assert_eq!(send(&process), 200);
    assert!(site.page("/connectors/wiki").contains("Show it"));
    let take = "/connectors/wiki/keys/main/take-secret";
    leads_to(&site.submit(take, ""), "/connectors/wiki");
    let page = site.page("/connectors/wiki");
    assert_eq!(secret(&page).as_deref(), Some(TOKEN), "{page}");
    assert!(page.contains("Set the token there"), "{page}");
    assert!(!site.page("/connectors/wiki").contains(TOKEN));
}
