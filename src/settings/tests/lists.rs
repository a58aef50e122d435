//! Lists of named things over several sources: what is merged, in which order, where it says that it comes from.

use super::super::{OnUpdate, explain, render_text};
use super::{Place, default_origin};
use base::clock::millis;

const SHOP: &str = r#"
[[streams]]
name = "a"
stale_after_seconds = 5
[[streams]]
name = "b"
[[connectors]]
name = "shop"
kind = "ingest"
burst = 7
[[connectors.keys]]
name = "main"
stream = "a"
secret = "ik_live_0123456789abcdef"
[[connectors.keys]]
name = "second"
stream = "b"
secret = { env = "SECOND" }
[[read_keys]]
name = "lobby"
streams = ["a", "b", "a"]
secret = "rk_live_0123456789abcdef"
[[sinks]]
name = "team"
plugin = "http-forward"
streams = ["a"]
config = { url = "https://one.example/", headers = { x = "1", y = "2" } }
secrets = { one = "s1", two = { env = "SECOND" } }
http = { hosts = ["one.example"], headers = { authorization = { env = "SECOND" } } }
"#;

/// `SHOP` in `config/default.toml`, and this in the file of `--config`.
fn over_the_shop(site: &str) -> Place {
    Place::with(site)
        .file("config/default.toml", SHOP)
        .var("SECOND", "ik_live_0123456789abcdeX")
}

#[test]
fn elements_are_merged_by_name_in_the_order_of_first_sight() {
    let place = over_the_shop(
        "[[streams]]\nname = \"c\"\n[[streams]]\nname = \"a\"\non_update = \"merge\"\n[[connectors]]\nname = \"till\"\nkind = \"webhook\"\n[[connectors]]\nname = \"shop\"\nkind = \"webhook\"\nkeys = [{ name = \"third\", stream = \"c\", secret = \"ik_live_0123456789abcdeY\" }, { name = \"main\", stream = \"b\" }]\n",
    )
    .var("HEADGATE_STREAMS", "[{ name = \"d\" }, { name = \"b\", stale_after_seconds = 9 }]");
    let settings = place.settings();
    let streams: Vec<_> = settings.streams.iter().map(|one| &*one.name).collect();
    assert_eq!(streams, ["a", "b", "c", "d"]);
    assert_eq!(settings.streams[0].on_update, OnUpdate::Merge);
    assert_eq!(settings.streams[0].stale_after_seconds, Some(5));
    assert_eq!(settings.streams[1].stale_after_seconds, Some(9));
    let [shop, till] = settings.connectors.as_slice() else {
        panic!("two connectors");
    };
    assert_eq!(
        (&*shop.name, shop.kind.as_str(), shop.burst),
        ("shop", "webhook", Some(7))
    );
    assert_eq!(&*till.name, "till");
    let keys: Vec<_> = shop
        .keys
        .iter()
        .map(|key| (&*key.name, &*key.stream))
        .collect();
    assert_eq!(keys, [("main", "b"), ("second", "b"), ("third", "c")]);
    let main = shop.keys[0].secret.as_ref();
    assert_eq!(
        main.map(|secret| secret.reveal()),
        Some("ik_live_0123456789abcdef")
    );
}

