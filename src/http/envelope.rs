//! The JSON envelope of every response.
//!
//! **Invariant**: `success` is the first field of every body, and an error body contains the request ID.

use salvo_core::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, Request, Response, Writer, async_trait};
use salvo_oapi::{Components, ComposeSchema, EndpointOutRegister, Operation, ToSchema};
use serde::Serialize;

use super::error::ApiError;
use super::middleware::request_id;
use ::ingest::error::Detail;
use catalog::{FieldError, NamedBy, ResourceKind};
use select::SyntaxError;
use settings::{BodyFault, looks_secret};

/// Maximum locations in an error.
pub(super) const DETAILS_MAX: usize = 20;

/// `{"success": true, "data": …}`
#[derive(Debug, Serialize, ToSchema)]
pub struct Success<T: ToSchema + 'static> {
    success: bool,
    data: T,
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    header: Option<(HeaderName, HeaderValue)>,
}

/// `{"success": true, "data": […], "next": …}`
#[derive(Debug, Serialize, ToSchema)]
pub struct Listing<T: ToSchema + 'static> {
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
    /// The locations of the error, at most 20; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Place>,
}

/// A location in the body, or a missing or conflicting object.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Place {
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
    /// Character of a parameter, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    character: Option<u64>,
    /// Kind of the missing or conflicting object: `stream`, `key` or `read_key`.
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
            Some(_) => ResourceKind::Key,
            None => ResourceKind::ReadKey,
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
    /// A location with the name of a field or of another object.
    pub(super) fn of_name(is_field: bool, name: &str) -> Self {
        match is_field {
            true => Self {
                field: Some(name.to_owned()),
                ..Self::default()
            },
            false => Self {
                name: Some(name.to_owned()),
                ..Self::default()
            },
        }
    }

    /// A location with an invalid field.
    pub(super) fn of_fault(field: &str, fault: &FieldError) -> Self {
        let stream = match fault {
            FieldError::NoStream { name, .. } if !looks_secret(name) => Some(name.clone()),
            _ => None,
        };
        Self {
            field: Some(field.to_owned()),
            kind: stream.as_ref().map(|_| ResourceKind::Stream.as_str()),
            name: stream,
            ..Self::default()
        }
    }
}

impl From<&SyntaxError> for Place {
    fn from(error: &SyntaxError) -> Self {
        Self {
            field: Some(error.setting.clone()),
            character: u64::try_from(error.character).ok(),
            ..Self::default()
        }
    }
}

impl From<&BodyFault> for Place {
    fn from(fault: &BodyFault) -> Self {
        Self {
            field: Some(fault.path_or_field()),
            ..Self::default()
        }
    }
}

/// Parses `limit` of a list.
pub fn limit(req: &mut Request, default: u32, max: u32) -> Result<u32, ApiError> {
    let Some(text) = req.query::<String>("limit") else {
        return Ok(default);
    };
    let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| ApiError::invalid(format!("limit must be a whole number from 1 to {max}")))
}

/// Parses a query parameter that is `true` or `false`.
pub fn flag(req: &mut Request, name: &str, default: bool) -> Result<bool, ApiError> {
    match req.query::<String>(name).as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(ApiError::invalid(format!("{name} must be true or false"))),
    }
}

/// 200 with data.
pub fn ok<T: ToSchema + 'static>(data: T) -> Success<T> {
    Success {
        success: true,
        data,
        status: StatusCode::OK,
        header: None,
    }
}

/// 201 with data. The data may contain a secret, so clients must not cache it.
pub fn created<T: ToSchema + 'static>(data: T) -> Success<T> {
    ok(data)
        .with_status(StatusCode::CREATED)
        .with_header(CACHE_CONTROL, "no-store")
}

/// 202 with data.
pub fn accepted<T: ToSchema + 'static>(data: T) -> Success<T> {
    ok(data).with_status(StatusCode::ACCEPTED)
}

/// 200 with a page of a list.
pub fn list<T: ToSchema + 'static>(data: Vec<T>, next: Option<String>) -> Listing<T> {
    Listing {
        success: true,
        data,
        next,
    }
}

impl<T: ToSchema + 'static> Success<T> {
    /// Replaces the status 200.
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Adds a header.
    pub fn with_header(self, name: HeaderName, value: &str) -> Self {
        let header = HeaderValue::from_str(value).ok().map(|value| (name, value));
        Self { header, ..self }
    }
}

impl<T: Serialize + ToSchema + 'static> Success<T> {
    /// Writes the response.
    pub(super) fn answer(mut self, res: &mut Response) {
        if let Some((name, value)) = self.header.take() {
            res.headers_mut().insert(name, value);
        }
        write_json(res, self.status, to_json(&self));
    }
}

impl<T: Serialize + ToSchema + 'static> Listing<T> {
    /// Writes the response.
    pub(super) fn answer(self, res: &mut Response) {
        write_json(res, StatusCode::OK, to_json(&self));
    }
}

#[async_trait]
impl<T: Serialize + ToSchema + Send + 'static> Writer for Success<T> {
    async fn write(self, _: &mut Request, _: &mut Depot, res: &mut Response) {
        self.answer(res);
    }
}

#[async_trait]
impl<T: Serialize + ToSchema + Send + 'static> Writer for Listing<T> {
    async fn write(self, _: &mut Request, _: &mut Depot, res: &mut Response) {
        self.answer(res);
    }
}

impl<T: ToSchema + 'static> EndpointOutRegister for Success<T> {
    /// Registers nothing: each operation describes its own responses.
    fn register(_: &mut Components, _: &mut Operation) {}
}

impl<T: ToSchema + ComposeSchema + 'static> EndpointOutRegister for Listing<T> {
    fn register(components: &mut Components, operation: &mut Operation) {
        let schema = Self::to_schema(components);
        let page = salvo_oapi::Response::new("A page.").add_content("application/json", schema);
        operation.responses.insert("200", page);
    }
}

/// Builds the JSON of an error.
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

/// Answers with JSON text.
pub fn write_json(res: &mut Response, status: StatusCode, json: Vec<u8>) {
    res.status_code(status);
    res.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    res.replace_body(ResBody::Once(json.into()));
}
