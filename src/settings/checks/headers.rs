//! What the headers may look like that requests of a sink get.
//!
//! **Invariant**: a header that is made from the request itself cannot be set. A value is told without a word of it.

const VALUE_BYTES_MAX: usize = 8192;
/// Headers of the connection and of the message's form, which are nobody's to set.
const OWN_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The name of a header that requests of a sink get.
pub(in super::super) fn header_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !is_name {
        return Err("is not the name of a header".to_owned());
    }
    let own = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(text));
    if own {
        return Err("the daemon sets this header for each request; remove it".to_owned());
    }
    Ok(())
}

/// The value of such a header.
pub(in super::super) fn header_value(secret: &str) -> Result<(), String> {
    let fits = secret
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if fits && secret.len() <= VALUE_BYTES_MAX {
        Ok(())
    } else {
        Err(format!(
            "the value of a header must consist of visible ASCII characters and spaces, at most {VALUE_BYTES_MAX}"
        ))
    }
}
