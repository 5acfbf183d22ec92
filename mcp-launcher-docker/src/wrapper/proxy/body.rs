//! The body of a create, read whole within a budget.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::Shared;

/// The longest body.
const LONGEST: usize = 16 * 1024 * 1024;

/// The length from which a body takes a share of the budget: no CLI sends as much.
const SHORT: usize = 256 * 1024;

/// The budget for the long bodies of all proxies together, in KiB.
static BUDGET: Semaphore = Semaphore::const_new(64 * 1024);

/// The only place for a long body of a server, and a part of the budget.
type Share = (OwnedSemaphorePermit, SemaphorePermit<'static>);

/// A body is not to be had.
#[derive(Debug)]
pub(super) enum Unread {
    TooLong,
    /// It does not come to an end.
    Cut,
}

/// A body, and its share of the budget if it is long.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: BytesMut,
    share: Option<Share>,
}

impl Whole {
    /// Returns whether it is too long to be worked on between other things.
    pub(super) fn is_long(&self) -> bool {
        self.share.is_some()
    }

    /// The rewritten body, which has its share for as long as it is there.
    pub(super) fn replaced_by(self, bytes: Vec<u8>) -> Bytes {
        struct Owned {
            bytes: Vec<u8>,
            #[expect(dead_code, reason = "kept for its drop")]
            share: Option<Share>,
        }

        impl AsRef<[u8]> for Owned {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }

        let share = self.share;
        Bytes::from_owner(Owned { bytes, share })
    }
}

/// Reads a body. A long one waits for its turn, among those of its server and in the
/// budget of all.
pub(super) async fn read(shared: &Shared, body: Incoming) -> Result<Whole, Unread> {
    let longest = body
        .size_hint()
        .upper()
        .and_then(|n| usize::try_from(n).ok());
    if longest.is_some_and(|length| length > LONGEST) {
        return Err(Unread::TooLong);
    }
    let mut body = Limited::new(body, LONGEST);
    let mut bytes = BytesMut::new();
    let mut share = None;
    loop {
        if share.is_none() && longest.unwrap_or(0).max(bytes.len()) > SHORT {
            share = take_share(shared, longest.unwrap_or(LONGEST)).await;
        }
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(error)) if error.is::<LengthLimitError>() => return Err(Unread::TooLong),
            Some(Err(_)) => return Err(Unread::Cut),
        }
    }
    Ok(Whole { bytes, share })
}

async fn take_share(shared: &Shared, length: usize) -> Option<Share> {
    let length = u32::try_from(length.div_ceil(1024)).unwrap_or(u32::MAX);
    // Neither is ever closed.
    let place = Arc::clone(&shared.long).acquire_owned().await.ok()?;
    Some((place, BUDGET.acquire_many(length).await.ok()?))
}
