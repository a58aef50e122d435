//! The catalog over real files: what counts, what is refused, what is kept.

mod chained;
mod renewed;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use base::clock::Unix;
use settings::{ConnectorKind, OnUpdate, Patch, Secret};
use sqlite::FailStop;

const DECLARED: &str = "ik_live_a_declared_key_0000000001";

fn actor() -> Actor {
    Actor {
        who: "admin token".into(),
        client: "127.0.0.1".to_owned(),
    }
}

/// The stream `orders`, the connector `shop` with the key `main`, the read key `lobby`.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.streams.push(settings::Stream {
        name: "orders".to_owned(),
        ..settings::Stream::default()
    });
    settings.connectors.push(settings::Connector {
        name: "shop".to_owned(),
        burst: Some(50),
        keys: vec![settings::Key {
            name: "main".to_owned(),
            stream: "orders".to_owned(),
            secret: Some(Secret::new(DECLARED)),
            ..settings::Key::default()
        }],
        ..settings::Connector::default()
    });
    settings.read_keys.push(settings::ReadKey {
        name: "lobby".to_owned(),
        streams: vec!["orders".to_owned()],
        secret: Some(Secret::new("rk_live_a_declared_key_0000000001")),
        ..settings::ReadKey::default()
    });
    settings
}

/// What a body asks for.
fn patch(fields: &'static [settings::Field], body: serde_json::Value) -> Patch {
    let body = body.as_object().cloned().expect("an object");
    Patch::of_change(fields, body).expect("a body")
}

/// What a body asks for that makes one of this name.
fn new_patch(fields: &'static [settings::Field], name: &str) -> Result<Patch, CatalogError> {
    let body = json!({"name": name}).as_object().cloned();
    let refused = |faults: Vec<settings::BodyFault>| {
        let misfit = settings::ValidationError::Form(faults[0].message.clone());
        FieldError::from(misfit).of("name")
    };
    Patch::of_new(fields, &[], body.expect("an object")).map_err(refused)
}

/// The shortest time that makes a difference.
const INSTANT: Duration = Duration::from_millis(1);

fn ending(expires_at: Option<Unix>) -> Patch {
    let body = json!({"expires_at": expires_at.map(base::clock::rfc3339)});
    patch(settings::Key::FIELDS, body)
}

struct Desk {
    folder: tempfile::TempDir,
    catalog: Catalog,
    warnings: Vec<String>,
}

impl Desk {
    fn new(settings: &Settings) -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder"), settings)
    }

    fn in_folder(folder: tempfile::TempDir, settings: &Settings) -> Self {
        let path = folder.path().join("catalog.db");
        let (catalog, warnings) =
            Catalog::open(&path, settings, &FailStop::default()).expect("it opens");
        Self {
            folder,
            catalog,
            warnings,
        }
    }

    fn reopened(self, settings: &Settings) -> Self {
        drop(self.catalog);
        Self::in_folder(self.folder, settings)
    }

    fn stream(&self, name: &str) -> Result<Arc<Stream>, CatalogError> {
        self.catalog
            .create_stream(&new_patch(settings::Stream::FIELDS, name)?, &actor())
    }

    fn connector(&self, name: &str) -> Result<Arc<Connector>, CatalogError> {
        self.catalog
            .create_connector(&new_patch(settings::Connector::FIELDS, name)?, &actor())
    }

    fn key(&self, connector: &str, name: &str, stream: &str) -> Result<String, CatalogError> {
        let new = NewKey {
            connector: connector.to_owned(),
            settings: settings::Key {
                name: name.to_owned(),
                stream: stream.to_owned(),
                ..settings::Key::default()
            },
            test: false,
        };
        let (text, _) = self.catalog.create_key(new, &actor())?;
        Ok(text.expect("a text").expose().to_owned())
    }

    fn read_key(&self, name: &str, streams: &[&str]) -> Result<String, CatalogError> {
        let new = settings::ReadKey {
            name: name.to_owned(),
            streams: streams.iter().map(|name| (*name).to_owned()).collect(),
            ..settings::ReadKey::default()
        };
        let (text, _) = self.catalog.create_read_key(new, &actor())?;
        Ok(text.expose().to_owned())
    }

    fn caller(&self, secret: &str) -> Option<Arc<IngestKey>> {
        self.catalog.caller(secret).map(|caller| caller.key)
    }

    #[track_caller]
    fn known(&self, secret: &str) -> Arc<IngestKey> {
        self.caller(secret).expect("a known key")
    }
}

