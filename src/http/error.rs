//! Errors of requests as clients receive them: status, code, message, locations, headers.
//!
//! Handlers of the API return them with `?`; pages render them (`web/frame.rs`).
//!
//! **Invariant**: an error of the core has one status and one code on every route. A response with status 500 never
//! contains the internal error: that is logged with the request ID.

mod operate;
mod plugins;
mod storage;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{
    ACCEPT_ENCODING, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use salvo_core::{Depot, Request, Response, Writer, async_trait};
use salvo_oapi::{Components, EndpointOutRegister, Operation, ToSchema};

use super::envelope::{self, ErrorBody, Place};
use super::middleware::request_id;
use super::sessions::SessionError;
use ::ingest::AgainError;
use ::ingest::error::AcceptError;
use ::live::AtCapacity;
use ::live::tickets::TicketError;
use ::operate::trigger::TriggerError;
use ::operate::{ExpireError, RemoveError};
use catalog::{CatalogError, FieldError, ResourceKind};
use postgres::DatabaseError;
use select::SyntaxError;
use settings::BodyFault;
use sqlite::damage;
use webhook::body::ENCODINGS;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug)]
pub struct ApiError {
    /// The status of the response.
    pub status: StatusCode,
    /// A constant for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Locations in the body; at most 20.
    pub details: Vec<Place>,
    /// Boxed, to keep errors small.
    pub header: Option<Box<(HeaderName, HeaderValue)>>,
    /// The internal error, for the log only. Clients get a fixed sentence instead, because it can name files and
    /// addresses.
    pub cause: Option<Cause>,
}

impl ApiError {
    /// An error without details, header and cause.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            details: Vec::new(),
            header: None,
            cause: None,
        }
    }

    /// A parameter, a header or a small body is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    /// The object does not exist.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// The request conflicts with the current state.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// The request is not possible now; the client can retry it.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self {
            header: header(RETRY_AFTER, HeaderValue::from_static("1")),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
        }
    }

    /// Too many wrong or missing secrets: the client must wait for `seconds`.
    pub fn wait(seconds: u64, message: impl Into<String>) -> Self {
        Self {
            header: header(RETRY_AFTER, seconds.into()),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message)
        }
    }

    /// Nobody knows whether it was done, so nothing asks the client to repeat it. A repeat could do it twice.
    fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
    }

    /// Whether the same call works later, without anybody's help but the disk's or the database's.
    pub fn passes(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE && self.cause.is_none()
    }

    /// The secret of the request is missing or invalid.
    pub(super) fn unauthorized(message: impl Into<String>) -> Self {
        Self {
            header: header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            ..Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
        }
    }

    /// An internal error. If a file is damaged, the status is 503, because the daemon restarts automatically and
    /// repairs the file.
    pub(super) fn internal(cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        let error = match damage::is_behind(&*cause) {
            true => Self {
                header: header(RETRY_AFTER, HeaderValue::from_static("2")),
                ..Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "UNAVAILABLE",
                    "a file of the data directory is damaged and is being repaired; retry in a few seconds",
                )
            },
            false => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "INTERNAL",
                "internal error; for details, search the log for this request ID",
            ),
        };
        Self {
            cause: Some(cause),
            ..error
        }
    }

    fn with_places(self, details: Vec<Place>) -> Self {
        Self { details, ..self }
    }

    /// Adds the names of items or fields; the code determines which.
    pub(super) fn with_names<'a>(self, code: &str, names: impl Iterator<Item = &'a str>) -> Self {
        let places = names.map(|name| Place::of_name(code == "FIELD_NOT_FOUND", name));
        let places = places.take(envelope::DETAILS_MAX).collect();
        self.with_places(places)
    }

    /// Writes the response.
    pub fn answer(self, req: &Request, res: &mut Response) {
        if let Some(error) = &self.cause {
            tracing::error!(request_id = %request_id(req), path = req.uri().path(), %error, "a request failed");
        }
        if let Some(header) = self.header {
            let (name, value) = *header;
            res.headers_mut().insert(name, value);
        }
        let body = envelope::error_body(req, self.code, self.message, self.details);
        envelope::write_json(res, self.status, body);
    }
}

fn header(name: HeaderName, value: HeaderValue) -> Option<Box<(HeaderName, HeaderValue)>> {
    Some(Box::new((name, value)))
}

#[async_trait]
impl Writer for ApiError {
    async fn write(self, req: &mut Request, _: &mut Depot, res: &mut Response) {
        self.answer(req, res);
    }
}

