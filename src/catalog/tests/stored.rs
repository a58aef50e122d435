//! What stands in the file: descriptions, older formats, texts that were damaged.
//!
//! **Invariant**: what an earlier version wrote is read.

use rusqlite::Connection;

use super::*;
use base::clock::Unix;

#[test]
fn descriptions_are_kept_changed_and_taken_away() {
    let desk = Desk::new(&settings());
    let by = actor();
    let said = |text: &str| Some(text.to_owned());
    desk.stream("news").expect("a stream");
    desk.connector("crm").expect("a connector");
    desk.key("crm", "main", "news").expect("a key");
    desk.read_key("screen", &["news"]).expect("a read key");
    let catalog = &desk.catalog;
    let describe = |text: Option<String>| -> Result<(), CatalogError> {
        let body = json!({"description": text});
        let of = |fields| patch(fields, body.clone());
        catalog.change_stream("news", &of(settings::Stream::FIELDS), &by)?;
        catalog.change_connector("crm", &of(settings::Connector::FIELDS), &by)?;
        catalog.change_key("crm", "main", &of(settings::Key::FIELDS), &by)?;
        let changed = catalog.change_read_key("screen", &of(settings::ReadKey::FIELDS), &by);
        changed.map(drop)
    };
    let found = |catalog: &Catalog| {
        let connector = catalog.connector("crm").expect("it is there");
        [
            catalog
                .stream("news")
                .expect("it is there")
                .description
                .clone(),
            connector.description.clone(),
            connector.keys[0].description.as_deref().map(str::to_owned),
            catalog
                .read_key("screen")
                .expect("it is there")
                .description
                .as_deref()
                .map(str::to_owned),
        ]
    };
    describe(said("Grüße an alle")).expect("changed");
    let kept = said("Grüße an alle");
    assert_eq!(found(catalog), [(); 4].map(|()| kept.clone()));
    for wrong in [
        "",
        "two\nlines",
        &"ä".repeat(201),
        "ik_live_in_the_wrong_place",
    ] {
        let body = json!({"description": wrong}).as_object().cloned();
        let body = body.expect("an object");
        let faults = Patch::of_change(settings::ReadKey::FIELDS, body).expect_err(wrong);
        let refused = faults[0].to_string();
        assert!(refused.starts_with("description "), "{refused}");
        assert!(!refused.contains("wrong_place"), "{refused}");
    }
    let desk = desk.reopened(&settings());
    assert_eq!(found(&desk.catalog), [(); 4].map(|()| kept.clone()));
}

/// A change of every field that can be changed. It names a field that nobody gave a value here.
fn change_of_all(fields: &'static [settings::Field], values: serde_json::Value) -> Patch {
    for field in fields
        .iter()
        .filter(|field| !field.declared && !field.fixed)
    {
        let value = &values[field.name];
        assert!(
            *value != (field.default)(),
            "add a value of `{}` that is not its default",
            field.name
        );
    }
    patch(fields, values)
}

#[test]
fn every_field_that_can_be_changed_is_kept() {
    let desk = Desk::new(&settings());
    let by = actor();
    desk.stream("news").expect("a stream");
    desk.connector("crm").expect("a connector");
    desk.key("crm", "main", "news").expect("a key");
    desk.read_key("screen", &["news"]).expect("a read key");
    let stream = json!({
        "description": "Said of it", "on_update": "merge", "stale_after_seconds": 60, "version": "at",
        "delete_when": {"field": "state", "is": ["gone"]}, "expire_after_seconds": 3_600, "items_max": 7,
        "bytes_max": 7_000, "history": 3,
    });
    let connector = json!({
        "description": "Said of it", "kind": "webhook", "preset": "shopify", "item_key": "order.id", "items": "data",
        "version": "at", "delete_when": {"field": "state", "is": ["gone"]}, "expire_after_seconds": 3_600,
        "may_delete": true, "requests_per_second": 5, "burst": 6, "bytes_per_second": 7, "bytes_per_day": 8,
        "max_items_per_request": 9,
    });
    let key = json!({
        "description": "Said of it", "expires_at": "2090-01-31T00:00:00.000Z", "networks": ["10.0.0.0/8"],
        "allow_in_url": true,
    });
    let read_key = json!({
        "description": "Said of it", "streams": ["news", "orders"], "expires_at": "2090-01-31T00:00:00.000Z",
        "networks": ["10.0.0.0/8"], "allow_in_url": true, "requests_per_second": 5,
        "origins": ["https://screens.example"], "where": "team:red", "fields": "team,score", "page": "/render/news",
        "expect": true, "away_after_seconds": 30,
    });
    let stream = change_of_all(settings::Stream::FIELDS, stream);
    let connector = change_of_all(settings::Connector::FIELDS, connector);
    let key = change_of_all(settings::Key::FIELDS, key);
    let read_key = change_of_all(settings::ReadKey::FIELDS, read_key);
    let found = |catalog: &Catalog| {
        let connector = catalog.connector("crm").expect("it is there");
        (
            catalog
                .stream("news")
                .expect("it is there")
                .settings
                .clone(),
            settings::Connector::clone(&connector.settings),
            connector.keys[0].row().settings(),
            settings::ReadKey::clone(&catalog.read_key("screen").expect("it is there").settings),
        )
    };
    let mut wanted = found(&desk.catalog);
    wanted.0.set_all(&stream).expect("values of its fields");
    wanted.1.set_all(&connector).expect("values of its fields");
    wanted.2.set_all(&key).expect("values of its fields");
    wanted.3.set_all(&read_key).expect("values of its fields");
    let catalog = &desk.catalog;
    catalog
        .change_stream("news", &stream, &by)
        .expect("changed");
    catalog
        .change_connector("crm", &connector, &by)
        .expect("changed");
    catalog
        .change_key("crm", "main", &key, &by)
        .expect("changed");
    catalog
        .change_read_key("screen", &read_key, &by)
        .expect("changed");
    assert_eq!(found(catalog), wanted);
    let desk = desk.reopened(&settings());
    assert_eq!(found(&desk.catalog), wanted);
}