#[test]
fn what_was_made_counts_at_once_and_after_a_restart() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    desk.connector("crm").expect("a connector");
    let secret = desk.key("crm", "main", "news").expect("a key");
    let screen = desk
        .read_key("screen", &["news", "orders", "news"])
        .expect("a key");
    let check = |desk: &Desk| {
        let key = desk.known(&secret);
        assert_eq!((&*key.connector, &*key.stream), ("crm", "news"));
        assert_eq!(*key.prefix(), secret[..16]);
        assert!(key.created_at.is_some());
        let reader = desk.catalog.reader(&screen).expect("a reader");
        assert_eq!(reader.streams.len(), 2);
        assert!(desk.catalog.has_stream("news") && desk.catalog.has_stream("orders"));
        assert!(desk.known(DECLARED).created_at.is_none());
        let names: Vec<String> = desk
            .catalog
            .connectors()
            .iter()
            .map(|one| one.name.to_string())
            .collect();
        assert_eq!(names, ["crm", "shop"]);
    };
    check(&desk);
    let desk = desk.reopened(&settings());
    assert_eq!(desk.warnings, [""; 0]);
    check(&desk);
}

#[test]
fn keys_are_in_the_file_as_digests_only() {
    let desk = Desk::new(&settings());
    let mut secrets = vec![DECLARED.to_owned()];
    secrets.push(desk.key("shop", "a", "orders").expect("a key"));
    secrets.push(desk.read_key("b", &["orders"]).expect("a key"));
    let rotated = desk
        .catalog
        .rotate_key("shop", "a", Rotation::default(), &actor());
    secrets.push(
        rotated
            .expect("rotated")
            .0
            .expect("a text")
            .expose()
            .to_owned(),
    );
    let mut bytes = Vec::new();
    for file in std::fs::read_dir(desk.folder.path()).expect("a folder") {
        bytes.extend(std::fs::read(file.expect("a file").path()).expect("a file"));
    }
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(holds(&secrets[1].as_bytes()[..16]), "the prefix is there");
    for secret in &secrets {
        assert!(!holds(&secret.as_bytes()[17..30]), "a secret is in a file");
    }
}

#[test]
fn a_key_keeps_its_quota_while_something_else_changes() {
    let desk = Desk::new(&settings());
    let secret = desk.key("shop", "second", "orders").expect("a key");
    let before = desk.known(&secret);
    let declared = desk.known(DECLARED);
    desk.stream("news").expect("a stream");
    desk.connector("crm").expect("a connector");
    desk.catalog.renew(&settings());
    assert!(Arc::ptr_eq(&desk.known(&secret), &before));
    assert!(Arc::ptr_eq(&desk.known(DECLARED), &declared));
    // Another end, the same rate: what was used of it stays used.
    before.quota.take().expect("room");
    let ends = Some(Unix::now() + Duration::from_mins(1));
    let changed = desk
        .catalog
        .change_key("shop", "second", &ending(ends), &actor());
    assert_eq!(changed.expect("changed").expires_at, ends);
    let after = desk.known(&secret);
    assert!(Arc::ptr_eq(&after.quota, &before.quota));
    assert!(!before.is_gone());
}

#[test]
fn what_a_key_stored_today_lasts_over_changes_and_starts() {
    let desk = Desk::new(&settings());
    let key = desk.known(DECLARED);
    key.volume.take(700).expect("there is no limit");
    desk.catalog.keep_uses();
    // What was not written is lost with a kill: here only what came after.
    let desk = desk.reopened(&settings());
    assert_eq!(desk.known(DECLARED).volume.stored_today(), 700);
    let mut limited = settings();
    limited.limits.bytes_per_day = 1_000;
    let desk = desk.reopened(&limited);
    let key = desk.known(DECLARED);
    let over = key.volume.take(301).expect_err("only 300 are left");
    assert_eq!((over.bytes_max, over.per), (1_000, "day"));
    key.volume.take(300).expect("it fits");
    // A connector's own limits, even none, count before those of all.
    desk.connector("crm").expect("a connector");
    let secret = desk.key("crm", "main", "orders").expect("a key");
    desk.known(&secret).volume.take(1_000).expect("it fits");
    let none = patch(settings::Connector::FIELDS, json!({"bytes_per_day": 0}));
    let changed = desk.catalog.change_connector("crm", &none, &actor());
    changed.expect("changed");
    let after = desk.known(&secret);
    after.volume.take(1).expect("there is no limit any more");
    assert_eq!(after.volume.stored_today(), 1_001);
}