impl EndpointOutRegister for ApiError {
    /// All errors have one form; `openapi::complete` adds it to every response with an error.
    fn register(components: &mut Components, _: &mut Operation) {
        ErrorBody::to_schema(components);
    }
}

impl From<AtCapacity> for ApiError {
    fn from(why: AtCapacity) -> Self {
        let error = Self::busy(why.to_string());
        match why {
            AtCapacity::OfAll(_) => error,
            AtCapacity::OfKey(_) => Self {
                status: StatusCode::TOO_MANY_REQUESTS,
                code: "TOO_MANY_CONNECTIONS",
                header: header(RETRY_AFTER, HeaderValue::from_static("5")),
                ..error
            },
        }
    }
}

impl From<AcceptError> for ApiError {
    fn from(error: AcceptError) -> Self {
        let (status, code) = error.status();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let header = match &error {
            AcceptError::Unauthorized => {
                header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
            }
            AcceptError::UnknownEncoding { .. } => {
                header(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS))
            }
            AcceptError::RateLimited {
                retry_after_seconds: seconds,
            }
            | AcceptError::OverVolume {
                retry_after_seconds: seconds,
                ..
            }
            | AcceptError::StreamFull {
                retry_after_seconds: seconds,
                ..
            }
            | AcceptError::Unavailable {
                retry_after_seconds: seconds,
                ..
            } => header(RETRY_AFTER, HeaderValue::from(*seconds)),
            _ => None,
        };
        let message = error.to_string();
        let details = match error {
            AcceptError::InvalidPayload { details, .. } => {
                details.into_iter().map(Place::from).collect()
            }
            _ => Vec::new(),
        };
        Self {
            header,
            ..Self::new(status, code, message).with_places(details)
        }
    }
}

impl From<SyntaxError> for ApiError {
    fn from(error: SyntaxError) -> Self {
        Self::invalid(error.to_string()).with_places(vec![Place::from(&error)])
    }
}

impl From<Vec<BodyFault>> for ApiError {
    fn from(faults: Vec<BodyFault>) -> Self {
        let messages: Vec<String> = faults.iter().map(BodyFault::to_string).collect();
        let places = faults.iter().filter(|fault| !fault.field.is_empty());
        Self::invalid(messages.join("; ")).with_places(places.map(Place::from).collect())
    }
}

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        let message = error.to_string();
        match error {
            CatalogError::Invalid { field, fault } => Self::invalid(in_json(field, &fault))
                .with_places(vec![Place::of_fault(field, &fault)]),
            CatalogError::NotFound(kind) => {
                let (code, listed_at) = of_kind(kind);
                Self::not_found(code, format!("{message}; {listed_at} lists them"))
            }
            CatalogError::Declared(_) => Self::conflict("DECLARED", message),
            CatalogError::Taken(_) => Self::conflict("NAME_TAKEN", message),
            CatalogError::InUse(keys) => {
                let hint = "delete them first, or use force=true: their requests then get 404";
                Self::conflict("STREAM_IN_USE", format!("{message}; {hint}"))
                    .with_places(keys.into_iter().map(Place::from).collect())
            }
            CatalogError::Revoked => Self::conflict("KEY_REVOKED", message),
            CatalogError::PoolBehind => Self::conflict("POOL_BEHIND", message),
            CatalogError::NoneSent(_) => Self::conflict("NO_SECRET_SENT", message),
            CatalogError::Full { .. } => Self::conflict("TOO_MANY", message),
            CatalogError::DiskFull => unavailable("the disk is full"),
            CatalogError::Busy => unavailable("another process holds catalog.db"),
            CatalogError::Closed => unavailable("the service is stopping"),
            CatalogError::Log(error) if error.passes() => unavailable(DATABASE_AWAY),
            CatalogError::Log(error) if error.is_unknown() => Self::unknown(error.to_string()),
            error
            @ (CatalogError::Randomness(_) | CatalogError::Log(_) | CatalogError::File(_)) => {
                Self::internal(error)
            }
        }
    }
}

pub(super) const DATABASE_AWAY: &str = "the database of the cluster is away";

impl From<TicketError> for ApiError {
    fn from(error: TicketError) -> Self {
        match error {
            TicketError::Random(error) => Self::internal(error),
            TicketError::Database(error) => database_away(&error),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Random(error) => Self::internal(error),
            SessionError::Database(error) => database_away(&error),
        }
    }
}

