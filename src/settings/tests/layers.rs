//! Which source wins, and what variables mean.

use super::super::{DEFAULT_TOML, Durability, Listen, LogFormat, PROFILES, Settings, Sink};
use super::{FULL, Place, default_origin};
use base::clock::millis;

fn tcp(address: &str) -> Listen {
    Listen::Tcp(address.to_owned())
}

#[test]
fn default_toml_says_what_the_structs_say() {
    // A profile without anything in it, so that only the defaults speak.
    let place = Place::empty()
        .file("config/bare.toml", "")
        .var("HEADGATE_PROFILE", "bare");
    assert_eq!(place.settings(), Settings::default());
}

#[test]
fn each_layer_overrides_the_one_before() {
    let layers = |count: usize| {
        let burst = |value: u32| format!("[limits]\nburst = {value}\n");
        let mut place = Place::empty().var("HEADGATE_PROFILE", "production");
        if count > 0 {
            place = place.file("config/default.toml", &burst(1));
        }
        if count > 1 {
            place = place.file("config/production.toml", &burst(2));
        }
        if count > 2 {
            place = place.file("site.toml", &burst(3)).config("site.toml");
        }
        if count > 3 {
            place = place.var("HEADGATE_LIMITS__BURST", "4");
        }
        place.settings().limits.burst
    };
    assert_eq!([0, 1, 2, 3, 4].map(layers), [2000, 1, 2, 3, 4]);
}

#[test]
fn the_default_file_on_disk_overrides_the_built_in_profile() {
    let place = Place::empty()
        .file("config/default.toml", "[log]\nformat = \"text\"\n")
        .var("HEADGATE_PROFILE", "production");
    assert_eq!(place.settings().log.format, LogFormat::Text);
}

#[test]
fn profiles_say_what_they_promise() {
    let profile = |name: &str| Place::empty().var("HEADGATE_PROFILE", name).settings();
    assert_eq!(Place::empty().load().profile, "development");
    assert_eq!(
        Place::empty().var("HEADGATE_PROFILE", "").load().profile,
        "development"
    );
    assert_eq!(Place::empty().settings().log.level, "info,headgate=debug");
    assert_eq!(profile("production").log.format, LogFormat::Json);
    assert_eq!(profile("production").storage.durability, Durability::Fsync);
    let test = profile("test");
    assert_eq!(test.server.listen, tcp("127.0.0.1:0"));
    assert_eq!(test.storage.durability, Durability::Os);
    assert_eq!(
        test.admin.token_file.to_str(),
        Some("data/test/admin.token")
    );
}

#[test]
fn the_embedded_files_on_disk_change_nothing() {
    for (profile, text) in PROFILES {
        let built_in = Place::empty().var("HEADGATE_PROFILE", profile);
        let on_disk = Place::empty()
            .var("HEADGATE_PROFILE", profile)
            .file("config/default.toml", DEFAULT_TOML)
            .file(&format!("config/{profile}.toml"), text);
        assert_eq!(built_in.settings(), on_disk.settings());
        let default_alone = Place::empty()
            .var("HEADGATE_PROFILE", profile)
            .file("config/default.toml", DEFAULT_TOML);
        assert_eq!(built_in.settings(), default_alone.settings());
        assert_eq!(built_in.load().files.len(), 0);
        assert_eq!(on_disk.load().files.len(), 2);
    }
}

#[test]
fn sections_are_merged() {
    let place = Place::with("[server]\nshutdown_seconds = 5\n").file(
        "config/default.toml",
        "[server]\nlisten = \"localhost:1\"\nshutdown_seconds = 4\n",
    );
    let settings = place.settings();
    assert_eq!(settings.server.listen, tcp("localhost:1"));
    assert_eq!(settings.server.shutdown_seconds, 5);
}

#[test]
fn variables_have_the_type_of_their_setting() {
    let settings = Place::empty()
        .var("HEADGATE_STORAGE__DATA_DIR", "123")
        .var("HEADGATE_LOG__LEVEL", "info")
        .var("HEADGATE_LOG__REQUESTS", "true")
        .var("HEADGATE_LIMITS__MAX_BODY_BYTES", "2_000_000")
        .var("HEADGATE_SERVER__LISTEN", "unix:/run/headgate.sock")
        .var("HEADGATE_STORAGE__DURABILITY", "os")
        .var("HEADGATE_ADMIN__TOKEN", "012345678901234567890123")
        .var("HEADGATE_STREAMS", "[{name=\"orders\"}, {name=\"true\"}]")
        .var(
            "HEADGATE_SINKS",
            "[{name=\"a\", plugin=\"influx\", streams=[\"*\"]}]",
        )
        .settings();
    assert_eq!(settings.storage.data_dir.to_str(), Some("123"));
    assert_eq!(settings.log.level, "info");
    assert!(settings.log.requests);
    assert_eq!(settings.limits.max_body_bytes, 2_000_000);
    assert_eq!(
        settings.server.listen,
        Listen::Unix("/run/headgate.sock".into())
    );
    assert_eq!(settings.storage.durability, Durability::Os);
    assert_eq!(
        settings
            .admin
            .token
            .map(|token| token.reveal().to_owned())
            .as_deref(),
        Some("012345678901234567890123")
    );
    assert_eq!(settings.streams[1].name, "true");
    assert_eq!(settings.sinks[1].streams, ["*"]);
}

