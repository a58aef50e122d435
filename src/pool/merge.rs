//! Merging updates of one item, field by field.
//!
//! An item of a stream with `on_update = "merge"` has fields of several requests. `pool/apply/` keeps, beside the
//! fields, which request each is of, so that updates and removals that come late do what they would have done in time.
//!
//! **Invariant**: whatever the order in which updates and removals come, the item ends with the fields that it has in
//! the order of acceptance.

use std::collections::HashMap;

use item;

/// A place in the order of acceptance: request, and position in it.
pub(super) type Order = (i64, u32);

/// Up to so many fields are compared one by one.
const LINEAR_MAX: usize = 16;

/// The fields of an item.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    fields: Vec<Field<'a>>,
    /// Places by name, if there are many.
    index: HashMap<&'a str, usize>,
}

#[derive(Debug)]
struct Field<'a> {
    /// As it stands in JSON.
    name: &'a str,
    value: &'a str,
    order: Order,
}

impl<'a> Fields<'a> {
    /// The fields of a row: all of its newest update, unless `merged` says which are of which.
    pub(super) fn of(json: &'a str, newest: Order, merged: Option<&str>) -> Self {
        let mut fields = Self::default();
        let mut orders = merged.map(orders).unwrap_or_default().into_iter();
        for (name, value) in item::members(json) {
            let order = orders.next().unwrap_or(newest);
            fields.push(Field { name, value, order });
        }
        fields
    }

    /// Takes the fields of an update that are newer than those it has; whether there were any. An update of a higher
    /// version than there was is newer than all of them, whenever it was accepted.
    pub(super) fn update(&mut self, json: &'a str, order: Order, is_higher: bool) -> bool {
        let mut changed = false;
        for (name, value) in item::members(json) {
            match self.find(name) {
                Some(at) if self.fields[at].order >= order && !is_higher => continue,
                Some(at) => self.fields[at] = Field { name, value, order },
                None => self.push(Field { name, value, order }),
            }
            changed = true;
        }
        changed
    }

    /// Drops what came up to this place; whether there was any.
    pub(super) fn remove_through(&mut self, order: Order) -> bool {
        let before = self.fields.len();
        self.fields.retain(|field| field.order > order);
        self.index.clear();
        self.fields.len() < before
    }

    pub(super) fn json(&self) -> String {
        let bytes = self.fields.iter();
        let bytes: usize = bytes
            .map(|field| field.name.len() + field.value.len() + 2)
            .sum();
        let mut json = String::with_capacity(bytes + 2);
        for field in &self.fields {
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(field.name);
            json.push(':');
            json.push_str(field.value);
        }
        if json.is_empty() {
            json.push('{');
        }
        json.push('}');
        json
    }

    /// What [`Fields::of`] takes; none if all fields are of the newest update.
    pub(super) fn merged(&self, newest: Order) -> Option<String> {
        if self.fields.iter().all(|field| field.order == newest) {
            return None;
        }
        let runs = self.fields.chunk_by(|a, b| a.order == b.order);
        let runs: Vec<(i64, u32, usize)> = runs
            .map(|run| (run[0].order.0, run[0].order.1, run.len()))
            .collect();
        serde_json::to_string(&runs).ok()
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        if self.fields.len() <= LINEAR_MAX {
            return self.fields.iter().position(|field| field.name == name);
        }
        if self.index.is_empty() {
            let names = self.fields.iter().map(|field| field.name);
            self.index = names.zip(0..).collect();
        }
        self.index.get(name).copied()
    }

    fn push(&mut self, field: Field<'a>) {
        if !self.index.is_empty() {
            self.index.insert(field.name, self.fields.len());
        }
        self.fields.push(field);
    }
}

/// For each field in turn the place that it is of.
fn orders(merged: &str) -> Vec<Order> {
    let runs: Vec<(i64, u32, usize)> = serde_json::from_str(merged).unwrap_or_default();
    runs.into_iter()
        .flat_map(|(seq, position, fields)| std::iter::repeat_n((seq, position), fields))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_updates_and_removals_do_what_they_would_have_done_in_time() {
        let mut fields = Fields::of(r#"{"id":7,"b":2}"#, (3, 0), None);
        assert!(fields.update(r#"{"id":6,"a":1}"#, (1, 0), false));
        assert!(!fields.update(r#"{"id":6}"#, (1, 0), false));
        let json = fields.json();
        assert_eq!(json, r#"{"id":7,"b":2,"a":1}"#);
        let merged = fields.merged((3, 0));
        assert_eq!(merged.as_deref(), Some("[[3,0,2],[1,0,1]]"));
        let mut again = Fields::of(&json, (3, 0), merged.as_deref());
        assert!(again.update(r#"{"a":5}"#, (2, 0), false), "between the two");
        assert_eq!(again.json(), r#"{"id":7,"b":2,"a":5}"#);
        assert!(!again.remove_through((1, 9)));
        assert!(again.remove_through((2, 0)));
        assert_eq!(again.json(), r#"{"id":7,"b":2}"#);
        assert_eq!(again.merged((3, 0)), None);
        assert!(again.remove_through((3, 0)));
        assert_eq!(again.json(), "{}");
    }

    #[test]
    fn a_higher_version_that_comes_late_loses_no_field_to_a_lower_one() {
        let mut fields = Fields::of(r#"{"id":7,"note":"b"}"#, (4, 0), None);
        assert!(fields.update(r#"{"id":8}"#, (3, 0), true));
        assert_eq!(fields.json(), r#"{"id":8,"note":"b"}"#);
        let merged = fields.merged((3, 0));
        assert_eq!(merged.as_deref(), Some("[[3,0,1],[4,0,1]]"));
    }

    #[test]
    fn merging_keeps_what_is_not_named() {
        let check = |old: &str, new: &str, expected: &str| {
            let mut fields = Fields::of(old, (1, 0), None);
            fields.update(new, (2, 0), false);
            assert_eq!(fields.json(), expected);
        };
        check("{}", "{}", "{}");
        check("{}", r#"{"a":1}"#, r#"{"a":1}"#);
        check(r#"{"a":1}"#, "{}", r#"{"a":1}"#);
        check(r#"{"a":1,"b":2}"#, r#"{"a":3,"b":4}"#, r#"{"a":3,"b":4}"#);
        check(r#"{"a":1,"b":2}"#, r#"{"b":4,"a":3}"#, r#"{"a":3,"b":4}"#);
        check(
            r#"{"a":1,"b":[2]}"#,
            r#"{"c":{},"b":null}"#,
            r#"{"a":1,"b":null,"c":{}}"#,
        );
    }

    #[test]
    fn many_fields_are_found_by_name() {
        let name = |n: usize| format!("\"f{n}\":{n}");
        let list = |names: std::ops::Range<usize>| {
            let names: Vec<String> = names.map(name).collect();
            format!("{{{}}}", names.join(","))
        };
        let (old, new) = (list(0..40), list(20..60));
        let mut fields = Fields::of(&old, (1, 0), None);
        assert!(fields.update(&new, (2, 0), false));
        assert_eq!(fields.json(), list(0..60));
        let merged = fields.merged((2, 0));
        assert_eq!(merged.as_deref(), Some("[[1,0,20],[2,0,40]]"));
    }
}
