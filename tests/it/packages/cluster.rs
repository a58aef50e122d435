//! Two nodes over PostgreSQL: the Compose file, the Kubernetes manifest, and what both of them name.
//!
//! The images are on another machine, so the parts are held against each other and against the program.

use std::fs;
use std::process::Command;

use postgres_server::Postgres;

use super::{deploy, there_are};
use crate::command_line::finish;

fn file(name: &str) -> String {
    let path = deploy("cluster").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The variables that the configuration of the nodes reads.
fn variables() -> Vec<String> {
    let text = file("headgate.toml");
    let named = text.split("env = \"").skip(1);
    let names = named.filter_map(|rest| rest.split('"').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_nodes_read_their_configuration_and_accept_its_database() {
    let test = "the_nodes_read_their_configuration_and_accept_its_database";
    let Some(server) = Postgres::start(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("headgate.toml");
    fs::write(&config, file("headgate.toml")).expect("a file");
    let mut check = Command::new(env!("CARGO_BIN_EXE_headgate"));
    check.arg("check").arg("--config").arg(&config);
    check.current_dir(&folder);
    check.env("HEADGATE_STORAGE__DATA_DIR", folder.path().join("data"));
    // The server of the test has no standby.
    check.env("HEADGATE_CLUSTER__DURABILITY", "local");
    for name in variables() {
        let value = match &*name {
            "DATABASE_URLS" => format!("postgres://127.0.0.1:1/headgate {}", server.url()),
            "ADMIN_TOKEN" => format!("at_{}", "0123456789abcdef".repeat(3)),
            "SHOP_KEY" => format!("ik_{}", "0123456789abcdef".repeat(3)),
            "SCREEN_KEY" => format!("rk_{}", "0123456789abcdef".repeat(3)),
            other => panic!("neither file sets {other}"),
        };
        check.env(name, value);
    }
    let said = finish(&mut check, "").ok();
    assert!(said.contains("the configuration is valid"), "{said}");
}

#[test]
fn compose_and_kubernetes_set_what_the_nodes_read() {
    let (compose, manifest) = (file("compose.yaml"), file("kubernetes.yaml"));
    let names = variables();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        assert!(compose.contains(&format!("{name}:")), "{name}");
        let literal = format!("--from-literal={name}=");
        assert!(manifest.contains(&literal), "{name}");
    }
    for part in [
        "localhost/headgate",
        "HEADGATE_CLUSTER__NAME",
        "/data",
        "headgate.toml",
    ] {
        assert!(compose.contains(part) && manifest.contains(part), "{part}");
    }
    // Who is named is there.
    let services = ["headgate-a", "headgate-b", "db1", "db2", "proxy"];
    for service in services {
        assert!(compose.contains(&format!("\n  {service}:\n")), "{service}");
    }
    let proxy = file("Caddyfile");
    for node in &services[..2] {
        assert!(proxy.contains(&format!("{node}:8080")), "{node}");
        assert!(proxy.contains(&format!("{node}:8081")), "{node}");
    }
    assert!(proxy.contains("health_uri /readyz"), "{proxy}");
    let one = file("db1.sh");
    assert!(one.contains("synchronous_standby_names = 'db2'"), "{one}");
    assert!(compose.contains("cluster_name=db2]"), "{compose}");
    // Who starts a node again must not start a server that was lost.
    assert!(!compose.contains("depends_on"), "{compose}");
    for script in ["db1.sh", "standby.sh"] {
        let mut shell = Command::new("sh");
        finish(shell.arg("-n").arg(deploy("cluster").join(script)), "").ok();
        assert!(compose.contains(&format!("./{script}:/")), "{script}");
    }
}

#[test]
fn the_manifest_of_two_nodes_is_as_the_published_schema_says() {
    let test = "the_manifest_of_two_nodes_is_as_the_published_schema_says";
    if !there_are(&["kubernetes-validate"], test) {
        return;
    }
    for version in ["1.29", "1.35"] {
        let mut validate = Command::new("kubernetes-validate");
        validate.args(["--strict", "--kubernetes-version", version]);
        let done = finish(validate.arg(deploy("cluster/kubernetes.yaml")), "");
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        for resource in [
            "service/headgate",
            "service/headgate-nodes",
            "poddisruptionbudget/headgate",
            "statefulset/headgate",
        ] {
            let said = format!("{}{}", done.out, done.err);
            let passed = format!("passed for resource {resource}");
            assert!(said.contains(&passed), "{said}");
        }
    }
}
