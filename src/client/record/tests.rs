//! Unit tests of `record.rs`.

use super::*;

/// Rows that verbs or forms ask for in a way of their own: as an argument, by a verb, before the rest of the form.
const APART: [&str; 10] = [
    "batch", "config", "enabled", "limits", "mode", "name", "plugin", "retry", "sha256", "verify",
];

/// A row without these would be neither in a form nor on the command line, and nobody would miss it.
#[test]
fn every_row_has_a_label_and_an_option() {
    let mut missing = Vec::new();
    for body in [NEW_STREAM, NEW_CONNECTOR, NEW_KEY, NEW_READ_KEY, SINK] {
        let options = rows(body);
        for row in BODIES[body].0 {
            let name = row.name;
            let has_option = options.iter().any(|one| {
                one.row.name == name || one.table.is_some_and(|table| table.name == name)
            });
            if row.declared || APART.contains(&name) {
                continue;
            }
            if !has_option {
                missing.push(format!("{body}: {name} has no option: placeholder"));
            }
            if row.label.is_empty() && !matches!(row.shape, Shape::Table(_)) {
                missing.push(format!("{body}: {name} has no control in the form: label"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
