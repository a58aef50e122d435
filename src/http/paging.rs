//! Which entries a page has of what is listed by name.
//!
//! **Invariant**: whoever follows `next` from the beginning sees each entry once.

/// Of entries in the order of their names those after the name `after`, and the name of the last one if there are more.
pub fn by_name<'a, T>(
    all: &'a [T],
    name: impl Fn(&T) -> &str,
    after: &str,
    limit: usize,
) -> (&'a [T], Option<&'a str>) {
    let first = all.partition_point(|one| name(one) <= after);
    let rest = &all[first..];
    let page = &rest[..rest.len().min(limit)];
    let next = page.last().filter(|_| rest.len() > limit);
    (page, next.map(name))
}
