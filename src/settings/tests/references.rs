//! Problems of one value with another, and of names, keys, listeners and sinks: exact text and line.

use super::{Place, check, key};

#[test]
fn names_are_unique() {
    check(
        r#"[[streams]]
name = "a"
[[streams]]
name = "a"
[[connectors]]
name = "c"
kind = "ingest"
keys = [
  { name = "k", stream = "a", secret = "ik_live_0123456789abcdef" },
  { name = "k", stream = "a", secret = "ik_live_0123456789abcdeX" },
]
[[connectors]]
name = "c"
kind = "ingest"
[[read_keys]]
name = "r"
streams = ["a"]
secret = "rk_live_0123456789abcdef"
[[read_keys]]
name = "r"
streams = ["a"]
secret = "rk_live_0123456789abcdeX"
[[sinks]]
name = "s"
plugin = "pool"
streams = ["*"]
[[sinks]]
name = "s"
plugin = "pool"
streams = ["*"]
"#,
        &[
            "4: streams[1].name: the name \"a\" is already used by streams[0]; choose another name",
            "10: connectors[0].keys[1].name: the name \"k\" is already used by connectors[0].keys[0]; choose another name",
            "13: connectors[1].name: the name \"c\" is already used by connectors[0]; choose another name",
            "20: read_keys[1].name: the name \"r\" is already used by read_keys[0]; choose another name",
            "28: sinks[1].name: the name \"s\" is already used by sinks[0]; choose another name",
        ],
    );
}

#[test]
fn names_have_a_form() {
    let long = "x".repeat(129);
    check(
        &format!(
            "[[streams]]\nname = \"\"\n[[streams]]\nname = \"{long}\"\n[[streams]]\nname = \"a\\u0007\"\n[[connectors]]\nname = \"my shop\"\nkind = \"ingest\"\nitem_key = \"\"\n"
        ),
        &[
            "2: streams[0].name: expected 1 to 128 characters; this one has 0",
            "4: streams[1].name: expected 1 to 128 characters; this one has 129",
            "6: streams[2].name: expected a name without control characters",
            r#"8: connectors[0].name: expected 1 to 64 letters, digits, "_", "." or "-""#,
            "10: connectors[0].item_key: expected the name of a field, 1 to 1024 bytes; omit it to identify items by position",
        ],
    );
    // Characters are counted, not bytes.
    check(
        &format!("[[streams]]\nname = \"{}\"\n", "é".repeat(128)),
        &[],
    );
}

#[test]
fn keys_name_declared_streams() {
    check(
        &key(
            "name = \"main\"\nstream = \"ordesr\"\nsecret = \"ik_live_0123456789abcdef\"\n[[read_keys]]\nname = \"lobby\"\nstreams = [\"orders\", \"stock\"]\nsecret = \"rk_live_0123456789abcdef\"\n",
        ),
        &[
            r#"8: connectors[0].keys[0].stream: the stream "ordesr" is not defined; did you mean "orders"?"#,
            r#"12: read_keys[0].streams[1]: the stream "stock" is not defined; define it with [[streams]]"#,
        ],
    );
}

