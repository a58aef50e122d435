//! The JSON around every answer.
//!
//! **Invariant**: `success` is the first field of every body, and an error body names the request.

use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Request, Response};
use salvo_oapi::ToSchema;
use serde::Serialize;

use super::error::ApiError;
use super::middleware::request_id;
use crate::catalog::{Fault, Kind, NamedBy, looks_secret};
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

/// A place in the body, or something that there is or is not.
#[derive(Debug, Default, Serialize, ToSchema)]
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
    /// What is missing, or in the way: `stream`, `key` or `read_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The connector of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    connector: Option<String>,
}

impl From<Detail> for Place {
    fn from(detail: Detail) -> Self {
        Self {
            item: detail.item,
            field: detail.field,
            line: detail.line,
            column: detail.column,
            ..Self::default()
        }
    }
}

impl From<NamedBy> for Place {
    fn from(key: NamedBy) -> Self {
        let kind = match key.connector {
            Some(_) => Kind::Key,
            None => Kind::ReadKey,
        };
        Self {
            kind: Some(kind.as_str()),
            name: Some(key.key),
            connector: key.connector,
            ..Self::default()
        }
    }
}

impl Place {
    /// A field that cannot be used.
    pub(super) fn of_fault(field: &str, fault: &Fault) -> Self {
        let stream = match fault {
            Fault::NoStream { name, .. } if !looks_secret(name) => Some(name.clone()),
            _ => None,
        };
        Self {
            field: Some(field.to_owned()),
            kind: stream.as_ref().map(|_| Kind::Stream.as_str()),
            name: stream,
            ..Self::default()
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
    ApiError::invalid(message).answer(req, res);
}

/// Answers with an error.
pub(super) fn fail(
    req: &Request,
    res: &mut Response,
    status: StatusCode,
    code: &'static str,
    message: impl Into<String>,
) {
    ApiError::new(status, code, message).answer(req, res);
}

/// Answers with an error of the request path.
pub(super) fn refuse(req: &Request, res: &mut Response, error: AcceptError) {
    ApiError::from(error).answer(req, res);
}

/// Answers 500 and puts the reason into the log.
pub(super) fn internal(
    req: &Request,
    res: &mut Response,
    error: impl std::error::Error + Send + Sync + 'static,
) {
    ApiError::internal(error).answer(req, res);
}

/// The JSON of an error.
pub(super) fn error_body(
    req: &Request,
    code: &'static str,
    message: String,
    mut details: Vec<Place>,
) -> Vec<u8> {
    details.truncate(DETAILS_MAX);
    to_json(&ErrorBody {
        success: false,
        error: ErrorInfo {
            code,
            message,
            request_id: request_id(req).to_string(),
            details,
        },
    })
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_else(|_| b"{\"success\": false}".to_vec())
}

fn write(res: &mut Response, status: StatusCode, body: &impl Serialize) {
    write_json(res, status, to_json(body));
}

/// Answers with JSON text that is already made.
pub(super) fn write_json(res: &mut Response, status: StatusCode, json: Vec<u8>) {
    res.status_code(status);
    res.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    res.replace_body(ResBody::Once(json.into()));
}
