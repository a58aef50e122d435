//! The JSON around every answer.
//!
//! **Invariant**: `success` is the first field of every body, and an error body names the request.

use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use salvo_oapi::ToSchema;
use serde::Serialize;

use super::outer::request_id;
use crate::error::{AcceptError, Detail};

/// Most places that an error lists.
const DETAILS_MAX: usize = 20;

/// `{"success": true, "data": …}`
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Success<T: ToSchema + 'static> {
    success: bool,
    data: T,
}

/// `{"success": true, "data": […], "next": …}`
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Listing<T: ToSchema + 'static> {
    success: bool,
    data: Vec<T>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

/// `{"success": false, "error": …}`
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    success: bool,
    error: ErrorInfo,
}

/// What went wrong and what to do next.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorInfo {
    /// A constant for programs.
    code: &'static str,
    /// A sentence for people.
    message: String,
    /// The request's id, as in `X-Request-Id`.
    request_id: String,
    /// The places that it speaks of, at most 20; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Place>,
}

/// A place in the body.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Place {
    /// Position of the item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u64>,
    /// Flattened name of the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
}

impl From<&Detail> for Place {
    fn from(detail: &Detail) -> Self {
        Self {
            item: detail.item,
            field: detail.field.clone(),
            line: detail.line,
            column: detail.column,
        }
    }
}

/// `limit` of a list, or the sentence that says what is wrong with it.
pub(super) fn limit(req: &mut Request, default: u32, max: u32) -> Result<u32, String> {
    match req.query::<String>("limit") {
        None => Ok(default),
        Some(text) => match text.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(limit),
            _ => Err(format!("limit must be a whole number from 1 to {max}")),
        },
    }
}

/// Answers 200 with data.
pub(super) fn ok<T: Serialize + ToSchema + 'static>(res: &mut Response, data: T) {
    let body = Success {
        success: true,
        data,
    };
    write(res, StatusCode::OK, &body);
}

/// Answers 200 with a page of a list.
pub(super) fn list<T: Serialize + ToSchema + 'static>(
    res: &mut Response,
    data: Vec<T>,
    next: Option<String>,
) {
    let body = Listing {
        success: true,
        data,
        next,
    };
    write(res, StatusCode::OK, &body);
}

/// Answers 201 with data.
pub(super) fn created<T: Serialize + ToSchema + 'static>(res: &mut Response, data: T) {
    let body = Success {
        success: true,
        data,
    };
    write(res, StatusCode::CREATED, &body);
}

/// Answers 202 with data.
pub(super) fn accepted<T: Serialize + ToSchema + 'static>(res: &mut Response, data: T) {
    let body = Success {
        success: true,
        data,
    };
    write(res, StatusCode::ACCEPTED, &body);
}

/// Answers 400 for a parameter, a header or a small body.
pub(super) fn invalid(req: &Request, res: &mut Response, message: impl Into<String>) {
    fail(
        req,
        res,
        StatusCode::BAD_REQUEST,
        "INVALID_REQUEST",
        message,
    );
}

/// Answers with an error.
pub(super) fn fail(
    req: &Request,
    res: &mut Response,
    status: StatusCode,
    code: &'static str,
    message: impl Into<String>,
) {
    fail_with(req, res, status, code, message.into(), &[]);
}

/// Answers with an error of the request path.
pub(super) fn refuse(req: &Request, res: &mut Response, error: &AcceptError) {
    let (status, code) = error.status();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let details: &[Detail] = match error {
        AcceptError::InvalidPayload { details, .. } => details,
        _ => &[],
    };
    match error {
        AcceptError::Unauthorized => {
            res.headers_mut()
                .insert("www-authenticate", HeaderValue::from_static("Bearer"));
        }
        AcceptError::RateLimited {
            retry_after_seconds,
        }
        | AcceptError::Unavailable {
            retry_after_seconds,
            ..
        } => {
            res.headers_mut()
                .insert("retry-after", HeaderValue::from(*retry_after_seconds));
        }
        _ => {}
    }
    fail_with(req, res, status, code, error.to_string(), details);
}

/// Answers 500 and puts the reason into the log. Damage of a file is answered 503: it is repaired by the next start,
/// which comes by itself.
pub(super) fn internal(
    req: &Request,
    res: &mut Response,
    error: &(dyn std::error::Error + 'static),
) {
    tracing::error!(request_id = %request_id(req), path = req.uri().path(), %error, "a request failed");
    if crate::sqlite::damage::is_behind(error) {
        res.headers_mut()
            .insert("retry-after", HeaderValue::from_static("2"));
        return fail(
            req,
            res,
            StatusCode::SERVICE_UNAVAILABLE,
            "UNAVAILABLE",
            "a file of the data folder is damaged and will be repaired now; try again in a moment",
        );
    }
    fail(
        req,
        res,
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL",
        "something went wrong here; the log has more under this request id",
    );
}

fn fail_with(
    req: &Request,
    res: &mut Response,
    status: StatusCode,
    code: &'static str,
    message: String,
    details: &[Detail],
) {
    let body = ErrorBody {
        success: false,
        error: ErrorInfo {
            code,
            message,
            request_id: request_id(req).to_string(),
            details: details.iter().take(DETAILS_MAX).map(Place::from).collect(),
        },
    };
    write(res, status, &body);
}

fn write(res: &mut Response, status: StatusCode, body: &impl Serialize) {
    let json = serde_json::to_vec(body).unwrap_or_else(|_| b"{\"success\": false}".to_vec());
    write_json(res, status, json);
}

/// Answers with JSON text that is already made.
pub(super) fn write_json(res: &mut Response, status: StatusCode, json: Vec<u8>) {
    res.status_code(status);
    res.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    res.replace_body(ResBody::Once(json.into()));
}
