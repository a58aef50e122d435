//! The common part of forms that filter a list of entries, newest first.
//!
//! **Invariant**: an invalid filter is rejected with a message, and never ignored.

use std::str::FromStr;

use salvo_core::Request;
use salvo_core::http::StatusCode;

use super::parse_time;
use crate::frame::NoPage;

/// The error of an invalid filter.
pub(crate) fn refusal(why: &str) -> NoPage {
    NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned())
}

/// The entry before which the page begins; `None`: the newest page.
pub(crate) fn before<T: FromStr>(req: &Request) -> Result<Option<T>, NoPage> {
    let number = req.query::<String>("before").unwrap_or_default();
    if number.is_empty() {
        return Ok(None);
    }
    let before = number.parse().map(Some);
    before.map_err(|_| refusal("This link is not valid. Open it again from the previous page."))
}

/// Checks that each text is a time of a form, or empty.
pub(crate) fn check_times(times: [&str; 2]) -> Result<(), NoPage> {
    let is_good = |time: &str| time.is_empty() || parse_time(time).is_some();
    match times.into_iter().all(is_good) {
        true => Ok(()),
        false => Err(refusal("Enter a time such as 2026-01-31T12:00, in UTC.")),
    }
}
