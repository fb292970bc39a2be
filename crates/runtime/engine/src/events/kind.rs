//! Kinds of events: one word each, what it tells, and the shape of its body.
//!
//! An event can only be made from an [`EventKind`] and a body of its type, and kinds are declared
//! with [`event_kinds!`](crate::event_kinds), which also lists them. So what clients are told about
//! events can't leave one out, nor say anything else than what is written.

use std::{borrow::Cow, marker::PhantomData};

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

/// The engine itself, as a room of events.
pub const ENGINE: &str = "engine";

/// A kind of event whose body is a `B`.
pub struct EventKind<B> {
    /// The room that it happens in, or [`ENGINE`].
    pub room: &'static str,
    /// Its word.
    pub name: &'static str,
    body: PhantomData<fn(B)>,
}

impl<B> EventKind<B> {
    /// A kind. Declare it with [`event_kinds!`](crate::event_kinds), so that it is described.
    pub const fn new(room: &'static str, name: &'static str) -> Self {
        Self { room, name, body: PhantomData }
    }
}

impl<B> Clone for EventKind<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for EventKind<B> {}

/// A kind of event as it is described to those who read events.
#[derive(Debug, Clone, Copy)]
pub struct KindShape {
    /// The room that it happens in, or [`ENGINE`].
    pub room: &'static str,
    /// Its word.
    pub name: &'static str,
    /// What it tells, in a sentence.
    pub about: &'static str,
    /// What the schema of its body is called.
    pub body_name: fn() -> Cow<'static, str>,
    /// The schema of its body.
    pub body: fn() -> RefOr<Schema>,
    /// Adds the schemas that its body refers to.
    pub parts: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl KindShape {
    /// The description of a kind.
    pub const fn new<B: ToSchema>(
        room: &'static str,
        name: &'static str,
        about: &'static str,
    ) -> Self {
        let (body, parts) = (<B as PartialSchema>::schema, <B as ToSchema>::schemas);
        Self { room, name, about, body_name: <B as ToSchema>::name, body, parts }
    }
}

/// Declares the kinds of a room, and `KINDS`, the list of them.
#[macro_export]
macro_rules! event_kinds {
    ($room:expr; $($(#[doc = $about:literal])+ $name:ident: $body:ty = $word:literal;)+) => {
        $(
            $(#[doc = $about])+
            pub const $name: $crate::events::kind::EventKind<$body> =
                $crate::events::kind::EventKind::new($room, $word);
        )+
        /// Every kind that is written here.
        pub const KINDS: &[$crate::events::kind::KindShape] = &[
            $($crate::events::kind::KindShape::new::<$body>($room, $word, concat!($($about),+))),+
        ];
    };
}

event_kinds! {
    ENGINE;
    /// A room has reached the tip.
    CAUGHT_UP: CaughtUpBody = "caught_up";
    /// A room can't go on without a person.
    ROOM_STOPPED: RoomStoppedBody = "room_stopped";
    /// A room goes on again.
    ROOM_RESUMED: RoomBody = "room_resumed";
    /// The source is away.
    SOURCE_LOST: ReasonBody = "source_lost";
    /// The source is back.
    SOURCE_FOUND: EmptyBody = "source_found";
    /// The node took a transaction of ours.
    BROADCAST_ACCEPTED: EmptyBody = "broadcast_accepted";
    /// The node refused a transaction of ours.
    BROADCAST_REJECTED: ReasonBody = "broadcast_rejected";
    /// A job that somebody asked for has ended, or failed.
    JOB_DONE: JobDoneBody = "job_done";
}

/// No details.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmptyBody {}

/// Why.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReasonBody {
    /// The reason, in words for people.
    pub reason: String,
}

/// Which room.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoomBody {
    /// Its name.
    pub room: &'static str,
}

/// A room and its height.
#[derive(Debug, Serialize, ToSchema)]
pub struct CaughtUpBody {
    /// Its name.
    pub room: &'static str,
    /// Height of its tip.
    pub height: Option<u64>,
}

/// A room that stopped, why, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoomStoppedBody {
    /// Its name.
    pub room: &'static str,
    /// Why it stopped.
    pub reason: String,
    /// What a person can do.
    pub remedy: String,
}

/// A job and its outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobDoneBody {
    /// Its name.
    pub job: &'static str,
    /// What it did; absent when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub outcome: Option<String>,
    /// Why it failed; absent when it didn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failed: Option<String>,
}