#[test]
fn reserved_foreign_and_kubernetes_variables_are_no_settings() {
    let mut place = Place::empty();
    for name in [
        "HEADGATE_CONFIG",
        "HEADGATE_ADMIN_URL",
        "HEADGATE_ADMIN_TOKEN",
        "HEADGATE_KEY",
        "HEADGATE_READ_KEY",
        "HEADGATE_PLUGIN_POSTGRES",
        "HEADGATE_PLUGIN_CACHE",
        "HEADGATE_URL",
        "HEADGATE_KILLS",
        "HEADGATE_LOG",
        "HEADGATE_SERVICE_HOST",
        "HEADGATE_SERVICE_PORT",
        "HEADGATE_SERVICE_PORT_HTTP",
        "HEADGATE_PORT",
        "HEADGATE_PORT_8080_TCP",
        "HEADGATE_PORT_8080_TCP_ADDR",
        "HEADGATES_LIMITS__BURST",
        "PATH",
    ] {
        place = place.var(name, "7");
    }
    assert_eq!(place.problems(), "");
    assert_eq!(place.settings(), Place::empty().settings());
}

#[test]
fn a_plugin_with_a_bare_name_lies_in_the_plugins_folder() {
    let place = Place::with("[[sinks]]\nname = \"own\"\nplugin = \"own\"\nstreams = [\"*\"]\n")
        .file("lives/plugins/own.wasm", "");
    let data_dir = place.path().join("lives").display().to_string();
    let place = place.var("HEADGATE_STORAGE__DATA_DIR", &data_dir);
    let found = format!("{data_dir}/plugins/own.wasm");
    assert_eq!(place.settings().sinks[1].plugin, found);
}

#[test]
fn plugin_files_are_relative_to_the_file_that_names_them() {
    let sinks = "[[sinks]]\nname = \"own\"\nplugin = \"own.wasm\"\nstreams = [\"*\"]\n";
    let place = Place::empty()
        .file("etc/site.toml", sinks)
        .file("etc/own.wasm", "")
        .config("etc/site.toml");
    assert_eq!(
        place.settings().sinks[1].plugin,
        place.path().join("etc/own.wasm").display().to_string()
    );
    let place = Place::empty().file("own.wasm", "").var(
        "HEADGATE_SINKS",
        "[{name = \"own\", plugin = \"own.wasm\", streams = [\"*\"]}]",
    );
    assert_eq!(
        place.settings().sinks[1].plugin,
        place.path().join("own.wasm").display().to_string()
    );
}

#[test]
fn list_elements_have_defaults_of_their_own() {
    let settings = Place::with(FULL).settings();
    let sink = &settings.sinks[0];
    assert_eq!(
        (
            millis(*sink.retry.first_ms),
            millis(*sink.retry.max_ms),
            sink.retry.attempts
        ),
        (100, 60_000, 12)
    );
    assert_eq!((sink.batch.items_max, sink.batch.bytes_max), (5, 4_194_304));
    let key = &settings.connectors[0].keys[0];
    assert_eq!(key.expires_at.as_deref(), Some("2030-01-31T00:00:00Z"));
}

#[test]
fn a_sink_matches_names_and_prefixes() {
    let sink = |pattern: &str| Sink {
        streams: vec!["exact".to_owned(), pattern.to_owned()],
        ..Sink::default()
    };
    for (pattern, stream, expected) in [
        ("*", "anything", true),
        ("orders-*", "orders-eu", true),
        ("orders-*", "orders-", true),
        ("orders-*", "orders", false),
        ("orders", "orders-eu", false),
        ("orders", "exact", true),
    ] {
        assert_eq!(
            sink(pattern).matches(stream),
            expected,
            "{pattern} {stream}"
        );
    }
}

#[test]
fn listen_displays_as_it_is_written() {
    for text in [
        "127.0.0.1:80",
        "[::1]:80",
        "localhost:0",
        "unix:run/a.sock",
        "unix:/run/a.sock",
    ] {
        let listen: Listen = text.parse().expect("an address");
        assert_eq!(listen.to_string(), text);
        assert!(listen.is_local(), "{text}");
    }
    for text in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "example.org:80"] {
        assert!(
            !text.parse::<Listen>().expect("an address").is_local(),
            "{text}"
        );
    }
}

#[test]
fn the_most_normal_first_start_warns_of_nothing() {
    assert_eq!(Place::empty().warnings(), Vec::<String>::new());
}