#[test]
fn keys_have_exactly_one_secret_of_the_right_form() {
    let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let named = "name = \"main\"\nstream = \"orders\"\n";
    check(
        &key(named),
        &[
            "6: connectors[0].keys[0]: has no key; expected `secret`, `sha256`, `verify` or `certificate`",
        ],
    );
    check(
        &key(&format!(
            "{named}secret = \"ik_live_0123456789abcdef\"\nsha256 = \"{sha256}\"\n"
        )),
        &[
            "6: connectors[0].keys[0]: expected only one of `secret`, `sha256`, `verify` or `certificate`",
        ],
    );
    check(
        &key(&format!("{named}sha256 = \"{}\"\n", &sha256[1..])),
        &[
            "9: connectors[0].keys[0].sha256: expected the SHA-256 of the key as 64 hex digits, as `headgate key new` prints it; to set the key itself, use `secret`",
        ],
    );
    let form = "9: connectors[0].keys[0].secret: an ingest key must begin with \"ik_\" and have at least 24 characters";
    check(
        &key(&format!("{named}secret = \"ik_live_0123456789abcde\"\n")),
        &[form],
    );
    check(
        &key(&format!("{named}secret = \"rk_live_0123456789abcdef\"\n")),
        &[form],
    );
    check(
        &key(&format!("{named}secret = \"ik_live_0123456789 abcdef\"\n")),
        &[
            "9: connectors[0].keys[0].secret: an ingest key must consist of visible ASCII characters, without spaces",
        ],
    );
    check(
        &key(&format!(
            "{named}secret = \"ik_live_0123456789abcdef\"\nexpires_at = \"soon\"\n"
        )),
        &[
            r#"10: connectors[0].keys[0].expires_at: "soon" is not an RFC 3339 time such as "2030-01-31T00:00:00Z""#,
        ],
    );
    check(
        &key(&format!(
            "{named}secret = \"ik_live_0123456789abcdef\"\nexpires_at = 2030-01-31T00:00:00\n"
        )),
        &[
            r#"10: connectors[0].keys[0].expires_at: "2030-01-31T00:00:00" is not an RFC 3339 time such as "2030-01-31T00:00:00Z""#,
        ],
    );
    check(
        "[[streams]]\nname = \"orders\"\n[[read_keys]]\nname = \"a\"\nstreams = []\nsecret = \"ik_live_0123456789abcdef\"\n",
        &[
            "5: read_keys[0].streams: expected at least one entry",
            "6: read_keys[0].secret: a read key must begin with \"rk_\" and have at least 24 characters",
        ],
    );
}

#[test]
fn the_same_key_twice_is_found_across_forms() {
    // SHA-256 of "ik_live_0123456789abcdef", in capitals.
    let sha256 = "9B7DBF589FA75591D653CFBA561852E21C372AE83B3F9832BD750DC7C07483C3";
    check(
        &key(&format!(
            "name = \"a\"\nstream = \"orders\"\nsecret = \"ik_live_0123456789abcdef\"\n[[connectors.keys]]\nname = \"b\"\nstream = \"orders\"\nsha256 = \"{sha256}\"\n"
        )),
        &[
            "10: connectors[0].keys[1]: the same key as connectors[0].keys[0] (\"a\" of \"shop\"); every key needs its own secret",
        ],
    );
}

