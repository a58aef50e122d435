//! Tools that sign, connected from the command line.

use ring::hmac;
use serde_json::Value;

use super::{Done, operate, run};
use crate::process::{JSON, Process};
use crate::setup::Setup;

const SECRET: &str = "a-secret-of-the-command-line";

struct Desk {
    process: Process,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            process: Setup::with_streams(&["orders"]).spawn(),
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// Runs a line; `@NAME` stands for the file with the secret of this name.
    fn run(&self, line: &str) -> Done {
        let args = line.split(' ').map(|arg| match arg.strip_prefix('@') {
            Some(name) => {
                let path = self.folder.path().join(name);
                std::fs::write(&path, format!("{SECRET}-{name}\n")).expect("it is written");
                path.display().to_string()
            }
            None => arg.to_owned(),
        });
        operate(&self.process, args.collect::<Vec<_>>())
    }
}

#[test]
fn a_shop_is_connected_and_tried() {
    let desk = Desk::new();
    let presets = ["connector", "presets", "--output", "json"];
    let presets = run(desk.folder.path(), presets).ok();
    let presets: Vec<Value> = serde_json::from_str(&presets).expect("a list");
    assert!(presets.iter().any(|one| one["name"] == "shopify"));
    let told = desk.run("connector create shop --from shopify --stream orders --secret-file @one");
    assert!(
        told.err.contains("/api/webhook/orders/shop") && !told.err.contains(SECRET),
        "{told:?}"
    );
    assert_eq!(told.ok(), "connector shop created\n");
    desk.run("trigger shopify orders/create --connector shop")
        .ok();
    let sent = desk.run("requests --connector shop --output json");
    assert!(sent.ok().contains("orders/create"));

    // Four secrets are tried with each delivery, and no more are taken.
    for name in ["two", "three", "four"] {
        let line = format!(
            "key create shop {name} --stream orders --verify shopify --secret-file @{name}"
        );
        desk.run(&line).ok();
    }
    let fifth = "key create shop five --stream orders --verify shopify --secret-file @five";
    let told = desk.run(fifth).failed(1);
    assert!(told.contains("already has 4 signing keys"), "{told}");
    let rotated = "key rotate shop two --secret-file @new --grace";
    let told = desk.run(&format!("{rotated} 1h")).failed(1);
    assert!(told.contains("revoke one first"), "{told}");
    desk.run(&format!("{rotated} 0")).ok();
    desk.run("key revoke shop three").ok();
    desk.run(fifth).ok();
}

#[test]
fn any_other_tool_is_described_by_options() {
    let desk = Desk::new();
    let create = "connector create crm --from hmac --stream orders --secret-file @crm";
    for (options, code, says) in [
        ("", 1, "header"),
        (" --option header", 2, "NAME=VALUE"),
        (" --option scheme=token", 2, "not an option"),
        (" --option header=X-S --option hed=1", 1, "hed"),
        (" --option header=X-S --option header.x=1", 2, "not a table"),
        (
            " --option header=X-S --option timestamp.unit=days",
            1,
            "timestamp",
        ),
    ] {
        let told = desk.run(&format!("{create}{options}")).failed(code);
        assert!(told.contains(says), "{options}: {told}");
    }
    let told = desk
        .run("connector create crm --option header=X-S")
        .failed(2);
    assert!(told.contains("--from"), "{told}");

    let options = "--option header=X-Signature --option prefix=sha256= --option signed={ts}.{body} \
                   --option timestamp.header=X-Time --option tolerance_seconds=600";
    desk.run(&format!("{create} {options}")).ok();
    let (body, seconds) = (r#"{"id": 1}"#, base::clock::Unix::now().seconds());
    let key = hmac::Key::new(hmac::HMAC_SHA256, format!("{SECRET}-crm").as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = tag
        .as_ref()
        .iter()
        .map(|one| format!("{one:02x}"))
        .collect();
    let send = |hex: &str| {
        let headers = format!("{JSON}X-Signature: sha256={hex}\r\nX-Time: {seconds}\r\n");
        let mut client = desk.process.client();
        let answer = client.request("POST", "/api/webhook/orders/crm", &headers, body);
        answer.expect("an answer").status
    };
    assert_eq!(send(&hex), 202);
    assert_eq!(send(&format!("{:064x}", 0)), 401);
}
