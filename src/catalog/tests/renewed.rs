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
fn a_signing_key_takes_another_secret_and_nothing_else() {
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

    // Another answer counts from the next start on, and so does the secret beside it.
    desk.catalog
        .renew(&signing("the third secret of the tests", 204));
    assert!(Arc::ptr_eq(&known(), &after));
    desk.catalog.renew(&settings());
    assert!(Arc::ptr_eq(&known(), &after));
}
