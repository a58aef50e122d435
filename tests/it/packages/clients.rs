//! The packages of the client libraries: what a release has of them is installed and used, as their users would.
//!
//! **Invariant**: an organization and a domain are named in one file, and the Go module is found where its path says.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::release::names;
use super::{deploy, there_are};
use crate::command_line::{finish, finish_within};
use crate::guide::root;
use crate::program::BUILD_MAX;

fn made(folder: &Path) -> String {
    let mut script = Command::new(deploy("release/clients"));
    script.arg(folder).env("SOURCE_DATE_EPOCH", "1000000000");
    finish_within(BUILD_MAX, &mut script, "").ok()
}

fn runs(command: &mut Command) -> String {
    finish_within(BUILD_MAX, command, "").ok()
}

/// What the file `publisher` says.
fn publisher(name: &str) -> String {
    let text = fs::read_to_string(deploy("release/publisher")).expect("a file");
    let begins = format!("{name}=");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(&begins));
    let value = lines.next().expect("it says that");
    value.trim_matches('\'').to_owned()
}

#[test]
fn packages_of_the_client_libraries_are_installed_and_used() {
    let test = "packages_of_the_client_libraries_are_installed_and_used";
    if !there_are(&["python3", "npm", "node", "cargo", "tar"], test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    assert_eq!(
        made(&one),
        made(&other),
        "the same when they are made again"
    );
    let version = env!("CARGO_PKG_VERSION");
    let mut expected = [
        format!("headgate-{version}-py3-none-any.whl"),
        format!("headgate-{version}.tar.gz"),
        format!("headgate-client-{version}.tgz"),
        format!("headgate-go-{version}.zip"),
        format!("headgate-send-{version}.crate"),
        format!("headgate-client-csharp-{version}.zip"),
        "SHA256SUMS-clients".to_owned(),
    ];
    expected.sort();
    let made: Vec<String> = names(&one)
        .into_iter()
        .filter(|name| !name.ends_with(".nupkg"))
        .collect();
    assert_eq!(made, expected);
    python(&one, folder.path());
    node(
        &one.join(format!("headgate-client-{version}.tgz")),
        folder.path(),
    );
    go(
        &one.join(format!("headgate-go-{version}.zip")),
        folder.path(),
    );
}

fn python(packages: &Path, folder: &Path) {
    let home = folder.join("python");
    runs(Command::new("python3").args(["-m", "venv"]).arg(&home));
    let wheel = packages.join(format!(
        "headgate-{}-py3-none-any.whl",
        env!("CARGO_PKG_VERSION")
    ));
    let program = |name: &str| Command::new(home.join("bin").join(name));
    runs(
        program("pip")
            .args(["install", "--quiet", "--no-index"])
            .arg(wheel),
    );
    let shown = runs(program("pip").args(["show", "--verbose", "headgate"]));
    let repository = format!("https://{}", publisher("REPOSITORY"));
    for part in ["License: Apache-2.0", &repository, &publisher("EMAIL")] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let code = "from headgate import Client, Reader; print(Client.__name__)";
    assert_eq!(runs(program("python").args(["-c", code])), "Client\n");
}

fn node(package: &Path, folder: &Path) {
    let home = folder.join("node");
    fs::create_dir(&home).expect("a folder");
    fs::write(home.join("package.json"), "{}").expect("a file");
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--silent",
        "--offline",
        "--no-audit",
        "--no-fund",
    ])
    .arg(package);
    runs(npm.current_dir(&home));
    let code = "import('@headgate/client').then(found => console.log(typeof found.Client))";
    let mut node = Command::new("node");
    assert_eq!(
        runs(node.args(["-e", code]).current_dir(&home)),
        "function\n"
    );
}

/// A program imports the module by its path, from a proxy that has the archive and nothing else.
fn go(archive: &Path, folder: &Path) {
    let own = root().join("target/clients/go/bin/go");
    let program = if own.exists() { own } else { "go".into() };
    let is_there = Command::new(&program).arg("version").output().is_ok();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "Go is needed under CI");
        return crate::process::skipped("the module for Go", "there is no Go");
    }
    let module = publisher("GO_MODULE");
    let versions = folder.join("proxy").join(&module).join("@v");
    fs::create_dir_all(&versions).expect("a folder");
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    fs::copy(archive, versions.join(format!("{version}.zip"))).expect("a file");
    let write = |name: &str, text: &str| fs::write(versions.join(name), text).expect("a file");
    write("list", &format!("{version}\n"));
    write(
        &format!("{version}.info"),
        &format!("{{\"Version\":\"{version}\"}}"),
    );
    write(
        &format!("{version}.mod"),
        &format!("module {module}\n\ngo 1.22\n"),
    );
    let home = folder.join("go");
    fs::create_dir(&home).expect("a folder");
    let text = format!(
        "package main\n\nimport (\n\t\"fmt\"\n\n\t\"{module}\"\n)\n\nfunc main() {{\n\tfmt.Println(headgate.ItemKey(\"id\") != nil)\n}}\n"
    );
    fs::write(home.join("main.go"), text).expect("a file");
    let command = || {
        let mut go = Command::new(&program);
        go.current_dir(&home)
            .env(
                "GOPROXY",
                format!("file://{}", folder.join("proxy").display()),
            )
            .env("GOSUMDB", "off")
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .env("GOTOOLCHAIN", "local")
            .env("GOMODCACHE", folder.join("modules"))
            .env("GOCACHE", root().join("target/clients-cache"));
        go
    };
    finish(command().args(["mod", "init", "program"]), "");
    runs(command().args(["get", &format!("{module}@{version}")]));
    assert_eq!(runs(command().args(["run", "."])), "true\n");
}

#[test]
fn the_publisher_is_named_in_one_file() {
    let domain = publisher("REPOSITORY");
    let domain = domain.split('/').next().expect("a domain");
    let mut git = Command::new("git");
    git.args(["grep", "--files-with-matches", "--fixed-strings", domain]);
    let done = finish(git.current_dir(root()), "");
    if done.code == Some(128) {
        return crate::process::skipped("the_publisher_is_named_in_one_file", "there is no git");
    }
    assert_eq!(done.out, "examples/deploy/release/publisher\n");
}
