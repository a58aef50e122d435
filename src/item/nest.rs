//! Turns the flat fields of an item back into nested objects.
//!
//! The inverse of `ingest::flatten`, for readers who want the form that was sent. Called where items are
//! read, never on the way of a request.
//!
//! **Invariant**: no field is lost or doubled, whatever the names: flattening the result gives the same
//! fields with the same texts. There is no recursion, and time and memory are linear in the text and what
//! becomes of it (beside the sorting of the names).

use memchr::memchr;

use super::fields::members;

/// The JSON text of a flat object, with the parts of the names between dots as objects:
/// `{"a.b":1,"a.c":[1,2],"d":"x"}` becomes `{"a":{"b":1,"c":[1,2]},"d":"x"}`.
///
/// - Every dot of a name separates, also the first, the last, and several in a row: `a..b` is `b` in the
///   object `""` in the object `a`. This is what the flattener makes names of, so nothing is guessed.
/// - Values are copied byte for byte, arrays with whatever is in them too. Names keep their escapes; an
///   escaped dot (`\u002e`), which canonical names do not have, does not separate.
/// - A member stands where the first of its fields stood.
/// - **Conflicts.** Where a field has the name of what would be an object (`a` beside `a.b` and `a.c`,
///   which updates can merge), it stays a value, and the fields below it stay beside it with the rest of
///   their names, dots included: `{"a":1,"a.b":2,"a.c":3}` stays as it is, and `{"x.a":1,"x.a.b.c":2}`
///   becomes `{"x":{"a":1,"a.b.c":2}}`. So each field goes as deep as it fits, in any order of the fields,
///   and a field that is an empty object (`"a":{}`) is a value like others.
///
/// The result can be up to five times as long as the text: in names, a dot is a whole level.
pub fn nest(fields: &str) -> String {
    let mut sorted: Vec<Field<'_>> = members(fields)
        .enumerate()
        .map(|(place, (name, value))| Field {
            // Cannot underflow: a member's name has both its quotes.
            name: &name[1..name.len() - 1],
            value,
            place,
            common: 0,
        })
        .collect();
    if !sorted.iter().any(|field| field.name.contains('.')) {
        return fields.to_owned();
    }
    sorted.sort_by(|a, b| order(a.name.as_bytes(), b.name.as_bytes()));
    for at in 1..sorted.len() {
        sorted[at].common = common(sorted[at - 1].name.as_bytes(), sorted[at].name.as_bytes());
    }
    write(&sorted, fields.len())
}

/// A field, in the order of [`order`].
struct Field<'a> {
    /// Without quotes.
    name: &'a str,
    value: &'a str,
    /// Its position in the flat object.
    place: usize,
    /// How many bytes its name has in common with that of the field before it.
    common: usize,
}

/// A member of an object: a field, or an object of the fields `from..to`, whose names are the same up to
/// `name_to`.
#[derive(Clone, Copy)]
struct Member {
    from: usize,
    to: usize,
    /// What the member is called is this part of the name of its fields.
    name_from: usize,
    name_to: usize,
    /// The position of its first field in the flat object.
    place: usize,
}

/// What is still to be written.
enum Step {
    Member(Member),
    /// The ends of so many objects.
    Close(usize),
}

fn write(fields: &[Field<'_>], flat_len: usize) -> String {
    let mut out = String::with_capacity(flat_len + flat_len / 8);
    let mut steps = Vec::new();
    let mut found = Vec::new();
    out.push('{');
    split(fields, 0, fields.len(), 0, &mut found);
    steps.push(Step::Close(1));
    steps.extend(found.drain(..).rev().map(Step::Member));
    while let Some(step) = steps.pop() {
        let mut member = match step {
            Step::Member(member) => member,
            Step::Close(count) => {
                out.extend(std::iter::repeat_n('}', count));
                continue;
            }
        };
        // No value ends in a brace that opens, so this is the first member of its object or not.
        if !out.ends_with('{') {
            out.push(',');
        }
        let mut opened = 0;
        loop {
            let field = &fields[member.from];
            out.push('"');
            out.push_str(&field.name[member.name_from..member.name_to]);
            out.push_str("\":");
            if member.name_to == field.name.len() {
                out.push_str(field.value);
                break;
            }
            out.push('{');
            opened += 1;
            split(
                fields,
                member.from,
                member.to,
                member.name_to + 1,
                &mut found,
            );
            // Objects in each other with nothing beside them take no step each: there may be millions.
            if let [only] = found[..] {
                member = only;
                found.clear();
                continue;
            }
            steps.push(Step::Close(std::mem::take(&mut opened)));
            steps.extend(found.drain(..).rev().map(Step::Member));
            break;
        }
        out.extend(std::iter::repeat_n('}', opened));
    }
    out
}

/// Finds the members of the object that the fields `from..to` are in, all names of which are the same up to
/// `name_from`, in the order of the flat object.
fn split(fields: &[Field<'_>], from: usize, to: usize, name_from: usize, found: &mut Vec<Member>) {
    let mut at = from;
    while at < to {
        let name = fields[at].name.as_bytes();
        let name_to = memchr(b'.', &name[name_from..]).map_or(name.len(), |dot| name_from + dot);
        let is_below = |field: &Field<'_>| {
            field.common >= name_to && field.name.as_bytes().get(name_to) == Some(&b'.')
        };
        let mut member = Member {
            from: at,
            to: at + 1,
            name_from,
            name_to,
            place: fields[at].place,
        };
        while member.to < to && is_below(&fields[member.to]) {
            member.place = member.place.min(fields[member.to].place);
            member.to += 1;
        }
        at = member.to;
        if name_to < name.len() {
            found.push(member);
        } else {
            // A field. What is below its name can't be: it stays beside it, each field for itself.
            found.extend((member.from..member.to).map(|at| Member {
                from: at,
                to: at + 1,
                name_from,
                name_to: fields[at].name.len(),
                place: fields[at].place,
            }));
        }
    }
    found.sort_unstable_by_key(|member| member.place);
}

/// The order of bytes, but a dot comes before all others: so a name is followed at once by those below it.
fn order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let at = common(a, b);
    let rank = |name: &[u8]| match name.get(at) {
        None => 0,
        Some(b'.') => 1,
        Some(byte) => 2 + u16::from(*byte),
    };
    rank(a).cmp(&rank(b))
}

/// How many bytes at their beginning two names have in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 32;
    let blocks = a.chunks_exact(STEP).zip(b.chunks_exact(STEP));
    let at = STEP * blocks.take_while(|(a, b)| a == b).count();
    let rest = a[at..].iter().zip(&b[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
