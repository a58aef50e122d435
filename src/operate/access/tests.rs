//! Unit tests of `access.rs`.

use super::*;
use settings::Secret;

const MAIN: &str = "at_for_the_tests_of_access_0001";

fn declared(name: &str, role: Role, secret: &str, expires_at: Option<&str>) -> AdminToken {
    AdminToken {
        name: name.to_owned(),
        role,
        secret: Some(Secret::new(secret)),
        sha256: None,
        certificate: None,
        expires_at: expires_at.map(str::to_owned),
    }
}

fn admin(tokens: Vec<AdminToken>) -> settings::Admin {
    settings::Admin {
        tokens,
        ..settings::Admin::default()
    }
}

#[test]
fn a_token_is_known_while_it_is_declared_and_its_time_lasts() {
    let over = Some("2020-01-01T00:00:00Z");
    let access = Access::new(
        MAIN,
        &admin(vec![
            declared(
                "new",
                Role::Viewer,
                "new-new-new",
                Some("2999-01-01T00:00:00Z"),
            ),
            declared("old", Role::Viewer, "old-old-old", over),
        ]),
    );
    let role = |text: &str| access.token(text).map(|token| token.role);
    assert_eq!(role(MAIN), Some(Role::Admin));
    assert_eq!(role("new-new-new"), Some(Role::Viewer));
    assert_eq!(role("old-old-old"), None);
    assert_eq!(role(""), None);
    access.renew(&admin(vec![declared(
        "new",
        Role::Operator,
        "new-new-new",
        None,
    )]));
    let role = |text: &str| access.token(text).map(|token| token.role);
    assert_eq!(role("new-new-new"), Some(Role::Operator));
    access.renew(&admin(Vec::new()));
    assert_eq!(access.token("new-new-new"), None);
    assert_eq!(access.token(MAIN), Some(access.main()));
}

#[test]
fn the_trail_names_a_token_and_the_main_one_as_ever() {
    let of = |name: &str| Token::from(&declared(name, Role::Admin, "x", None));
    let said = |token: &Token| [token.who(), token.who_on_page(), token.who_with_link()];
    assert_eq!(
        said(&of("admin")).map(|it| it.to_string()),
        ["admin token", "admin page", "link"]
    );
    assert_eq!(
        said(&of("ops")).map(|it| it.to_string()),
        ["token ops", "page of token ops", "link of token ops"]
    );
}

#[test]
fn the_digest_is_that_of_all_tokens_in_any_order() {
    let of = |main: &str, tokens| Access::new(main, &admin(tokens)).digest();
    let one = || declared("one", Role::Viewer, "one-one-one", None);
    let two = |role, secret| declared("two", role, secret, None);
    let both = of(MAIN, vec![one(), two(Role::Operator, "two-two-two")]);
    let turned = of(MAIN, vec![two(Role::Operator, "two-two-two"), one()]);
    assert_eq!(turned, both);
    for other in [
        of("another", vec![one(), two(Role::Operator, "two-two-two")]),
        of(MAIN, vec![one(), two(Role::Viewer, "two-two-two")]),
        of(MAIN, vec![one(), two(Role::Operator, "three-three")]),
        of(MAIN, vec![one()]),
    ] {
        assert_ne!(other, both);
    }
}

#[test]
fn refusals_are_told_once_a_minute_for_each_token() {
    let access = Access::new(MAIN, &admin(Vec::new()));
    let [a, b] = ["a", "b"].map(|name| Token::from(&declared(name, Role::Viewer, name, None)));
    assert_eq!(access.note_refusal(&a, Lived::from_ms(1_000)), Some(1));
    assert_eq!(access.note_refusal(&a, Lived::from_ms(1_001)), None);
    assert_eq!(access.note_refusal(&b, Lived::from_ms(1_001)), Some(1));
    assert_eq!(access.note_refusal(&a, Lived::from_ms(60_999)), None);
    assert_eq!(access.note_refusal(&a, Lived::from_ms(61_000)), Some(3));
}
