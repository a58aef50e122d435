//! Ingest keys: what the file has of them, what outlives a change, when they end.

use super::*;

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
    key.volume
        .take(700, Unix::now())
        .expect("there is no limit");
    desk.catalog.keep_uses();
    // What was not written is lost with a kill: here only what came after.
    let desk = desk.reopened(&settings());
    assert_eq!(desk.known(DECLARED).volume.stored_today(), 700);
    let mut limited = settings();
    limited.limits.bytes_per_day = 1_000;
    let desk = desk.reopened(&limited);
    let key = desk.known(DECLARED);
    let over = key
        .volume
        .take(301, Unix::now())
        .expect_err("only 300 are left");
    assert_eq!((over.bytes_max, over.per), (1_000, "day"));
    key.volume.take(300, Unix::now()).expect("it fits");
    // A connector's own limits, even none, count before those of all.
    desk.connector("crm").expect("a connector");
    let secret = desk.key("crm", "main", "orders").expect("a key");
    desk.known(&secret)
        .volume
        .take(1_000, Unix::now())
        .expect("it fits");
    let none = patch(settings::Connector::FIELDS, json!({"bytes_per_day": 0}));
    let changed = desk.catalog.change_connector("crm", &none, &actor());
    changed.expect("changed");
    let after = desk.known(&secret);
    after
        .volume
        .take(1, Unix::now())
        .expect("there is no limit any more");
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