#[test]
fn tables_of_an_element_are_merged_and_lists_and_secrets_replaced() {
    let settings = over_the_shop(
        r#"
[[read_keys]]
name = "lobby"
streams = ["b"]
[[sinks]]
name = "team"
batch = { items_max = 3 }
config = { url = "https://two.example/", headers = { y = "3" } }
secrets = { two = "text", three = "s3" }
http = { hosts = ["two.example"], timeout_ms = 5, headers = { authorization = "Bearer x" } }
"#,
    )
    .settings();
    assert_eq!(settings.read_keys[0].streams, ["b"]);
    let team = &settings.sinks[1];
    assert_eq!(
        (
            &*team.plugin,
            team.batch.items_max,
            millis(*team.batch.linger_ms)
        ),
        ("http-forward", 3, 8)
    );
    assert_eq!(
        team.config,
        serde_json::json!({ "url": "https://two.example/", "headers": { "x": "1", "y": "3" } })
    );
    let secrets: Vec<_> = team
        .secrets
        .iter()
        .map(|(name, one)| (&**name, one.reveal()))
        .collect();
    assert_eq!(secrets, [("one", "s1"), ("three", "s3"), ("two", "text")]);
    let http = team.http.as_ref().expect("a table");
    assert_eq!(
        (http.hosts.len(), &*http.hosts[0], millis(*http.timeout_ms)),
        (1, "two.example", 5)
    );
    assert_eq!(http.headers["authorization"].reveal(), "Bearer x");
}

#[test]
fn of_two_forms_of_a_key_the_later_counts() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let settings = over_the_shop(&format!(
        "[[connectors]]\nname = \"shop\"\nkeys = [{{ name = \"main\", sha256 = \"{digest}\" }}]\n[[read_keys]]\nname = \"lobby\"\nsha256 = \"{digest}\"\n"
    ))
    .var("HEADGATE_READ_KEYS", "[{ name = \"lobby\", secret = \"rk_live_0123456789abcdeZ\" }]")
    .settings();
    let main = &settings.connectors[0].keys[0];
    assert_eq!(
        (main.secret.is_none(), main.sha256.as_deref()),
        (true, Some(digest))
    );
    let lobby = &settings.read_keys[0];
    assert_eq!(
        (lobby.secret.is_some(), lobby.sha256.as_deref()),
        (true, None)
    );
}

#[test]
fn what_no_source_says_is_missing_and_two_halves_are_a_whole() {
    let halves = Place::with("[[sinks]]\nname = \"away\"\nstreams = [\"*\"]\n").file(
        "config/default.toml",
        "[[sinks]]\nname = \"away\"\nplugin = \"influx\"\n",
    );
    assert_eq!(halves.settings().sinks[1].plugin, "influx");
    let missing = over_the_shop(
        "[[sinks]]\nname = \"team\"\nplugin = \"postgres\"\n[[sinks]]\nname = \"new\"\nstreams = [\"a\"]\n[[connectors]]\nname = \"shop\"\n[[connectors.keys]]\nname = \"new\"\nstream = \"elsewhere\"\n",
    );
    assert_eq!(
        missing.problems(),
        "site.toml:4: sinks[1].plugin: missing; expected a string\n\
         site.toml:9: connectors[0].keys[0]: has no key; expected `secret`, `sha256`, `verify` or `certificate`\n\
         site.toml:11: connectors[0].keys[0].stream: the stream \"elsewhere\" is not defined; define it with [[streams]]"
    );
}

#[test]
fn a_problem_names_the_place_in_its_own_source() {
    let place = over_the_shop("[[sinks]]\nname = \"mine\"\nplugin = \"mine\"\nstreams = [\"a\"]\n");
    assert_eq!(
        place.problems(),
        "site.toml:3: sinks[0].plugin: neither a built-in plugin nor a file: data/plugins/mine.wasm; built in: pool, http-forward, postgres, influx, webhook, filter-map, file, lines, mqtt"
    );
}

