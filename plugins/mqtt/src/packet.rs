//! The packets of MQTT 3.1.1 that a client needs that only publishes.
//!
//! **Invariant**: what is written is a whole packet, and what is read is one too.

/// Bytes of a packet behind its head, at most: what four digits of the length can say.
const LENGTH_MAX: usize = (1 << 28) - 1;
/// Bytes of an answer, at most: a broker has nothing longer to say to a client that has not subscribed.
const ANSWER_BYTES_MAX: usize = 64;

/// What a broker answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To `connect`: 0, or why not.
    Connected(u8),
    /// It has the message with this identifier.
    Published(u16),
    Other,
}

/// Who connects, and what the broker says of a client whose connection ends.
#[derive(Debug, Default)]
pub struct Client<'a> {
    pub id: &'a str,
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    /// Topic and payload of the last will, which is retained.
    pub will: Option<(&'a str, &'a str)>,
}

/// CONNECT with a clean session, and without a time after which silence ends the connection.
pub fn connect(client: &Client<'_>) -> Vec<u8> {
    let mut flags = 0b10;
    let mut payload = Vec::new();
    text(client.id, &mut payload);
    if let Some((topic, will)) = client.will {
        // Retained, at least once.
        flags |= 0b10_1100;
        text(topic, &mut payload);
        text(will, &mut payload);
    }
    if let Some(user) = client.user {
        flags |= 0b1000_0000;
        text(user, &mut payload);
        if let Some(password) = client.password {
            flags |= 0b0100_0000;
            text(password, &mut payload);
        }
    }
    let mut rest = vec![0, 4, b'M', b'Q', b'T', b'T', 4, flags, 0, 0];
    rest.append(&mut payload);
    let mut packet = head(0x10, rest.len());
    packet.append(&mut rest);
    packet
}

/// PUBLISH, at least once. None if it is longer than any packet can be.
pub fn publish(topic: &str, id: u16, payload: &[u8], retained: bool) -> Option<Vec<u8>> {
    let length = 2 + topic.len() + 2 + payload.len();
    if length > LENGTH_MAX {
        return None;
    }
    let mut packet = head(0x32 | u8::from(retained), length);
    text(topic, &mut packet);
    packet.extend(id.to_be_bytes());
    packet.extend(payload);
    Some(packet)
}

/// Takes the first answer off what arrived. None if it is not there as a whole.
///
/// # Errors
/// This is no answer of MQTT.
pub fn answer(arrived: &mut Vec<u8>) -> Result<Option<Answer>, String> {
    let &[kind, length, ..] = &**arrived else {
        return Ok(None);
    };
    let length = usize::from(length);
    if length > ANSWER_BYTES_MAX {
        return Err("this is no answer of an MQTT broker".to_owned());
    }
    if arrived.len() < 2 + length {
        return Ok(None);
    }
    let packet: Vec<u8> = arrived.drain(..2 + length).collect();
    Ok(Some(match (kind, &packet[2..]) {
        (0x20, [_, code]) => Answer::Connected(*code),
        (0x40, [high, low]) => Answer::Published(u16::from_be_bytes([*high, *low])),
        _ => Answer::Other,
    }))
}

/// The kind of a packet, and the length of what follows.
fn head(kind: u8, mut length: usize) -> Vec<u8> {
    let mut head = vec![kind];
    loop {
        let digit = (length % 128) as u8;
        length /= 128;
        if length == 0 {
            head.push(digit);
            return head;
        }
        head.push(digit | 0x80);
    }
}

/// A text with its length before it; settings and topics are shorter than 64 KiB.
fn text(text: &str, packet: &mut Vec<u8>) {
    packet.extend((text.len() as u16).to_be_bytes());
    packet.extend(text.as_bytes());
}
