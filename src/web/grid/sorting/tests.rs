//! Unit tests of `grid/sorting.rs`.

use super::*;

fn grid(sort: &str) -> Grid {
    let row = |key: &str, items: &str, at: Option<&str>| {
        Row::of(key, "/").cells([
            Cell::text(items),
            Cell::markup(maud::html! { form {} }),
            Cell::time(at),
        ])
    };
    let columns = [
        Column::number("Items"),
        Column::text("Act"),
        Column::time("Last seen"),
    ];
    let rows = [
        row("beta", "9", Some("2026-01-02T00:00:00Z")),
        row("Alpha", "over 10,000", None),
        row("gamma", "1,204", Some("2026-01-01T00:00:00Z")),
        row("delta", "< 0.1 %", None),
    ];
    Grid::new("Things here", "Name", columns).sorted(rows, 3, &Sorting::read("/x", sort))
}

fn keys(sort: &str) -> Vec<String> {
    grid(sort).rows.into_iter().map(|row| row.key).collect()
}

#[test]
fn rows_are_sorted_before_the_first_of_them_are_taken() {
    assert_eq!(keys(""), ["beta", "Alpha", "gamma"]);
    assert_eq!(keys("things-here.name"), ["Alpha", "beta", "delta"]);
    assert_eq!(keys("-things-here.name"), ["gamma", "delta", "beta"]);
    assert_eq!(keys("things-here.items"), ["delta", "beta", "gamma"]);
    assert_eq!(keys("-things-here.items"), ["Alpha", "gamma", "beta"]);
}

#[test]
fn a_row_that_says_nothing_comes_last_both_ways() {
    assert_eq!(keys("things-here.last-seen")[..2], ["gamma", "beta"]);
    assert_eq!(keys("-things-here.last-seen")[..2], ["beta", "gamma"]);
}

#[test]
fn a_head_leads_to_its_order_and_then_to_the_other_way_round() {
    let address = |sort: &str, place: usize| {
        let grid = grid(sort);
        let column = match place.checked_sub(1) {
            None => grid.key,
            Some(place) => grid.columns[place].clone(),
        };
        column.sort.map(|(address, _)| address)
    };
    let some = |address: &str| Some(address.to_owned());
    assert_eq!(address("", 0), some("/x?sort=things-here.name"));
    assert_eq!(address("", 1), some("/x?sort=-things-here.items"));
    assert_eq!(address("", 2), None, "a button is no value");
    let again = address("-things-here.items", 1);
    assert_eq!(again, some("/x?sort=things-here.items"));
    let back = address("things-here.items", 1);
    assert_eq!(back, some("/x?sort=-things-here.items"));
    assert_eq!(keys("nothing.here"), keys(""), "an order that is unknown");
}
