//! The session cookie.
//!
//! **Invariant**: the cookie is sent only to this host, and its name contains the port. Scripts cannot read it, and
//! requests from other sites do not carry it. Names are compared as they came: the framework decodes them, so that
//! `%5F_Host-…`, which browsers do not protect, would be read as `__Host-…`.

use salvo_core::http::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE};
use salvo_core::http::uri::Scheme;
use salvo_core::{Request, Response};

use http::host::host;

/// The name of the session cookie. Cookies are not separated by port, so the name contains it. With the prefix
/// `__Host-`, neither a page without TLS nor a page of another host can set the cookie.
fn name(headers: &HeaderMap, scheme: &Scheme) -> String {
    let prefix = match *scheme == Scheme::HTTPS {
        true => "__Host-",
        false => "",
    };
    match host(headers) {
        Some((_, Some(port))) => format!("{prefix}headgate_{port}"),
        _ => format!("{prefix}headgate"),
    }
}

/// The session secret in the cookie.
pub(super) fn secret(req: &Request) -> Option<&str> {
    let (headers, name) = (req.headers(), name(req.headers(), req.scheme()));
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// Sets the cookie for `seconds`; 0 deletes it.
pub(super) fn set(req: &Request, res: &mut Response, secret: &str, seconds: u64) {
    let headers = req.headers();
    let name = name(headers, req.scheme());
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
        let cookies = "a=1; headgate=none; headgate_8081=this;headgate_8082=other; __Host-headgate_8081=secure; \
                       %5F_Host-headgate_8082=decoded; %5F_Host-headgate_8081=decoded";
        let of = |host: &'static str, scheme: Scheme| {
            let mut req = Request::default();
            *req.scheme_mut() = scheme;
            let headers = req.headers_mut();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(COOKIE, HeaderValue::from_static(cookies));
            secret(&req).map(str::to_owned)
        };
        let plain = |host| of(host, Scheme::HTTP);
        assert_eq!(plain("127.0.0.1:8081").as_deref(), Some("this"));
        assert_eq!(plain("[::1]:8082").as_deref(), Some("other"));
        assert_eq!(plain("headgate.example").as_deref(), Some("none"));
        assert_eq!(plain("127.0.0.1:8083"), None);
        let encrypted = |host| of(host, Scheme::HTTPS);
        assert_eq!(encrypted("127.0.0.1:8081").as_deref(), Some("secure"));
        assert_eq!(encrypted("127.0.0.1:8082"), None);
    }
}
