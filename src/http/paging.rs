//! Pages of a list that is sorted by name.
//!
//! **Invariant**: a client that follows `next` from the beginning receives each entry once.

/// The entries after the name `after`, from a list that is sorted by name; and the last name on the page if more
/// entries follow.
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
