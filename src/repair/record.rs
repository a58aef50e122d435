//! Records: how the values of a row are written. Format: <https://sqlite.org/fileformat2.html#record_format>.
//!
//! **Invariant**: what is no record, to the byte, is none.

use rusqlite::types::Value;

/// A number of one to nine bytes.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for place in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == 8 {
            return Some(value << 8 | u64::from(byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

/// The values of a record; None if it is none.
pub(super) fn record(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut at = 0;
    let header_end = usize::try_from(varint(bytes, &mut at)?).ok()?;
    if header_end > bytes.len() {
        return None;
    }
    let mut values = Vec::new();
    let mut begin = header_end;
    while at < header_end {
        let kind = varint(bytes, &mut at)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        let end = begin.checked_add(length)?;
        let body = bytes.get(begin..end)?;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => {
                let negative = body.first().is_some_and(|byte| *byte >= 0x80);
                let zero = if negative { -1_i64 } else { 0 };
                Value::Integer(
                    body.iter()
                        .fold(zero, |all, byte| all << 8 | i64::from(*byte)),
                )
            }
            7 => Value::Real(f64::from_be_bytes(body.try_into().ok()?)),
            _ if kind % 2 == 0 => Value::Blob(body.to_vec()),
            _ => Value::Text(String::from_utf8(body.to_vec()).ok()?),
        });
        begin = end;
    }
    (at == header_end && begin == bytes.len()).then_some(values)
}
