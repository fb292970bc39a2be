//! Errors as clients read them. What the database said stays in the log.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::rejection::{BytesRejection, PathRejection, QueryRejection},
    http::{
        HeaderValue, StatusCode,
        header::{RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use unspent_engine::clock::Time;
use unspent_model::{Kind, RefusalKind, ServedError};
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, response},
};

use crate::{error::CliError, request::BadRequest};

/// Seconds after which a busy server may be asked again.
const TRY_AGAIN: u64 = 1;

/// Why a request was not met.
#[derive(Debug, Clone)]
pub struct ApiError {
    /// Of the HTTP response.
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    retry_after: Option<u64>,
    after_change: bool,
}

/// An error as it is sent.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody {
    error: ErrorDetail,
}

/// What went wrong, for programs (`code`) and people.
#[derive(Serialize, ToSchema)]
pub struct ErrorDetail {
    code: String,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl ApiError {
    /// What went wrong, for the log.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// An error with a code of its own.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            code,
            message,
            detail: None,
            hint: None,
            retry_after: None,
            after_change: false,
        }
    }

    /// It can't be read.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The state of things forbids it.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", message)
    }

    /// Understood, but it can't be met.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// The room is switched off.
    pub fn room_off(room: &str) -> Self {
        let message = format!("the {room} room is switched off or not open");
        Self::new(StatusCode::NOT_FOUND, "room_off", message)
    }

    /// The room doesn't keep what was asked for.
    pub fn index_off(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "index_off", message)
    }

    /// Others are at work.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).after(TRY_AGAIN)
    }

    /// Something that is needed can't be reached or written; nothing was changed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).after(TRY_AGAIN)
    }

    /// A fault of ours. What happened goes to the log alone.
    pub fn bug(what: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %what, "a request failed because of a bug");
        let message = "a bug in the program; see the log for details";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", message)
    }

    /// What to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Seconds after which to ask again.
    pub fn after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// More for programs.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same of a request that had changed something before: not all of it was refused.
    pub fn after_change(self) -> Self {
        Self { after_change: true, ..self }
    }

    /// Whether the request may have changed something all the same.
    pub fn is_after_change(&self) -> bool {
        self.after_change
    }

    /// Whether the same request may fare better later.
    pub fn is_passing(&self) -> bool {
        self.status.is_server_error() || self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// A path that can't be read.
    pub(super) fn path(rejection: &PathRejection) -> Self {
        Self::malformed(rejection.body_text())
    }

    /// Parameters that can't be read.
    pub(super) fn query(rejection: &QueryRejection) -> Self {
        Self::malformed(rejection.body_text())
    }

    /// A body that can't be taken in.
    pub(super) fn bytes(rejection: &BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let message = "the body is larger than allowed";
            return Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message);
        }
        Self::malformed("the body can't be read")
    }

    /// The JSON that is sent.
    pub fn body(&self) -> ErrorBody {
        let error = ErrorDetail {
            code: self.code.to_owned(),
            message: self.message.clone(),
            detail: self.detail.clone(),
            hint: self.hint.clone(),
        };
        ErrorBody { error }
    }

    /// What a kind of error means to a client.
    fn of_kind(kind: Kind, error: &dyn std::fmt::Display) -> Self {
        match kind {
            Kind::Refused => Self::invalid(error.to_string()),
            Kind::Busy => Self::busy("the database is busy; nothing was changed"),
            Kind::Unavailable => {
                tracing::warn!(%error, "a request found the database unreachable");
                let message = "the database can't be reached; nothing was changed";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "unavailable", message).after(TRY_AGAIN)
            }
            Kind::Corrupt => {
                tracing::error!(%error, "a request found damaged data");
                let message = "stored data is damaged; see the log for details";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "corrupt", message)
            }
            Kind::Bug => Self::bug(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer realm=\"unspent\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, how);
        }
        response
    }
}

/// Errors of the rooms, the log and the networks alike: each says itself what it means.
impl<E: ServedError> From<E> for ApiError {
    fn from(error: E) -> Self {
        let text = || error.to_string();
        match error.refusal() {
            Some(RefusalKind::Malformed) => Self::malformed(text()),
            Some(RefusalKind::Missing) => Self::not_found(text()),
            Some(RefusalKind::SwitchedOff) => Self::index_off(text()),
            Some(RefusalKind::Invalid) => Self::invalid(text()),
            Some(RefusalKind::Conflict) => {
                let end = error.ends_at().map(|end| format!("expires_at={}", Time(end.get())));
                Self { detail: end, ..Self::refused(text()) }
            }
            Some(RefusalKind::Busy) => Self::busy(text()),
            // A full disk is the reason given, whatever the database made of it.
            None if error.is_disk() => {
                tracing::warn!(%error, "a request found the disk full");
                Self::unavailable("the disk is full or can't be written; nothing was changed").hint(
                    "free some space on the data folder's disk; the daemon then continues by \
                     itself",
                )
            }
            None => Self::of_kind(error.kind(), &error),
        }
    }
}

impl From<&CliError> for ApiError {
    fn from(error: &CliError) -> Self {
        if error.is_usage() {
            return Self::invalid(error.to_string());
        }
        Self::refused(error.to_string())
    }
}

impl From<BadRequest> for ApiError {
    fn from(error: BadRequest) -> Self {
        match error {
            BadRequest::Malformed(message) => Self::malformed(message),
            BadRequest::Invalid(message) | BadRequest::Unreadable(message) => {
                Self::invalid(message)
            }
        }
    }
}

/// Every way in which a route may fail, for the description of the interface.
const FAILURES: [(&str, &str); 14] = [
    ("400", "A parameter, header or body can't be read (`malformed`)"),
    ("401", "No credentials, or wrong ones (`unauthorized`)"),
    ("403", "The scope isn't enough, or the request comes from another site (`forbidden`)"),
    ("404", "Not found (`not_found`), or the room or an index is off (`room_off`, `index_off`)"),
    ("405", "The route doesn't support that method (`method`)"),
    ("408", "It took too long (`timeout`)"),
    ("409", "The current state forbids it (`refused`, `in_progress`)"),
    ("413", "The body is too large (`too_large`)"),
    ("415", "The body has an unsupported media type (`media_type`)"),
    ("422", "Understood, but can't be done (`invalid`, `key_reused`)"),
    ("429", "Too many wrong credentials (`too_many`), or idempotency keys (`too_many_keys`)"),
    ("500", "An error of the server (`corrupt`, `bug`)"),
    ("502", "A mint or another counterpart gave no answer (`no_answer`)"),
    ("503", "Try again later (`busy`, `unavailable`)"),
];

/// What a connection answers before any route is reached; without a body.
const HEAD_FAILURES: [(&str, &str); 2] =
    [("414", "The address is too long"), ("431", "The head of the request is larger than 8 KiB")];

/// The answers that every route may give besides its own.
pub struct Failures;

impl IntoResponses for Failures {
    fn responses() -> BTreeMap<String, RefOr<response::Response>> {
        let made = FAILURES.iter().map(|(status, text)| {
            let schema = Ref::from_schema_name("ErrorBody");
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let response = ResponseBuilder::new().description(*text);
            let response = response.content("application/json", content).build();
            ((*status).to_owned(), RefOr::T(response))
        });
        let bare = HEAD_FAILURES.iter().map(|(status, text)| {
            let response = ResponseBuilder::new().description(*text).build();
            ((*status).to_owned(), RefOr::T(response))
        });
        made.chain(bare).collect()
    }
}
