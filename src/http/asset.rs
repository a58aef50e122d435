//! Files that are part of the program, as browsers load them.
//!
//! The pages of renderers and of the admin listener serve theirs with it, each with headers of its own.
//!
//! **Invariant**: a browser asks each time whether it has the newest, so that pages and their files fit together after
//! an update of the daemon; who has it is not sent it again.

use salvo_core::http::header::{CACHE_CONTROL, HeaderValue};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use sha2::{Digest as _, Sha256};

use super::tag;
use base::text::hex;

/// A file of the program.
pub struct Asset {
    /// The media type.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
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

    /// Answers 304 to who has the file; whether that is all.
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
