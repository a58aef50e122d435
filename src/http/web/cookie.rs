//! The cookie of a session.
//!
//! **Invariant**: it goes back to this host and port only, no script reads it, and no other site sends it.

use salvo_core::http::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE};
use salvo_core::http::uri::Scheme;
use salvo_core::{Request, Response};

use super::host::host;

/// The name of the session's cookie. Cookies do not tell ports apart, so that it says the port.
fn name(headers: &HeaderMap) -> String {
    match host(headers) {
        Some((_, Some(port))) => format!("headgate_{port}"),
        _ => "headgate".to_owned(),
    }
}

/// The secret that it holds.
pub(super) fn secret(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// Sets it for so long; for no time: takes it back.
pub(super) fn set(req: &Request, res: &mut Response, secret: &str, seconds: u64) {
    let headers = req.headers();
    let name = name(headers);
    let encrypted = *req.scheme() == Scheme::HTTPS
        || (headers.get(ORIGIN)).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if encrypted { "; Secure" } else { "" };
    let cookie =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        res.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use salvo_core::http::header::HOST;

    use super::*;

    #[test]
    fn the_cookie_is_found_among_others_and_for_its_port_only() {
        let cookies = "a=1; headgate=none; headgate_8081=this;headgate_8082=other";
        let of = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(COOKIE, HeaderValue::from_static(cookies));
            secret(&headers).map(str::to_owned)
        };
        assert_eq!(of("127.0.0.1:8081").as_deref(), Some("this"));
        assert_eq!(of("[::1]:8082").as_deref(), Some("other"));
        assert_eq!(of("headgate.example").as_deref(), Some("none"));
        assert_eq!(of("127.0.0.1:8083"), None);
    }
}
