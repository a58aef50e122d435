//! The catalog over real files: what counts, what is refused, what is kept.

mod audit_log;
mod chained;
mod copied;
mod keys;
mod problems;
mod renewed;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use base::clock::Unix;
use copied::Copied;
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
    settings.problems.stream.clear();
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
        let error = settings::ValidationError::Form(faults[0].message.clone());
        FieldError::from(error).of("name")
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
    /// Ends before the catalog.
    copied: Copied,
    folder: tempfile::TempDir,
    catalog: Arc<Catalog>,
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
        let catalog = Arc::new(catalog);
        Self {
            copied: Copied::of(&catalog),
            folder,
            catalog,
            warnings,
        }
    }

    fn reopened(self, settings: &Settings) -> Self {
        drop(self.copied);
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
    // The same while the daemon runs.
    let reader = desk.catalog.reader(&lobby).expect("a reader");
    let told = desk.catalog.renew(&settings());
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(desk.caller(&same).is_none() && desk.caller(DECLARED).is_some());
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
    // A stream that is made with its name is another one.
    desk.stream("news").expect("a stream");
    assert_eq!(desk.catalog.stream_life("news"), 1);
    let reader = desk.catalog.reader(&screen).expect("a reader");
    assert!(reader.stream("news").is_none() && reader.stream("orders").is_some());
    assert!(desk.caller(&secret).is_none());
    assert!(desk.catalog.ended_key(&secret).is_some());
}

#[test]
fn a_follower_hears_of_streams_before_they_can_be_used() {
    let desk = Desk::new(&settings());
    let catalog = Arc::clone(&desk.catalog);
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
    assert!(told.to_string().contains("in the past"), "{told}");
    assert!(matches!(
        desk.key("nobody", "a", "orders"),
        Err(CatalogError::NotFound(ResourceKind::Connector))
    ));
}
