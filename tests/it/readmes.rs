//! Every configuration that a README or the guide shows is given to the program, as a reader would who copies it.
//!
//! What an example needs beside itself comes from the test: the stream `orders`, secrets, components.
//!
//! **Invariant**: a block that cannot be used as it stands fails, and so does one that costs a stream its data pool.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres_server::Postgres;
use serde_json::Value;
use settings::BUILT_IN_PLUGINS;
use sha2::{Digest as _, Sha256};

use crate::command_line::demo::there_is;
use crate::command_line::{finish, headgate, run};
use crate::guests::guest;
use crate::process::skipped;
use crate::program::output;

/// A block of TOML, with the file that it stands in.
struct Example {
    file: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README files for people, products aside.
fn readmes(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() && !matches!(&*name, "target" | "node_modules" | ".venv") {
            readmes(&path, found);
        } else if name == "README.md" {
            found.push(path);
        }
    }
}

fn examples(file: &Path) -> Vec<Example> {
    let text = fs::read_to_string(file).expect("a README");
    let blocks = text.split("```toml\n").skip(1);
    blocks
        .map(|block| Example {
            file: file.to_owned(),
            text: block.split("```").next().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// The values that `name = "…"` has in a text.
fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let begins = format!("{name} = \"");
    let found = text.split(&begins).skip(1);
    found
        .map(|rest| rest.split('"').next().unwrap_or_default())
        .collect()
}

/// A secret as the reader would put it into the variable.
fn secret(variable: &str) -> String {
    let secret = match variable {
        "SCREEN_KEY" => "rk_live_for_the_screen_of_a_reader",
        "SHOP_KEY" => "ik_live_for_the_shop_of_a_reader",
        name if name.ends_with("_SIGNING_SECRET") => {
            "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
        }
        name if name.ends_with("_DATABASE") => "postgresql://reader:secret@db.example.com/shop",
        "TEAMS_WORKFLOW" => "https://prod-00.westeurope.logic.azure.com/workflows/0a1b",
        "DISCORD_WEBHOOK" | "TRMNL_PLUGIN" | "SPX_URL" => "https://example.com/of-a-reader",
        name if name.ends_with("_AUTHORIZATION") => "Bearer of-a-reader",
        _ => "a secret of the reader's",
    };
    secret.to_owned()
}

/// A key set as the reader would fetch it.
fn key_set() -> String {
    let modulus = format!("v{}w", "_".repeat(340));
    format!(r#"{{"keys": [{{"kty": "RSA", "n": "{modulus}", "e": "AQAB"}}]}}"#)
}

/// A certificate as the reader would be issued one.
fn issue(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder);
    openssl.args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "60"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=a"]);
    openssl.args(["-keyout", "privkey.pem", "-out", "fullchain.pem"]);
    let made = output(&mut openssl).expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
}

/// Loads and checks an example in a folder of its own.
fn check(example: &Example) {
    let shown = format!("{}:\n{}", example.file.display(), example.text);
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = example.text.clone();
    if text.starts_with("[sinks.config]") {
        // The first example of its file has the rest.
        let plugin = example.file.parent().and_then(Path::file_name);
        let plugin = plugin.expect("a folder").to_string_lossy();
        text = format!(
            "[[sinks]]\nname = \"part\"\nplugin = \"{plugin}\"\nstreams = [\"orders\"]\npostgres = {{ url = {{ env = \"SHOP_DATABASE\" }} }}\n{text}"
        );
    }
    let calls_others = example
        .file
        .components()
        .any(|part| part.as_os_str() == "javascript-fetch");
    let component = guest(if calls_others { "calls" } else { "sorts" });
    let digest = Sha256::digest(fs::read(&component).expect("a guest"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    text = text.replace("9f86d081…", &digest);
    for plugin in values(&text, "plugin") {
        if BUILT_IN_PLUGINS.contains(&plugin) {
            continue;
        }
        let file = match plugin.ends_with(".wasm") {
            true => folder.path().join(plugin),
            false => folder.path().join(format!("data/plugins/{plugin}.wasm")),
        };
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::copy(&component, file).expect("a copy");
    }
    // What systemd hands over.
    text = text.replace("/run/credentials/headgate.service/", "credential-");
    for file in values(&text, "file") {
        if file.starts_with("credential-") {
            let file = folder.path().join(file);
            fs::write(&file, secret("SHOP_KEY")).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        }
        if file.ends_with("-keys.json") {
            fs::write(folder.path().join(file), key_set()).expect("a file");
        }
    }
    if text.contains("privkey.pem") {
        if !there_is("openssl") {
            return skipped("readmes", "openssl is missing");
        }
        text = text.replace("/etc/headgate/", "");
        issue(folder.path());
    }
    fs::create_dir(folder.path().join("config")).expect("a folder");
    let beside = "[[streams]]\nname = \"orders\"\n";
    fs::write(folder.path().join("config/default.toml"), beside).expect("a file");
    fs::write(folder.path().join("headgate.toml"), &text).expect("a file");
    let is_node = text.contains("engine = \"postgres\"");
    let server = is_node.then(|| Postgres::start("readmes"));
    if matches!(server, Some(None)) {
        return;
    }
    let server = server.flatten();
    let tell = |verb: &[&str]| {
        let mut command = headgate(folder.path());
        command.args(verb).args(["--config", "headgate.toml"]);
        command.env(
            "HEADGATE_STORAGE__DATA_DIR",
            folder.path().join("data").display().to_string(),
        );
        for variable in values(&text, "env") {
            command.env(variable, secret(variable));
        }
        if let Some(server) = &server {
            // It has no standby.
            command.env("HEADGATE_CLUSTER__DURABILITY", "local");
            command.env("HEADGATE_DATABASE", server.url());
        }
        let done = finish(&mut command, "");
        assert_eq!(done.code, Some(0), "{shown}\n{}{}", done.out, done.err);
        done.out
    };
    let told = tell(&["check"]);
    assert!(
        told.contains("the configuration is valid"),
        "{shown}\n{told}"
    );
    let has_pool = !text.contains("enabled = false");
    assert_eq!(told.contains("warning: "), !has_pool, "{shown}\n{told}");
    let rows: Value =
        serde_json::from_str(&tell(&["config", "show", "--output", "json"])).expect("JSON");
    let mut names = rows.as_array().expect("a list").iter().filter(|row| {
        let path = row["path"].as_str().unwrap_or_default();
        path.starts_with("sinks[") && path.ends_with("].name")
    });
    assert_eq!(names.any(|row| row["value"] == "pool"), has_pool, "{shown}");
}

#[test]
fn every_configuration_in_a_readme_or_the_guide_works_as_it_stands() {
    let mut files = vec![root().join("README.md")];
    files.extend(crate::guide::pages());
    for folder in ["plugins", "examples"] {
        readmes(&root().join(folder), &mut files);
    }
    let examples: Vec<Example> = files.iter().flat_map(|file| examples(file)).collect();
    assert!(examples.len() >= 18, "only {} are found", examples.len());
    for example in &examples {
        check(example);
    }
}

#[test]
fn the_configurations_of_a_page_work_together() {
    let mut files = crate::guide::pages();
    files.push(root().join("README.md"));
    for file in files {
        let text = examples(&file).into_iter().map(|example| example.text);
        let text: Vec<String> = text.collect();
        if !text.is_empty() {
            check(&Example {
                text: text.join("\n"),
                file,
            });
        }
    }
}

#[test]
fn the_readme_of_a_new_project_works_as_it_stands() {
    for lang in ["rust", "js", "python"] {
        let folder = tempfile::tempdir().expect("a folder");
        run(folder.path(), ["plugin", "new", "my-sink", "--lang", lang]).ok();
        let examples = examples(&folder.path().join("my-sink/README.md"));
        assert!(!examples.is_empty(), "{lang}");
        examples.iter().for_each(check);
    }
}
