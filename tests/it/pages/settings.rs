//! The page of settings and backups.

use super::site::Site;
use crate::setup::{ADMIN_TOKEN, Setup, key_of};
use crate::wait::eventually;

#[test]
fn settings_are_shown_with_their_origins_and_without_secrets() {
    let mut folder = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .toml("[limits]\nburst = 7");
    let process = folder.spawn();
    let site = Site::signed_in(&process);
    let page = site.page("/settings");
    for part in [
        "<bdi>limits.burst</bdi>",
        "headgate.toml:",
        "<bdi>admin.token</bdi>",
        "********",
        "pool.db",
        "href=\"/docs\"",
        "href=\"/docs/api\"",
        env!("CARGO_PKG_VERSION"),
        &format!("{}/docs/api", process.service),
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // Defaults only where they are asked for, and what a filter says.
    let default = "built-in default.toml:";
    assert!(
        !page.contains(default) && !page.contains("limits.bytes_per_day"),
        "{page}"
    );
    let all = site.page("/settings?all=yes");
    assert!(
        all.contains(default) && all.contains("limits.bytes_per_day"),
        "{all}"
    );
    let some = site.page("/settings?q=LIMITS.b");
    assert!(
        some.contains("limits.burst") && !some.contains("admin.token<"),
        "{some}"
    );
    assert!(
        site.page("/settings?q=nothing+like+it")
            .contains("No setting matches.")
    );
    for secret in [ADMIN_TOKEN, &key_of("orders")] {
        assert!(!page.contains(secret));
    }
    assert!(!page.contains("apply after a restart"), "{page}");

    // What only a start takes is not shown as if it were in use.
    folder.change("burst = 7", "burst = 9");
    folder.change("name = \"pool\"", "name = \"renamed\"");
    process.hang_up();
    let page = eventually("the page knows", || {
        Some(site.page("/settings")).filter(|page| page.contains("apply after a restart"))
    });
    let (waiting, in_use) = page
        .split_once("apply after a restart")
        .and_then(|(_, rest)| rest.split_once("</table>"))
        .expect("two tables");
    let burst = |value: u32| {
        format!(
            "<bdi>limits.burst</bdi></td><td class=\"mono\" data-label=\"Value\"><bdi>{value}</bdi>"
        )
    };
    assert!(
        waiting.contains(&burst(9)) && !waiting.contains("renamed"),
        "{waiting}"
    );
    assert!(
        in_use.contains(&burst(7)) && in_use.contains("renamed"),
        "{in_use}"
    );
}

#[test]
fn a_backup_is_made_by_the_button_and_listed() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "*", "");
    let process = folder.spawn();
    process.accepted("orders", "", r#"{"id": 1}"#);
    let site = Site::signed_in(&process);
    let page = site.page("/settings");
    assert!(page.contains("No backups:"), "{page}");
    let (_, suggested) = page
        .split_once("name=\"dir\" required value=\"")
        .expect("a field");
    let suggested = suggested.split('"').next().expect("a value").to_owned();
    assert!(
        suggested.starts_with(
            folder
                .data_dir()
                .canonicalize()
                .expect("a folder")
                .to_str()
                .expect("UTF-8")
        )
    );

    let fields = |dir: &str| format!("dir={}", crate::app::encoded(dir));
    assert_eq!(
        site.post("/settings/back-up", &fields(&suggested)).status,
        403
    );
    let elsewhere = folder.path("elsewhere").display().to_string();
    for dir in [&suggested, &elsewhere] {
        let answer = site.submit("/settings/back-up", &fields(dir));
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some("/settings")),
            "{}",
            answer.body
        );
        let page = site.page("/settings");
        let said = page.split("class=\"said\"").nth(1).expect("a sentence");
        assert!(said.contains(dir) && said.contains(": 3 files"), "{said}");
        assert!(page.contains(&format!("<bdi>{dir}</bdi>")), "{page}");
    }
    let page = site.page("/settings");
    assert!(
        page.contains(&suggested) && page.contains(&elsewhere),
        "{page}"
    );

    for (dir, status, why) in [
        (elsewhere.as_str(), 409, "is not empty"),
        ("relative", 400, "absolute path"),
        ("", 400, "absolute path"),
        ("/nowhere/at/all", 400, "admin.backup_dirs"),
    ] {
        let answer = site.submit("/settings/back-up", &fields(dir));
        assert_eq!(answer.status, status, "{dir}");
        assert!(answer.body.contains(why), "{}", answer.body);
    }
    process.stop();

    // What the button made is a backup.
    let restored = folder.path("restored").display().to_string();
    let args = [
        "restore",
        suggested.as_str(),
        "--data-dir",
        restored.as_str(),
    ];
    let told = crate::command_line::run(&folder.path(""), args).ok();
    assert!(told.contains("restored the backup"), "{told}");
}
