//! What people say of streams, connectors and keys: one description, on every face.

use serde_json::Value;

use crate::command_line::operate;
use crate::pages;
use crate::process::Process;
use crate::setup::Setup;

/// Where each of them is listed in the API, and on a page; what changes it on the command line, and on a page.
const DESCRIBED: [[&str; 4]; 4] = [
    [
        "/api/admin/streams/news",
        "/streams",
        "stream change news",
        "/streams/news/change",
    ],
    [
        "/api/admin/connectors/crm",
        "/connectors",
        "connector change crm",
        "/connectors/crm/change",
    ],
    [
        "/api/admin/connectors/crm/keys/main",
        "/connectors/crm",
        "key change crm main",
        "/connectors/crm/keys/main/change",
    ],
    [
        "/api/admin/read-keys/lobby",
        "/renderers",
        "read-key change lobby",
        "/read-keys/lobby",
    ],
];
/// What the forms of all four need besides.
const FIELDS: &str = "on_update=replace&kind=webhook&streams=news";

fn run(process: &Process, line: &str, description: &str) -> String {
    let args = line.split(' ').chain(["--description", description]);
    operate(process, args).ok()
}

#[test]
fn a_description_is_given_changed_and_taken_away_on_every_face() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let first = "Müller & <b>Söhne</b>";
    for line in [
        "stream create news",
        "connector create crm --kind webhook",
        "key create crm main --stream news",
        "read-key create lobby --stream news",
    ] {
        run(&process, line, first);
    }
    let site = pages::signed_in(&process);
    for [api, page, change, form] in DESCRIBED {
        let said = || process.admin(api)["description"].clone();
        assert_eq!(said(), first, "{api}");
        let shown = site.page(page);
        assert!(
            shown.contains("Müller &amp; &lt;b&gt;Söhne&lt;/b&gt;"),
            "{page}: {shown}"
        );
        let list = change.split(' ').next().expect("a verb");
        let list = match list {
            "key" => vec!["key", "list", "crm"],
            verb => vec![verb, "list"],
        };
        let listed = operate(&process, list).ok();
        assert!(listed.contains(first), "{listed}");

        let refused = site.submit(form, &format!("{FIELDS}&description=ik_live_pasted"));
        assert_eq!(refused.status, 400, "{form}: {}", refused.body);
        assert!(!refused.body.contains("ik_live_pasted"), "{form}");
        let changed = site.submit(form, &format!("{FIELDS}&description=by+hand"));
        assert_eq!(changed.status, 303, "{form}: {}", changed.body);
        assert_eq!(said(), "by hand", "{form}");

        let long = "n".repeat(201);
        let args = change.split(' ').chain(["--description", &long]);
        let told = operate(&process, args).failed(1);
        assert!(told.contains("1 to 200 characters"), "{told}");
        run(&process, change, "");
        assert_eq!(said(), Value::Null, "{change}");
    }
    process.stop();
}