/// What only the database knows cannot be asked for.
fn database_away(error: &DatabaseError) -> ApiError {
    tracing::debug!(%error, "a request was answered 503");
    unavailable(DATABASE_AWAY)
}

pub(super) fn unavailable(reason: &'static str) -> ApiError {
    let retry_after_seconds = 5;
    ApiError::from(AcceptError::Unavailable {
        reason,
        retry_after_seconds,
    })
}

/// The message for an invalid field of a JSON body, in the terms of the API.
fn in_json(field: &str, fault: &FieldError) -> String {
    let text = fault.with_field(field);
    match (fault, field) {
        (FieldError::Ended, _) => {
            format!("this key has expired; give {field}, the end of the new one, or null for none")
        }
        (FieldError::NoStream { meant: None, .. }, _) => {
            format!("{text}; create it first; /api/admin/streams lists the streams")
        }
        _ => text,
    }
}

/// The code for a missing object of a kind, and the route that lists the objects.
fn of_kind(kind: ResourceKind) -> (&'static str, &'static str) {
    match kind {
        ResourceKind::Stream => ("STREAM_NOT_FOUND", "/api/admin/streams"),
        ResourceKind::Connector => ("CONNECTOR_NOT_FOUND", "/api/admin/connectors"),
        ResourceKind::Key => ("KEY_NOT_FOUND", "/api/admin/connectors/{id}/keys"),
        ResourceKind::ReadKey => ("READ_KEY_NOT_FOUND", "/api/admin/read-keys"),
        ResourceKind::Request => ("REQUEST_NOT_FOUND", "/api/admin/connectors/{id}/requests"),
        ResourceKind::Sink => ("SINK_NOT_FOUND", "/api/admin/sinks"),
        ResourceKind::Plugin => ("PLUGIN_NOT_FOUND", "/api/admin/plugins"),
        ResourceKind::Item => ("ITEM_NOT_FOUND", "/api/streams/{stream}/items"),
        ResourceKind::Node => ("NODE_NOT_FOUND", "/api/admin/cluster"),
        ResourceKind::Backup
        | ResourceKind::Ticket
        | ResourceKind::SignInLink
        | ResourceKind::Session => ("NOT_FOUND", "/api/admin/audit"),
    }
}

impl From<AgainError> for ApiError {
    fn from(error: AgainError) -> Self {
        let message = error.to_string();
        match error {
            AgainError::NotFound => Self::not_found("REQUEST_NOT_FOUND", message),
            AgainError::Refused(refused) => Self::from(refused),
            AgainError::Storage(error) => Self::from(error),
            AgainError::Pool(error) => Self::from(error),
            AgainError::Behind => Self::conflict("POOL_BEHIND", message),
            AgainError::Duplicate(_) => Self::conflict("DUPLICATE", message),
            AgainError::NothingToSend(_) => Self::conflict("NOTHING_TO_SEND", message),
            AgainError::NoConnector(_) => Self::conflict("CONNECTOR_GONE", message),
            AgainError::NoStream(_) => Self::conflict("STREAM_GONE", message),
            AgainError::NotKept(_) => Self::new(StatusCode::GONE, "NOT_KEPT", message),
        }
    }
}

impl From<RemoveError> for ApiError {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::Refused(error) => error.into(),
            RemoveError::Pool(error) => error.into(),
        }
    }
}

impl From<ExpireError> for ApiError {
    fn from(error: ExpireError) -> Self {
        let message = error.to_string();
        match error {
            ExpireError::Refused(error) => error.into(),
            ExpireError::Read(error) => error.into(),
            ExpireError::Pool(error) => error.into(),
            ExpireError::Kept => Self::invalid(message),
            ExpireError::Behind => Self::conflict("POOL_BEHIND", message),
            ExpireError::Asked(error) => error.into(),
        }
    }
}

impl From<TriggerError> for ApiError {
    fn from(error: TriggerError) -> Self {
        match error {
            TriggerError::NoConnector => Self::not_found("CONNECTOR_NOT_FOUND", error.to_string()),
            TriggerError::NoSample { .. } | TriggerError::OtherTool { .. } => {
                Self::invalid(error.to_string())
            }
            TriggerError::NoKey | TriggerError::CannotSign(_) => {
                Self::conflict("CANNOT_SIGN", error.to_string())
            }
            TriggerError::Refused(error) => error.into(),
        }
    }
}

/// Internal errors: a client cannot fix them.
macro_rules! internal {
    ($($error:ty),+) => {
        $(impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Self::internal(error)
            }
        })+
    };
}

internal!(serde_json::Error, getrandom::Error);