#[test]
fn warnings_name_what_should_be_known() {
    let place = Place::with(
        "sinks = []\n[storage]\ndurability = \"os\"\n[admin]\nlisten = \"0.0.0.0:81\"\ninsecure = true\n[limits]\nmax_body_bytes = 20_000_000\nmax_pending_bytes = 1\n",
    );
    assert_eq!(
        place.warnings(),
        [
            &format!(
                "{}: limits.max_flattened_bytes: smaller than limits.max_body_bytes, so accepted body sizes can be too large once flattened; set at least the same value",
                default_origin("max_flattened_bytes = ")
            ),
            "site.toml:1: sinks: an empty list removes nothing, because lists are merged by name; to disable the sink pool, set `[pool] enabled = false`",
            "site.toml:3: storage.durability: \"os\": a power cut can lose requests that were answered 202; to prevent that, set \"fsync\"",
            "site.toml:5: admin.listen: \"0.0.0.0:81\" is reachable from other machines without encryption",
            "site.toml:9: limits.max_pending_bytes: smaller than limits.max_flattened_bytes, so the largest requests may always be answered 503; set at least the same value",
        ]
    );
}

#[test]
fn what_a_selection_may_not_mean_is_a_warning() {
    let sink = |name: &str, more: &str| {
        format!("[[sinks]]\nname = \"{name}\"\nplugin = \"webhook\"\nstreams = [\"o*\"]\n{more}")
    };
    let place = Place::with(&format!(
        "[[streams]]\nname = \"orders\"\non_update = \"merge\"\n{}{}",
        sink("a", "where = \"_key:1, total>5\"\n"),
        sink("b", "where = \"_stream:orders\"\nfields = \"id, total\"\n"),
    ));
    let warnings = place.warnings();
    let found = |words: &str| warnings.iter().filter(|one| one.contains(words)).count();
    assert_eq!(found("sinks[0].where: has \" total\""), 1, "{warnings:?}");
    assert_eq!(
        found(
            "sinks[0].where: checks the field \" total\", but updates of the stream \"orders\" are merged"
        ),
        1,
        "{warnings:?}"
    );
    assert_eq!(found("sinks[1].where"), 0, "{warnings:?}");
    assert_eq!(found("sinks[1].fields: has \" total\""), 1, "{warnings:?}");
}

#[test]
fn two_fields_that_order_the_updates_of_one_stream_are_a_warning() {
    let connector = |name: &str, more: &str, stream: &str| {
        format!(
            "[[connectors]]\nname = \"{name}\"\nkind = \"ingest\"\n{more}[[connectors.keys]]\nname = \"main\"\nstream = \"{stream}\"\nsecret = \"ik_live_0123456789abcdef{name}{stream}\"\n"
        )
    };
    let streams =
        "[[streams]]\nname = \"orders\"\nversion = \"rev\"\n[[streams]]\nname = \"other\"\n";
    let found = |connectors: &[String]| {
        let warnings = Place::with(&format!("{streams}{}", connectors.concat())).warnings();
        let found = warnings
            .into_iter()
            .filter(|one| one.contains("orders its updates"));
        found.collect::<Vec<_>>()
    };
    let by_stream = connector("a", "", "orders");
    let by_time = connector("b", "version = \"time\"\n", "orders");
    assert_eq!(
        found(&[by_stream.clone(), by_time.clone()]),
        [
            "site.toml:16: connectors[1].version: the field \"time\" orders its updates of the stream \"orders\", but \"rev\" orders those of the connector \"a\". Unless their values are comparable, use one field, or give each connector its own stream"
        ]
    );
    // The same field, another stream, or a preset that knows its own.
    let same = connector("b", "version = \"rev\"\n", "orders");
    assert!(found(&[by_stream, same]).is_empty());
    assert!(found(&[by_time, connector("a", "", "other")]).is_empty());
    let shopify = connector("c", "preset = \"shopify\"\n", "other");
    let elsewhere = connector("b", "version = \"time\"\n", "other");
    assert_eq!(found(&[shopify, elsewhere]).len(), 1);
}

#[test]
fn the_admin_listener_is_not_reached_in_the_open_by_mistake() {
    let place = Place::with("[admin]\nlisten = \"10.0.0.5:81\"\n");
    let problems = place.problems();
    assert!(problems.contains("admin.insecure = true"), "{problems}");
    let tls = "tls = { certificate = \"a.pem\", key = \"a.key\" }";
    let place = Place::with(&format!("[admin]\nlisten = \"10.0.0.5:81\"\n{tls}\n"));
    let files = place.settings().admin.tls.expect("it is set");
    assert_eq!(files.certificate, place.path().join("a.pem"));
    let place = Place::with("[admin]\nlisten = \"unix:/run/admin.sock\"\n");
    assert_eq!(place.warnings(), Vec::<String>::new());
    let place = Place::with("[server]\nlisten = \"0.0.0.0:80\"\n");
    assert!(place.warnings()[0].contains("server.tls"));
    let place = Place::with("[server.tls]\nclient_ca = \"a.pem\"\n");
    let problems = place.problems();
    for path in [
        "server.tls.certificate",
        "server.tls.key",
        "server.tls.client_ca",
    ] {
        assert!(problems.contains(path), "{problems}");
    }
}