#[test]
fn every_element_and_every_setting_of_it_names_its_source() {
    let place = over_the_shop(
        "[[sinks]]\nname = \"team\"\nstreams = [\"b\"]\n[sinks.config]\nurl = \"https://two.example/\"\n[[read_keys]]\nname = \"lobby\"\nstreams = [\"b\"]\n",
    )
    .var("HEADGATE_SINKS", "[{ name = \"pool\", batch = { items_max = 5 } }]");
    let text = place.neutral(&render_text(&explain(&place.load())));
    for line in [
        &*format!("pool.enabled = true    # {}", default_origin("enabled = ")),
        r#"sinks[0].name = "pool"    # default"#,
        r#"sinks[0].streams = ["*"]    # default"#,
        r#"sinks[0].batch.items_max = 5    # environment variable HEADGATE_SINKS"#,
        r#"sinks[0].batch.linger_ms = 8    # default"#,
        r#"sinks[1].name = "team"    # config/default.toml:24"#,
        r#"sinks[1].plugin = "http-forward"    # config/default.toml:25"#,
        r#"sinks[1].streams = ["b"]    # site.toml:3"#,
        r#"sinks[1].config.url = "https://two.example/"    # site.toml:5"#,
        r#"sinks[1].config.headers = { x = "1", y = "2" }    # config/default.toml:27"#,
        r#"read_keys[0].streams = ["b"]    # site.toml:8"#,
        r#"read_keys[0].secret = "********"    # config/default.toml:22"#,
    ] {
        assert!(
            text.lines().any(|shown| shown == line),
            "no line {line}\n{text}"
        );
    }
}

#[test]
fn the_pool_is_there_unless_it_is_switched_off() {
    let names = |place: &Place| -> Vec<String> {
        let sinks = place.settings().sinks.into_iter();
        sinks.map(|sink| sink.name).collect()
    };
    let team = "[[sinks]]\nname = \"team\"\nplugin = \"influx\"\nstreams = [\"*\"]\n";
    assert_eq!(names(&Place::empty()), ["pool"]);
    assert_eq!(names(&Place::with(team)), ["pool", "team"]);
    assert_eq!(names(&Place::with("sinks = []\n")), ["pool"]);
    let nothing = Place::with("[pool]\nenabled = false\n");
    assert_eq!(names(&nothing), Vec::<String>::new());
    let off = format!("[pool]\nenabled = false\n{team}");
    assert_eq!(names(&Place::with(&off)), ["team"]);
    let on = Place::with(&off).var("HEADGATE_POOL__ENABLED", "true");
    assert_eq!(names(&on), ["pool", "team"]);
    let off = Place::with(team).var("HEADGATE_POOL__ENABLED", "false");
    assert_eq!(names(&off), ["team"]);
    let changed =
        Place::with("[[sinks]]\nname = \"pool\"\nstreams = [\"a\"]\nbatch = { items_max = 2 }\n");
    let pool = &changed.settings().sinks[0];
    assert_eq!(
        (&*pool.plugin, &pool.streams[..], pool.batch.items_max),
        ("pool", &["a".to_owned()][..], 2)
    );
    assert_eq!(
        Place::with(
            "[pool]\nenabled = false\n[[sinks]]\nname = \"pool\"\nbatch = { items_max = 2 }\n"
        )
        .problems(),
        "site.toml:3: sinks[0]: the sink pool is defined here, but site.toml:2 disables it (pool.enabled = false); remove one of the two"
    );
}

#[test]
fn the_pool_leaves_to_filters_what_is_theirs() {
    let filter = "[[sinks]]\nname = \"clean\"\nplugin = \"filter-map\"\nstreams = [\"orders\", \"sensor-*\"]\n";
    let place = Place::with(filter);
    let pool = &place.settings().sinks[0];
    for (stream, expected) in [("orders", false), ("sensor-1", false), ("stock", true)] {
        assert_eq!(pool.matches(stream), expected, "{stream}");
    }
    let text = render_text(&explain(&place.load()));
    let line = "sinks[0].except = [\"orders\", \"sensor-*\"]    # site.toml:4";
    assert!(text.contains(line), "{text}");
    // Whoever says what is whose is obeyed.
    for own in ["streams = [\"orders\"]", "except = []"] {
        let pool = &Place::with(&format!("{filter}[[sinks]]\nname = \"pool\"\n{own}\n"))
            .settings()
            .sinks[0];
        assert!(pool.matches("orders"), "{own}");
    }
}
