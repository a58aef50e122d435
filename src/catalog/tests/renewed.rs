//! What changes of a declaration while the daemon runs.

use super::*;
use settings::Verify;
use webhook::Options;

/// The settings with a signing key of this secret, which is answered with this status.
fn signing(secret: &str, answer: u16) -> Settings {
    let mut settings = settings();
    settings.connectors[0].keys.push(settings::Key {
        name: "signed".to_owned(),
        stream: "orders".to_owned(),
        verify: Some(Verify {
            secret: Some(Secret::new(secret)),
            options: Options {
                answer: Some(answer),
                ..Options::of("github")
            },
            ..Verify::default()
        }),
        ..settings::Key::default()
    });
    settings
}

#[test]
fn a_signing_key_is_as_it_is_declared_now() {
    let first = signing("the first secret of the tests", 200);
    let desk = Desk::new(&first);
    let known = || {
        let shop = desk.catalog.connector("shop").expect("declared");
        Arc::clone(shop.key("signed").expect("declared"))
    };
    let before = known();
    desk.catalog.renew(&first);
    assert!(Arc::ptr_eq(&known(), &before));

    desk.catalog
        .renew(&signing("the second secret of the tests", 200));
    let after = known();
    assert_ne!(after.prefix(), before.prefix());
    assert!(before.is_gone() && after.signing.is_some());

    // Another answer takes effect at once, and so does the secret beside it.
    desk.catalog
        .renew(&signing("the third secret of the tests", 204));
    let last = known();
    assert_ne!(last.prefix(), after.prefix());
    let answer = last.verify().and_then(|verify| verify.options.answer);
    assert_eq!(answer, Some(204));
    // One that is not declared any more is nobody's.
    desk.catalog.renew(&settings());
    let shop = desk.catalog.connector("shop").expect("declared");
    assert!(shop.key("signed").is_none() && last.is_gone());
}

#[test]
fn streams_connectors_and_keys_are_as_they_are_declared_now_and_what_did_not_change_is_the_same() {
    let first = settings();
    let desk = Desk::new(&first);
    let caller = || desk.catalog.caller(DECLARED);
    let before = caller().expect("its key").key;

    let mut more = settings();
    let mut connector = more.connectors[0].clone();
    connector.name = "desk".to_owned();
    connector.keys.truncate(1);
    connector.keys[0].stream = "news".to_owned();
    connector.keys[0].secret = Some(Secret::new("ik_live_of_the_desk_000000000001"));
    more.connectors.push(connector);
    more.streams.push(settings::Stream {
        name: "news".to_owned(),
        ..settings::Stream::default()
    });
    desk.catalog.renew(&more);
    let new = desk.catalog.caller("ik_live_of_the_desk_000000000001");
    let new = new.expect("it is declared now").key;
    assert_eq!(&*new.stream, "news");
    assert!(desk.catalog.has_stream("news"));
    assert!(Arc::ptr_eq(&caller().expect("its key").key, &before));

    // A limit of the connector is one of its keys.
    more.connectors[0].max_items_per_request = 1;
    desk.catalog.renew(&more);
    assert!(!Arc::ptr_eq(&caller().expect("its key").key, &before));

    desk.catalog.renew(&first);
    assert!(new.is_gone() && !desk.catalog.has_stream("news"));
    let gone = desk.catalog.caller("ik_live_of_the_desk_000000000001");
    assert!(gone.is_none() && desk.catalog.connector("desk").is_none());
}
