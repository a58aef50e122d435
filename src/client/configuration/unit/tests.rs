//! Unit tests of `configuration/unit.rs`.

use super::*;

#[test]
fn words_are_those_that_systemd_reads() {
    for (value, expected) in [
        ("A=1 B=2", &["A=1", "B=2"][..]),
        (
            r#""A=1 2" 'B={ file = "x" }'"#,
            &["A=1 2", r#"B={ file = "x" }"#],
        ),
        (r#"A="b c" D=e\ f"#, &["A=b c", "D=e f"]),
        (r#""a\"b" 'c\d' """#, &["a\"b", "c\\d", ""]),
    ] {
        assert_eq!(words(value), expected, "{value}");
    }
}

#[test]
fn a_unit_says_the_environment_and_the_file_of_its_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| fs::write(at(name), text).expect("a file");
    write(
        "secrets",
        "# for the shop\nSHOP_KEY=from file\nQUOTED=\"a b\"\n\nHEADGATE_LOG__LEVEL=debug\n",
    );
    write(
        "gate.service",
        &format!(
            "[Unit]\nDescription=x\n[Service]\nEnvironment=HEADGATE_PROFILE=production\n\
                 Environment=HEADGATE_STORAGE__DATA_DIR=%S/gate HEADGATE_LOG__LEVEL=warn\n\
                 LoadCredential=admin.token:/etc/gate/admin.token\n\
                 Environment=\"HEADGATE_ADMIN__TOKEN={{ file = '%d/admin.token' }}\"\n\
                 EnvironmentFile=-{}\nEnvironmentFile=-{}\nWorkingDirectory=/srv\n\
                 ExecStart=/usr/bin/headgate serve \\\n  --config /etc/gate.toml\n[Install]\nExecStart=/bin/no\n",
            at("secrets").display(),
            at("missing").display(),
        ),
    );
    let unit = read(&at("gate.service").display().to_string()).expect("a unit");
    assert_eq!(unit.config, Some("/etc/gate.toml".into()));
    assert_eq!(unit.working_dir, Some("/srv".into()));
    let value = |unit: &Unit, name: &str| {
        let mut found = unit.env.iter().filter(|(own, _)| own == name);
        found.next_back().map(|(_, value)| value.clone())
    };
    for (name, expected) in [
        ("HEADGATE_PROFILE", "production"),
        ("HEADGATE_STORAGE__DATA_DIR", "/var/lib/gate"),
        (
            "HEADGATE_ADMIN__TOKEN",
            "{ file = '/etc/gate/admin.token' }",
        ),
        ("SHOP_KEY", "from file"),
        ("QUOTED", "a b"),
        ("HEADGATE_LOG__LEVEL", "debug"),
    ] {
        assert_eq!(value(&unit, name).as_deref(), Some(expected), "{name}");
    }

    // A drop-in resets values and sets new ones.
    fs::create_dir(at("gate.service.d")).expect("a folder");
    write(
        "gate.service.d/override.conf",
        "[Service]\nEnvironment=\nEnvironment=HEADGATE_PROFILE=container\nExecStart=\nExecStart=/usr/bin/headgate serve --config=/etc/other.toml\n",
    );
    let unit = read(&at("gate.service").display().to_string()).expect("a unit");
    assert_eq!(unit.config, Some("/etc/other.toml".into()));
    assert_eq!(
        value(&unit, "HEADGATE_PROFILE").as_deref(),
        Some("container")
    );
    assert_eq!(value(&unit, "HEADGATE_STORAGE__DATA_DIR"), None);
    assert_eq!(value(&unit, "SHOP_KEY").as_deref(), Some("from file"));
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("gate.service");
    fs::write(&own, "[Service]\nEnvironmentFile=/no/such/file\n").expect("a file");
    let error = read(&own.display().to_string()).expect_err("it is not there");
    assert!(
        error.message.starts_with("/no/such/file cannot be read"),
        "{error}"
    );
    let error = read("no-such-service").expect_err("it is not there");
    assert!(error.message.contains("no-such-service.service"), "{error}");
    assert!(!is_installed("no-such-service.service"));
}