#[test]
fn what_changes_of_a_connector_counts_for_its_keys() {
    let desk = Desk::new(&settings());
    assert_eq!(
        desk.known(DECLARED).quota.take().map(|state| state.burst),
        Ok(50)
    );
    desk.connector("crm").expect("a connector");
    let secret = desk.key("crm", "main", "orders").expect("a key");
    let limit = Settings::default().limits.burst;
    assert_eq!(
        desk.known(&secret).quota.take().map(|state| state.burst),
        Ok(limit)
    );
    let change = json!({"item_key": "order.id", "burst": 7});
    let change = patch(settings::Connector::FIELDS, change);
    let after = desk
        .catalog
        .change_connector("crm", &change, &actor())
        .expect("changed");
    assert_eq!(after.keys.len(), 1);
    let key = desk.known(&secret);
    assert_eq!(key.settings.item_key.as_deref(), Some("order.id"));
    assert_eq!(key.quota.take().map(|state| state.burst), Ok(7));
}

#[test]
fn a_key_that_is_revoked_or_removed_is_gone_also_for_who_holds_it() {
    let desk = Desk::new(&settings());
    let revoked = desk.key("shop", "a", "orders").expect("a key");
    let deleted = desk.key("shop", "b", "orders").expect("a key");
    let rotated = desk.key("shop", "c", "orders").expect("a key");
    let screen = desk.read_key("screen", &["orders"]).expect("a key");
    let held = [&revoked, &deleted, &rotated].map(|secret| desk.known(secret));
    let reader = desk.catalog.reader(&screen).expect("a reader");
    let catalog = &desk.catalog;
    catalog.revoke_key("shop", "a", &actor()).expect("revoked");
    catalog.delete_key("shop", "b", &actor()).expect("deleted");
    catalog
        .rotate_key("shop", "c", Rotation::default(), &actor())
        .expect("rotated");
    catalog
        .revoke_read_key("screen", &actor())
        .expect("revoked");
    for (secret, held) in [&revoked, &deleted, &rotated].into_iter().zip(&held) {
        assert!(desk.caller(secret).is_none());
        assert!(held.is_gone());
    }
    assert!(catalog.reader(&screen).is_none());
    assert!(!reader.is_valid_at(Unix::MIN));
    let states: Vec<_> = catalog
        .connector("shop")
        .expect("it is there")
        .keys
        .iter()
        .map(|key| key.state().as_str())
        .collect();
    assert_eq!(states, ["revoked", "active", "revoked", "active"]);
    // For good.
    let refused = catalog
        .change_key("shop", "a", &ending(None), &actor())
        .expect_err("revoked");
    assert!(matches!(refused, CatalogError::Revoked));
    let refused = catalog.rotate_key("shop", "a", Rotation::default(), &actor());
    assert!(matches!(refused, Err(CatalogError::Revoked)));
    let desk = desk.reopened(&settings());
    assert!(desk.caller(&revoked).is_none() && desk.catalog.reader(&screen).is_none());
}

#[test]
fn a_rotated_key_lives_until_its_grace_ends() {
    let desk = Desk::new(&settings());
    let old = desk.key("shop", "web", "orders").expect("a key");
    let rotation = Rotation {
        grace_seconds: 3_600,
        expires_at: None,
        secret: None,
    };
    let (began, hour) = (Unix::now(), Duration::from_hours(1));
    let rotated = desk.catalog.rotate_key("shop", "web", rotation, &actor());
    let (new, now, before) = rotated.expect("rotated");
    assert_eq!((&*now.name, now.expires_at), ("web", None));
    assert_eq!(*before.name, *format!("web.{}", &old[8..16]));
    let ends_at = before.expires_at.expect("an end");
    assert!((began + hour..=Unix::now() + hour).contains(&ends_at));
    assert!(desk.caller(&old).is_some() && desk.caller(new.expect("a text").expose()).is_some());
    assert!(before.is_valid_at(ends_at - INSTANT) && !before.is_valid_at(ends_at));
    // A key that ends sooner is not prolonged by its grace, and its successor ends with it.
    let soon = Unix::now() + Duration::from_mins(1);
    desk.catalog
        .change_key("shop", "web", &ending(Some(soon)), &actor())
        .expect("changed");
    let rotation = Rotation {
        grace_seconds: 3_600,
        expires_at: None,
        secret: None,
    };
    let (_, now, before) = desk
        .catalog
        .rotate_key("shop", "web", rotation, &actor())
        .expect("rotated");
    assert_eq!(
        (now.expires_at, before.expires_at),
        (Some(soon), Some(soon))
    );
}