#[test]
fn a_damaged_text_costs_what_it_said_and_no_start() {
    let desk = Desk::new(&settings());
    desk.stream("news").expect("a stream");
    desk.connector("crm").expect("a connector");
    let secret = desk.key("crm", "main", "news").expect("a key");
    desk.read_key("screen", &["news"]).expect("a key");
    let file = Connection::open(desk.folder.path().join("catalog.db")).expect("the file");
    let damaged = "UPDATE streams SET settings = '{\"on_update\":\"mesge\"}';
        UPDATE connectors SET settings = '{\"bur'; UPDATE read_keys SET streams = '[\"news]';";
    file.execute_batch(damaged).expect("a change");
    drop(file);
    let desk = desk.reopened(&settings());
    let news = desk.catalog.stream("news").expect("it is there");
    assert_eq!((&*news.name, news.on_update), ("news", OnUpdate::Replace));
    assert_eq!(&*desk.known(&secret).stream, "news");
    let screen = desk.catalog.read_key("screen").expect("it is there");
    assert!(screen.streams.is_empty());
}

#[test]
fn files_of_older_formats_keep_what_they_hold() {
    for format in [1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = Connection::open(folder.path().join("catalog.db")).expect("a file");
        let added = match format {
            1 => "",
            _ => "UPDATE connectors SET may_delete = 1;",
        };
        let made = schema::of_format(format)
            + "INSERT INTO streams VALUES ('news', 'merge', 60, 1000);
               INSERT INTO connectors (name, kind, item_key, burst, created_ms)
                   VALUES ('crm', 'webhook', 'order.id', 7, 2000);"
            + added
            + &format!("PRAGMA user_version = {format};");
        file.execute_batch(&made).expect("rows");
        drop(file);
        let desk = Desk::in_folder(folder, &settings());
        let news = desk.catalog.stream("news").expect("it is there");
        assert_eq!(
            (news.on_update, news.stale_after_seconds),
            (OnUpdate::Merge, Some(60))
        );
        assert_eq!(news.created_at, Some(Unix::from_ms(1000)));
        let crm = desk.catalog.connector("crm").expect("it is there");
        assert_eq!(
            (crm.kind, crm.item_key.as_deref()),
            (ConnectorKind::Webhook, Some("order.id"))
        );
        assert_eq!((crm.requests_per_second, crm.burst), (None, Some(7)));
        assert_eq!(crm.settings.may_delete, (format == 2).then_some(true));
    }
}

#[test]
fn a_key_whose_networks_cannot_be_read_is_taken_from_nowhere() {
    for written in ["7", "{}", "[7]", "[\"nowhere\"]", "["] {
        let desk = Desk::new(&settings());
        let secret = desk.read_key("far", &["orders"]).expect("a key");
        let file = Connection::open(desk.folder.path().join("catalog.db")).expect("the file");
        file.execute("UPDATE read_keys SET networks = ?1", [written])
            .expect("a change");
        let desk = desk.reopened(&settings());
        let reader = desk.catalog.reader(&secret).expect("it is known");
        let address = [127, 0, 0, 1].into();
        assert!(!reader.settings.networks.admit(Some(address)), "{written}");
        assert!(!reader.settings.networks.admit(None), "{written}");
    }
}
