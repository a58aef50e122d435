//! Why a request has no answer, in the guest's terms and in the operator's.
//!
//! **Invariant**: no text here holds a header or a body.

use std::fmt::Write as _;

use hyper_util::client::legacy;
use wasmtime_wasi_http::Error;

use super::dial::DialError;

/// Why there is no answer: for the guest, and for the operator.
pub(super) struct Failed {
    pub(super) code: Error,
    /// The address that may not be called.
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

    /// Reads the chain of causes.
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
