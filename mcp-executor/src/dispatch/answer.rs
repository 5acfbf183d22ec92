use std::sync::Arc;

use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::limits::{MOST_WAITING, WAITING_EACH};
use crate::protocol::{RequestId, RpcError, code, encode_error, encode_result};
use crate::quota::Grant;
use crate::session::Session;

pub(super) type Handled = Result<(), RpcError>;

pub(super) fn answer(session: &Session, id: &RequestId, result: &impl Serialize) -> Handled {
    session.answer(encode_result(id, result));
    Ok(())
}

pub(super) fn later<T: Serialize>(
    session: &Arc<Session>,
    id: RequestId,
    work: impl Future<Output = Result<T, RpcError>> + Send + 'static,
) -> Handled {
    let place = place_to_wait(session)?;
    let session = Arc::clone(session);
    tokio::spawn(async move {
        let _place = place;
        let frame = match work.await {
            Ok(result) => encode_result(&id, &result),
            Err(error) => encode_error(Some(&id), &error),
        };
        session.answer_in_turn(|| frame).await;
    });
    Ok(())
}

pub(super) fn place_to_wait(
    session: &Arc<Session>,
) -> Result<(OwnedSemaphorePermit, Grant), RpcError> {
    let place = Arc::clone(&session.waiting).try_acquire_owned().ok();
    let mut grant = Grant::of(&session.portion);
    let place = place.filter(|_| grant.try_set(WAITING_EACH));
    let place = place.ok_or_else(|| {
        let text = format!("as many requests of this session wait as may, {MOST_WAITING} at most");
        RpcError::new(code::LIMIT, text)
    });
    Ok((place?, grant))
}

pub(super) fn internal(error: mcp_lifecycle_core::launch::StepError) -> RpcError {
    let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    RpcError::new(code::INTERNAL, text)
}
