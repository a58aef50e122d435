//! The daemon beside a renderer: the compose file as it stands, started by podman-compose, and the Kubernetes manifest
//! held against the published schema.
//!
//! The renderer's image is on another machine; nginx of this one stands in for it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::container::{Podman, SCREEN};
use super::{deploy, is_root, there_are};
use crate::command_line::{finish, finish_within};
use crate::process::{Client, JSON, bearer};
use crate::program::BUILD_MAX;
use crate::setup::key_of;
use crate::wait::eventually;
use postgres_server::free_port;

const IMAGE: &str = "docker.io/nginxinc/nginx-unprivileged:1.28-alpine";

/// The files as they stand, but for the ports, in a folder of the test.
fn copied(folder: &Path, screen: u16, admin: u16) -> PathBuf {
    let to = folder.join("examples/deploy/container");
    fs::create_dir_all(to.join("keys")).expect("a folder");
    for file in ["headgate.toml", "screen.conf"] {
        fs::copy(deploy(&format!("container/{file}")), to.join(file)).expect("a copy");
    }
    let mut compose = fs::read_to_string(deploy("container/compose.yaml")).expect("a file");
    for (from, port) in [("127.0.0.1:8000:", screen), ("127.0.0.1:8081:", admin)] {
        let published = format!("- \"{from}");
        assert!(compose.contains(&published), "{published}");
        compose = compose.replace(&published, &format!("- \"127.0.0.1:{port}:"));
    }
    fs::write(to.join("compose.yaml"), compose).expect("a file");
    let page = folder.join("examples/renderers");
    fs::create_dir_all(&page).expect("a folder");
    let scoreboard = deploy("../renderers/scoreboard.html");
    fs::copy(scoreboard, page.join("scoreboard.html")).expect("a copy");
    for (name, key) in [
        ("stadium", key_of("scoreboard")),
        ("screens", SCREEN.to_owned()),
    ] {
        let file = to.join(format!("keys/{name}.key"));
        fs::write(&file, key).expect("a file");
        std::os::unix::fs::chown(&file, Some(65_532), None).expect("root");
    }
    to
}

/// An image with the nginx of this machine, which does without root and reads `conf.d` as the other does.
fn stand_in(podman: &Podman) {
    let folder = podman.path("nginx");
    let script = r#"
        mkdir -p "$1/tmp" "$1/etc/nginx/conf.d" "$1/var/log/nginx" "$1/var/lib/nginx"
        chmod 1777 "$1/tmp"
        nginx=$(command -v nginx)
        install -D "$nginx" "$1/usr/sbin/nginx"
        ldd "$nginx" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | while read -r file; do
            install -D "$file" "$1$file"
        done
        echo 'nginx:x:101:101::/:/' > "$1/etc/passwd"
        echo 'nginx:x:101:' > "$1/etc/group"
        for kind in client_body proxy fastcgi uwsgi scgi; do
            echo "${kind}_temp_path /tmp/$kind;"
        done > "$1/etc/nginx/temporary"
        echo 'pid /tmp/nginx.pid; events {} http { include temporary; include conf.d/*.conf; }' > "$1/etc/nginx/nginx.conf"
        printf '%s\n' 'FROM scratch' 'COPY . /' 'USER 101' 'STOPSIGNAL SIGQUIT' \
            'ENTRYPOINT ["/usr/sbin/nginx", "-e", "/dev/stderr", "-g", "daemon off;"]' > "$1.file"
    "#;
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script, "bash"]);
    finish(shell.arg(&folder), "").ok();
    let (file, context) = (podman.path("nginx.file"), folder.display().to_string());
    let file = format!("--file={}", file.display());
    let built = podman.run(&[
        "build",
        "--isolation=chroot",
        "--layers=false",
        &file,
        "--tag",
        IMAGE,
        &context,
    ]);
    built.ok();
}

