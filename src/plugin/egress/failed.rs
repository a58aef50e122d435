//! Why a request has no response, for the guest and for the operator.
//!
//! **Invariant**: no text here contains a header or a body.

use std::fmt::Write as _;

use hyper_util::client::legacy;
use wasmtime_wasi_http::Error;

use super::dial::DialError;

/// Why there is no response: for the guest, and for the operator.
pub(super) struct Failed {
    pub(super) code: Error,
    /// The address that is not allowed. The log names it, so that the operator can list its network; the guest does not
    /// get it.
    pub(super) prohibited: Option<std::net::IpAddr>,
    pub(super) words: String,
}

impl Failed {
    pub(super) fn new(code: Error) -> Self {
        Self {
            words: code.to_string(),
            code,
            prohibited: None,
        }
    }

    /// Reads the chain of causes. The client wraps errors of connecting, so that only the chain shows which setting is
    /// missing.
    pub(super) fn of(error: &legacy::Error) -> Self {
        let mut prohibited = None;
        let mut code = None;
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let _ = write!(words, ": {error}");
            if let Some(dialled) = error.downcast_ref::<DialError>() {
                if let DialError::Prohibited(address) = dialled {
                    prohibited = Some(*address);
                }
                code = Some(dialled.code());
            } else if let Some(Error::HttpRequestBodySize(size)) = error.downcast_ref() {
                code = Some(Error::HttpRequestBodySize(*size));
            } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
                code = Some(of_hyper(error));
            }
            cause = error.source();
        }
        let code = code.unwrap_or_else(|| {
            // Dialling has errors of its own: what else fails before there is a connection is TLS.
            if error.is_connect() && words.contains("certificate") {
                Error::TlsCertificateError
            } else if error.is_connect() {
                Error::TlsProtocolError
            } else {
                Error::ConnectionTerminated
            }
        });
        Self {
            code,
            prohibited,
            words,
        }
    }
}

pub(super) fn of_hyper(error: &hyper::Error) -> Error {
    if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if error.is_parse() {
        Error::HttpProtocolError
    } else if error.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else {
        Error::ConnectionTerminated
    }
}

/// Describes for a guest why a host did not respond.
pub(crate) fn in_words(host: &str, code: &Error) -> String {
    let words = match code {
        Error::HttpRequestDenied => {
            return "not allowed: the settings do not allow this request".to_owned();
        }
        Error::DestinationIpProhibited => {
            return "not allowed: the host is not at a public address".to_owned();
        }
        Error::HttpRequestUriInvalid => "cannot be called by this URL",
        Error::HttpRequestMethodInvalid => "cannot be called with this method",
        Error::ConnectionRefused => "refuses connections",
        Error::ConnectionTimeout => "cannot be connected to in time",
        Error::ConnectionReadTimeout
        | Error::ConnectionWriteTimeout
        | Error::HttpResponseTimeout => "did not answer in time",
        Error::ConnectionTerminated | Error::HttpResponseIncomplete => {
            "closed the connection before its answer was complete"
        }
        Error::DnsError { .. } => "is a name that cannot be resolved",
        Error::DestinationUnavailable => "cannot be reached",
        Error::TlsCertificateError => "has a certificate that is not trusted",
        Error::TlsProtocolError => "does not speak TLS here",
        Error::HttpProtocolError => "does not answer in HTTP",
        Error::HttpRequestBodySize(_) => "was sent a body that is larger than the settings allow",
        Error::HttpResponseBodySize(_) | Error::HttpResponseHeaderSectionSize(_) => {
            "answers with more than the settings allow"
        }
        other => return format!("no answer: {host} cannot be called: {other}"),
    };
    format!("no answer: {host} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gave_no_answer_is_named_in_words() {
        for (code, words) in [
            (
                Error::ConnectionRefused,
                "no answer: 127.0.0.1:9 refuses connections",
            ),
            (
                Error::LoopDetected,
                "no answer: 127.0.0.1:9 cannot be called: request loop detected",
            ),
            (
                Error::HttpRequestDenied,
                "not allowed: the settings do not allow this request",
            ),
        ] {
            assert_eq!(in_words("127.0.0.1:9", &code), words);
        }
    }
}