#[test]
fn what_is_declared_cannot_be_changed_and_names_are_unique() {
    let desk = Desk::new(&settings());
    let catalog = &desk.catalog;
    let by = actor();
    let none = Patch::default();
    for refused in [
        catalog.change_stream("orders", &none, &by).map(drop),
        catalog.delete_stream("orders", true, &by).map(drop),
        catalog.change_connector("shop", &none, &by).map(drop),
        catalog.delete_connector("shop", &by).map(drop),
        catalog
            .change_key("shop", "main", &ending(None), &by)
            .map(drop),
        catalog
            .rotate_key("shop", "main", Rotation::default(), &by)
            .map(drop),
        catalog.revoke_key("shop", "main", &by).map(drop),
        catalog.delete_key("shop", "main", &by).map(drop),
        catalog.change_read_key("lobby", &none, &by).map(drop),
        catalog.revoke_read_key("lobby", &by).map(drop),
        catalog.delete_read_key("lobby", &by).map(drop),
    ] {
        let error = refused.expect_err("refused");
        assert!(matches!(error, CatalogError::Declared(_)), "{error}");
        assert!(error.to_string().contains("configuration"), "{error}");
    }
    for refused in [
        desk.stream("orders").map(drop),
        desk.connector("shop").map(drop),
        desk.key("shop", "main", "orders").map(drop),
        desk.read_key("lobby", &["orders"]).map(drop),
    ] {
        assert!(
            matches!(refused, Err(CatalogError::Taken(_))),
            "{refused:?}"
        );
    }
    assert_eq!(
        catalog
            .audit(&AuditFilter::default(), 10)
            .expect("a page")
            .len(),
        0
    );
}

#[test]
fn what_is_declared_later_wins_and_that_is_told() {
    let bare = Settings::default();
    let desk = Desk::new(&bare);
    desk.stream("orders").expect("a stream");
    desk.connector("shop").expect("a connector");
    let other = desk.key("shop", "second", "orders").expect("a key");
    let same = desk.key("shop", "main", "orders").expect("a key");
    let lobby = desk.read_key("lobby", &["orders"]).expect("a key");
    let desk = desk.reopened(&settings());
    assert_eq!(desk.warnings.len(), 4, "{:?}", desk.warnings);
    assert!(
        desk.warnings
            .iter()
            .all(|told| told.contains("declared now"))
    );
    assert_eq!(
        desk.known(&other).quota.take().map(|state| state.burst),
        Ok(50)
    );
    assert!(desk.caller(&same).is_none() && desk.catalog.reader(&lobby).is_none());
    assert!(desk.caller(DECLARED).is_some());
    // Without the declaration it is all as it was.
    let desk = desk.reopened(&bare);
    assert_eq!(desk.warnings, [""; 0]);
    assert!(desk.caller(&same).is_some() && desk.catalog.reader(&lobby).is_some());
    // A read key that is declared while the daemon runs.
    let reader = desk.catalog.reader(&lobby).expect("a reader");
    let told = desk.catalog.renew(&settings());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!reader.is_valid_at(Unix::MIN) && desk.catalog.reader(&lobby).is_none());
}

#[test]
fn keys_of_a_declared_connector_that_is_gone_stay_dead() {
    let desk = Desk::new(&settings());
    let secret = desk.key("shop", "second", "orders").expect("a key");
    let mut without = settings();
    without.connectors.clear();
    let desk = desk.reopened(&without);
    assert_eq!(desk.warnings.len(), 1, "{:?}", desk.warnings);
    assert!(desk.caller(&secret).is_none());
    let connector = desk.connector("shop").expect("a connector");
    assert_eq!(connector.keys.len(), 0);
    assert!(desk.caller(&secret).is_none());
    let desk = desk.reopened(&settings());
    assert!(desk.caller(&secret).is_none());
}

