//! Files that are embedded in the program, as browsers load them.
//!
//! The pages of screens and of the admin listener serve their files with it, each with its own headers.
//!
//! **Invariant**: a browser revalidates a file at each use, so that pages and their files match after an update of the
//! daemon. A browser that has the current file does not receive it again.

use salvo_core::http::header::{CACHE_CONTROL, HeaderValue};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use sha2::{Digest as _, Sha256};

use super::tag;
use base::text::hex;

/// An embedded file.
pub struct Asset {
    /// The media type.
    pub content_type: &'static str,
    /// The content.
    pub bytes: &'static [u8],
    /// It is made once, because the content never changes while the daemon runs.
    tag: String,
}

impl Asset {
    pub fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        let digest = hex(&Sha256::digest(bytes));
        Self {
            content_type,
            bytes,
            tag: format!("\"{}\"", &digest[..16]),
        }
    }

    /// Sets the entity tag. Answers 304 if the client has the file; returns whether it did.
    pub fn is_known(&self, req: &Request, res: &mut Response) -> bool {
        let headers = res.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        tag::is_known(&self.tag, req, res)
    }

    /// Answers with the file.
    pub fn send(&self, res: &mut Response) {
        res.status_code(StatusCode::OK);
        res.replace_body(ResBody::Once(self.bytes.into()));
    }
}
