//! Unit tests of `form/controls.rs`.

use salvo_core::Depot;

use super::*;

#[test]
fn what_was_typed_comes_back_escaped_and_a_secret_does_not() {
    let values = [
        ("name", "\"><script>".to_owned()),
        ("item_key", "ik_live_x".to_owned()),
    ];
    let mut typed = Typed::new(&Depot::new(), "name", &values);
    typed.reject("item_key", "It is wrong.");
    let field = |name| Field {
        name,
        label: "L",
        hint: "",
    };
    let shown = typed.input(field("name"), 64, true).into_string();
    assert!(
        shown.contains("value=\"&quot;&gt;&lt;script&gt;\""),
        "{shown}"
    );
    assert!(!shown.contains("autofocus"), "{shown}");
    let shown = typed.input(field("item_key"), 64, true).into_string();
    assert!(
        shown.contains("value=\"\"") && shown.contains("autofocus"),
        "{shown}"
    );
    assert!(
        shown.contains("aria-describedby=\"item_key-wrong\""),
        "{shown}"
    );
    assert!(shown.contains("It is wrong."), "{shown}");
}

#[test]
fn a_secret_comes_back_neither_in_its_field_nor_in_debug() {
    let values = [("secret", "typed-by-hand".to_owned())];
    let mut typed = Typed::new(&Depot::new(), "secret", &values);
    typed.reject("secret", "It is wrong.");
    let field = Field {
        name: "secret",
        label: "L",
        hint: "",
    };
    let shown = typed.secret_input(field).into_string();
    assert!(shown.contains("type=\"password\""), "{shown}");
    assert!(
        shown.contains("aria-invalid") && shown.contains("autofocus"),
        "{shown}"
    );
    let lines = typed.lines_input(field).into_string();
    assert!(lines.contains("</textarea>"), "{lines}");
    let debug = format!("{typed:?}");
    for text in [shown, lines, debug] {
        assert!(!text.contains("typed-by-hand"), "{text}");
    }
}