#[test]
fn a_stream_goes_only_when_no_key_names_it_or_by_force() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    let secret = desk.key("shop", "news", "news").expect("a key");
    let screen = desk.read_key("screen", &["news", "orders"]).expect("a key");
    let refused = desk
        .catalog
        .delete_stream("news", false, &actor())
        .expect_err("in use");
    let told = refused.to_string();
    assert!(
        told.contains("\"news\" of \"shop\"") && told.contains("\"screen\""),
        "{told}"
    );
    desk.catalog
        .delete_stream("news", true, &actor())
        .expect("deleted");
    assert!(!desk.catalog.has_stream("news"));
    assert!(desk.caller(&secret).is_some(), "404, not 401");
    let reader = desk.catalog.reader(&screen).expect("a reader");
    assert!(reader.stream("news").is_none() && reader.stream("orders").is_some());
    desk.stream("news").expect("a stream");
    let reader = desk.catalog.reader(&screen).expect("a reader");
    assert!(reader.stream("news").is_some());
}

#[test]
fn a_follower_hears_of_streams_before_they_can_be_used() {
    let desk = Desk::new(&settings());
    let catalog = Arc::new(desk.catalog);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (there, told) = (Arc::downgrade(&catalog), Arc::clone(&heard));
    catalog.follow_streams(move |streams| {
        let catalog = there.upgrade().expect("it is there");
        let early = streams
            .keys()
            .all(|name| *name == "orders".into() || !catalog.has_stream(name));
        told.lock().expect("no panic").push((streams.len(), early));
    });
    let news = new_patch(settings::Stream::FIELDS, "news").expect("a body");
    catalog.create_stream(&news, &actor()).expect("a stream");
    catalog.renew(&settings());
    assert_eq!(*heard.lock().expect("no panic"), [(1, true), (2, true)]);
}

#[test]
fn wishes_that_cannot_be_are_refused_and_say_what_to_do() {
    let desk = Desk::new(&settings());
    let pasted = "ik_live_a_secret_in_the_wrong_place";
    let long = "n".repeat(65);
    let checks: [(Result<(), CatalogError>, &str); 11] = [
        (desk.stream("").map(drop), "1 to 128"),
        (desk.stream("a\nb").map(drop), "control"),
        (desk.stream(pasted).map(drop), "secret"),
        (desk.connector("a b").map(drop), "1 to 64"),
        (desk.connector(&long).map(drop), "1 to 64"),
        (desk.connector(pasted).map(drop), "secret"),
        (desk.connector("headgate").map(drop), "another name"),
        (desk.connector("operator").map(drop), "another name"),
        (
            desk.key("shop", "a", "order").map(drop),
            "did you mean \"orders\"",
        ),
        (desk.key("shop", "a", pasted).map(drop), "no stream"),
        (desk.read_key("a", &[]).map(drop), "1 to"),
    ];
    for (refused, says) in checks {
        let told = refused.expect_err(says).to_string();
        assert!(told.contains(says), "{told}");
        assert!(!told.contains("wrong_place"), "{told}");
    }
    let passed = NewKey {
        connector: "shop".to_owned(),
        settings: settings::Key {
            name: "a".to_owned(),
            stream: "orders".to_owned(),
            expires_at: Some("1970-01-01T00:00:00Z".to_owned()),
            ..settings::Key::default()
        },
        test: false,
    };
    let told = desk
        .catalog
        .create_key(passed, &actor())
        .expect_err("passed");
    assert!(told.to_string().contains("passed"), "{told}");
    assert!(matches!(
        desk.key("nobody", "a", "orders"),
        Err(CatalogError::NotFound(ResourceKind::Connector))
    ));
}