#[test]
fn the_compose_file_starts_a_daemon_and_a_page_that_follows_it() {
    let test = "the_compose_file_starts_a_daemon_and_a_page_that_follows_it";
    if !there_are(&["nginx", "podman-compose"], test) || !is_root(test) {
        return;
    }
    let Some(podman) = Podman::new(test) else {
        return;
    };
    podman.build();
    stand_in(&podman);
    let (screen, admin) = (free_port(), free_port());
    let folder = copied(&podman.path("files"), screen, admin);
    let compose = |args: &[&str]| {
        let mut compose = Command::new("podman-compose");
        compose.arg("--podman-path").arg(podman.path("podman"));
        compose.args(["--project-name", "screen"]).args(args);
        finish_within(BUILD_MAX, compose.current_dir(&folder), "").ok()
    };
    compose(&["up", "--detach"]);
    podman.healthy("screen_headgate_1");
    let address = SocketAddr::from(([127, 0, 0, 1], screen));
    let mut client = eventually("nginx listens", || Client::connect(address).ok());

    // The page is nginx's own; everything else is the daemon's, which is reached in no other way.
    let page = client.get("/scoreboard.html", "").expect("an answer");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<title>Scoreboard</title>"));
    let module = client.get("/headgate.js", "").expect("an answer");
    assert_eq!(module.status, 200);
    let key = bearer(&key_of("scoreboard"));
    let body = r#"{"match_id": "final", "home": {"score": 1}}"#;
    let sent = client.request("POST", "/api/ingest", &format!("{key}{JSON}"), body);
    assert_eq!(sent.expect("an answer").status, 202);
    // As the page asks: with its origin, which is that of the daemon.
    let headers = format!("{}Origin: http://localhost\r\n", bearer(SCREEN));
    eventually("the item is there", || {
        let path = "/api/streams/scoreboard/items/final";
        let answer = client.request("GET", path, &headers, "");
        let answer = answer.expect("an answer");
        assert!(matches!(answer.status, 200 | 404), "{}", answer.body);
        (answer.status == 200).then_some(())
    });
    let ticket = client.request("POST", "/api/tickets", &format!("{headers}{JSON}"), "");
    assert_eq!(ticket.expect("an answer").status, 201);
    // Operators are published to the machine.
    let address = SocketAddr::from(([127, 0, 0, 1], admin));
    let mut client = Client::connect(address).expect("it listens");
    assert_eq!(client.get("/sign-in", "").expect("an answer").status, 200);
    compose(&["down", "--volumes"]);
}

#[test]
fn the_kubernetes_manifest_is_as_the_published_schema_says() {
    let test = "the_kubernetes_manifest_is_as_the_published_schema_says";
    if !there_are(&["kubernetes-validate"], test) {
        return;
    }
    let file = deploy("container/kubernetes.yaml");
    // The first version with sidecars that are on, and a new one.
    for version in ["1.29", "1.35"] {
        let mut validate = Command::new("kubernetes-validate");
        validate.args(["--strict", "--kubernetes-version", version]);
        let done = finish(validate.arg(&file), "");
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        for resource in ["service/screen", "statefulset/screen"] {
            let said = format!("{}{}", done.out, done.err);
            assert!(
                said.contains(&format!("passed for resource {resource}")),
                "{said}"
            );
        }
    }
    // It is about the same images and files as the compose file, whose run shows that they fit together.
    let (manifest, compose) = (
        fs::read_to_string(file).expect("a file"),
        fs::read_to_string(deploy("container/compose.yaml")).expect("a file"),
    );
    for part in [
        IMAGE,
        "localhost/headgate",
        "headgate.toml",
        "screen.conf",
        "HEADGATE_SERVER__LISTEN",
        "127.0.0.1:8080",
        "/etc/nginx/conf.d/default.conf",
        "/run/secrets",
        "/srv/screen",
        "/data",
    ] {
        assert!(manifest.contains(part) && compose.contains(part), "{part}");
    }
}