#[test]
fn listeners_are_addresses_and_differ() {
    let not = |text: &str| {
        format!(
            "2: server.listen: {text:?} is not an address; expected host:port such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path\""
        )
    };
    for text in [
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:99999",
        "::1:8080",
        "[::1:8080",
        "a b:1",
        "h:+1",
        "http://h:1",
    ] {
        check(&format!("[server]\nlisten = \"{text}\"\n"), &[&not(text)]);
    }
    check(
        &format!("[server]\nlisten = \"unix:/{}\"\n", "x".repeat(107)),
        &["2: server.listen: the path of a Unix socket has at most 107 bytes; this one has 108"],
    );
    check(
        &format!("[server]\nlisten = \"unix:/{}\"\n", "x".repeat(106)),
        &[],
    );
    check(
        "[server]\nlisten = \"unix:\"\n",
        &["2: server.listen: expected a path after \"unix:\""],
    );
    let collision = |admin: &str, server: &str| {
        format!(
            "4: admin.listen: \"{admin}\" collides with server.listen, \"{server}\"; each needs its own address"
        )
    };
    for (server, admin, collides) in [
        ("127.0.0.1:9000", "127.0.0.1:9000", true),
        ("0.0.0.0:9000", "127.0.0.1:9000", true),
        ("unix:/run/a", "unix:/run/a", true),
        ("unix:/run/a", "unix:/run/b", false),
        ("127.0.0.1:9000", "127.0.0.2:9000", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
    ] {
        let expected = collision(admin, server);
        let expected: &[&str] = if collides { &[&expected] } else { &[] };
        check(
            &format!("[server]\nlisten = \"{server}\"\n[admin]\nlisten = \"{admin}\"\n"),
            expected,
        );
    }
}

#[test]
fn sinks_call_hosts_in_networks() {
    check(
        "[[sinks]]\nname = \"a\"\nplugin = \"pool\"\nstreams = [\"*\"]\n[sinks.http]\nhosts = [\"a.example/x\", \"b.example\"]\nnetworks = [\"10.0.0.0/64\"]\ntimeout_ms = 0\nredirects = 3\n",
        &[
            r#"6: sinks[0].http.hosts[0]: "a.example/x" is not a host; expected "api.example.com", "*.example.com", "10.0.0.5:8443", or "http://host" for one without encryption; no path"#,
            r#"7: sinks[0].http.networks[0]: "10.0.0.0/64" is not a network; expected "10.0.0.0/8", "fd00::/8", or one address"#,
            "8: sinks[0].http.timeout_ms: 0 is out of range; expected 1 to 86400000",
            "9: sinks[0].http.redirects: unknown key; known here: hosts, networks, headers, timeout_ms, request_bytes_max, response_bytes_max, requests_max, concurrency_max",
        ],
    );
}

#[test]
fn sinks_have_a_plugin_and_patterns() {
    check(
        "[[sinks]]\nname = \"a\"\nplugin = \"pol\"\nstreams = [\"*\"]\n[[sinks]]\nname = \"b\"\nplugin = \"./b.wasm\"\nstreams = [\"a*b\", \"\", \"*\"]\nretry = { first_ms = 10, max_ms = 5 }\n",
        &[
            "3: sinks[0].plugin: neither a built-in plugin nor a file: data/plugins/pol.wasm; did you mean \"pool\"?",
            "7: sinks[1].plugin: neither a built-in plugin nor a file: DIR/./b.wasm; built in: pool, http-forward, postgres, influx, webhook, filter-map, file, lines, mqtt",
            r#"8: sinks[1].streams[0]: bad pattern "a*b": "*" is only allowed at the end"#,
            r#"8: sinks[1].streams[1]: bad pattern "": expected 1 to 128 characters; this one has 0"#,
            "9: sinks[1].retry.max_ms: 5 is shorter than the first pause, retry.first_ms = 10; set a longer time",
        ],
    );
}

#[test]
fn what_follows_from_a_refused_value_is_left_out() {
    check(
        "[server]\nlisten = \"8080\"\n[admin]\nlisten = \"127.0.0.1:8080\"\n",
        &[
            "2: server.listen: \"8080\" is not an address; expected host:port such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path\"",
        ],
    );
    let site = key("name = \"main\"\nstream = \"orders\"\nsecret = \"ik_live_0123456789abcdef\"\n");
    check(
        &site.replacen("name", "nmae", 1),
        &[r#"2: streams[0].nmae: unknown key; did you mean "name"?"#],
    );
}

#[test]
fn a_pin_is_a_digest_and_pins_a_file() {
    let sink = |plugin: &str, sha256: &str| {
        format!(
            "[[sinks]]\nname = \"a\"\nplugin = \"{plugin}\"\nsha256 = \"{sha256}\"\nstreams = [\"*\"]\n"
        )
    };
    let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    check(
        &sink("pool", &sha256[1..]),
        &[
            "4: sinks[0].sha256: expected the SHA-256 of the component as 64 hex digits, as `headgate plugin check` prints it",
        ],
    );
    check(
        &sink("pool", sha256),
        &["4: sinks[0].sha256: \"pool\" is built in; only a file can be pinned"],
    );
}

#[test]
fn no_connector_has_the_name_of_one_that_is_built_in() {
    for name in crate::BUILT_IN_CONNECTORS {
        let text = format!("[[connectors]]\nname = {name:?}\nkind = \"ingest\"\n");
        let problems = Place::with(&text).problems();
        assert!(problems.contains("choose another name"), "{problems}");
        let other = text.replace(name, &format!("{name}-2"));
        assert_eq!(Place::with(&other).problems(), "");
    }
}