#[test]
fn each_change_is_in_the_audit_trail_once() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    let stale = patch(settings::Stream::FIELDS, json!({"stale_after_seconds": 9}));
    desk.catalog
        .change_stream("news", &stale, &actor())
        .expect("changed");
    desk.key("shop", "a", "news").expect("a key");
    desk.catalog
        .rotate_key("shop", "a", Rotation::default(), &actor())
        .expect("rotated");
    desk.catalog
        .revoke_key("shop", "a", &actor())
        .expect("revoked");
    desk.catalog
        .delete_key("shop", "a", &actor())
        .expect("deleted");
    desk.catalog
        .delete_stream("news", false, &actor())
        .expect("deleted");
    let desk = desk.reopened(&settings());
    let entries = desk
        .catalog
        .audit(&AuditFilter::default(), 100)
        .expect("a page");
    let told: Vec<_> = entries
        .iter()
        .rev()
        .map(|entry| format!("{} {} {}", entry.action, entry.kind, entry.name))
        .collect();
    assert_eq!(
        told,
        [
            "create stream news",
            "change stream news",
            "create key a",
            "rotate key a",
            "revoke key a",
            "delete key a",
            "delete stream news",
        ]
    );
    let changed = &entries[5];
    assert_eq!(
        (&*changed.who, &*changed.client),
        ("admin token", "127.0.0.1")
    );
    assert!(
        changed
            .before
            .as_deref()
            .is_some_and(|json| json.contains("\"stale_after_seconds\":null"))
    );
    assert!(
        changed
            .after
            .as_deref()
            .is_some_and(|json| json.contains("\"stale_after_seconds\":9"))
    );
    assert_eq!((&entries[6].before, &entries[0].after), (&None, &None));
    assert_eq!(entries[1].connector.as_deref(), Some("shop"));
    let before = AuditFilter {
        before: Some(entries[2].id),
        ..AuditFilter::default()
    };
    let page = desk.catalog.audit(&before, 2).expect("a page");
    assert_eq!([page[0].id, page[1].id], [entries[3].id, entries[4].id]);
}

#[test]
fn the_audit_trail_is_filtered_by_everything_that_is_given() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    desk.key("shop", "a", "news").expect("a key");
    let by = |who: &str, name: &str| {
        let actor = Actor {
            who: who.into(),
            ..actor()
        };
        let change = AuditChange::done("retry", ResourceKind::Sink, name, json!(1));
        desk.catalog.note(&change, &actor).expect("it is written");
    };
    by("token night", "pool");
    by("page of token night", "50% _off");
    by("token midnight", "pool");
    let all = desk.catalog.audit(&AuditFilter::default(), 100);
    let all = all.expect("a page");
    let at: Vec<Unix> = all.iter().map(|entry| entry.at).collect();
    let check = |filter: AuditFilter, expected: &[usize]| {
        let page = desk.catalog.audit(&filter, 100).expect("a page");
        let found: Vec<i64> = page.iter().map(|entry| entry.id).collect();
        let expected: Vec<i64> = expected.iter().map(|place| all[*place].id).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    let none = AuditFilter::default;
    let text = |text: &str| Some(text.to_owned());
    check(none(), &[0, 1, 2, 3, 4]);
    check(
        AuditFilter {
            action: text("retry"),
            ..none()
        },
        &[0, 1, 2],
    );
    check(
        AuditFilter {
            kind: text("key"),
            ..none()
        },
        &[3],
    );
    check(
        AuditFilter {
            name: text("pool"),
            ..none()
        },
        &[0, 2],
    );
    // What belongs to a connector is found with it, and nothing is a pattern.
    check(
        AuditFilter {
            name: text("shop"),
            ..none()
        },
        &[3],
    );
    check(
        AuditFilter {
            name: text("50% _off"),
            ..none()
        },
        &[1],
    );
    check(
        AuditFilter {
            name: text("%"),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            who: text("night"),
            ..none()
        },
        &[1, 2],
    );
    check(
        AuditFilter {
            who: text("token night"),
            ..none()
        },
        &[1, 2],
    );
    check(
        AuditFilter {
            who: text("page of token night"),
            ..none()
        },
        &[1],
    );
    check(
        AuditFilter {
            who: text("admin token"),
            ..none()
        },
        &[3, 4],
    );
    check(
        AuditFilter {
            who: text("' OR 1 --"),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            since: Some(at[4]),
            until: Some(at[0]),
            ..none()
        },
        &[0, 1, 2, 3, 4],
    );
    check(
        AuditFilter {
            since: Some(at[0] + INSTANT),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            until: Some(at[4] - INSTANT),
            ..none()
        },
        &[],
    );
    check(
        AuditFilter {
            since: Some(Unix::MAX),
            ..none()
        },
        &[],
    );
    let pool = AuditFilter {
        before: Some(all[0].id),
        action: text("retry"),
        name: text("pool"),
        ..none()
    };
    check(pool, &[2]);
}
