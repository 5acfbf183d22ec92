use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::excerpt;
use crate::limits::{MOST_NAME, MOST_WAITING, WAITING_EACH};
use crate::protocol::process::{
    ReadParams, SignalParams, TerminateResult, WriteParams, WriteStatus,
};
use crate::protocol::{RequestId, RpcError, code, encode_error, encode_result};
use crate::quota::Grant;
use crate::session::{Process, Session, Slot};
use crate::stdin::Verdict;

const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub(super) fn write(
    session: &Arc<Session>,
    frame: &mut Grant,
    id: RequestId,
    params: WriteParams,
) -> Handled {
    // From here on, queued input counts instead of the frame.
    frame.shrink(params.chunk.0.len());
    if params
        .write_id
        .as_ref()
        .is_some_and(|id| id.len() > MOST_NAME)
    {
        let text = format!("writeId must not exceed {MOST_NAME} bytes");
        return Err(RpcError::new(code::INVALID_PARAMS, text));
    }
    let status = match session.processes.lock().get(&params.process_id) {
        Some(Slot::Running(process)) => match process.write(id.clone(), params) {
            Verdict::Answer(status) => status,
            Verdict::Later => return Ok(()),
            Verdict::Full => {
                let text = "too much input waits for this process already";
                return Err(RpcError::new(code::LIMIT, text));
            }
        },
        Some(Slot::Starting { .. }) => WriteStatus::Starting,
        None => WriteStatus::UnknownProcess,
    };
    session.answer_write(&id, status);
    Ok(())
}

pub(super) fn signal(session: &Arc<Session>, id: RequestId, params: SignalParams) -> Handled {
    if params.signal != "terminate" {
        let text = "this executor sends `terminate` only";
        return Err(RpcError::new(code::INVALID_PARAMS, text));
    }
    match session.process(&params.process_id) {
        None => answer(session, &id, &json!({})),
        Some(process) => later(session, id, async move {
            let outcome = process.request_end(params.signal_id).await;
            outcome.map(|()| json!({})).map_err(internal)
        }),
    }
}

pub(super) fn read(session: &Arc<Session>, id: RequestId, params: ReadParams) -> Handled {
    const MOST: usize = 256 << 10;
    let process = known(session, &params.process_id)?;
    let after = params.after_seq.unwrap_or(0);
    let most = params.max_bytes.map_or(MOST, |max| MOST.min(max as usize));
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    let now = process.log.lock().read(after, most);
    if wait.is_zero() || !now.chunks.is_empty() || now.closed {
        return answer(session, &id, &now);
    }
    let place = place_to_wait(session)?;
    let session = Arc::clone(session);
    tokio::spawn(async move {
        let _place = place;
        let until = tokio::time::Instant::now() + wait;
        loop {
            let mut changed = std::pin::pin!(process.changed.notified());
            changed.as_mut().enable();
            let news = process.log.lock().has_news(after, now.exited);
            if news || tokio::time::timeout_at(until, changed).await.is_err() {
                break;
            }
        }
        let make = || encode_result(&id, &process.log.lock().read(after, most));
        session.answer_in_turn(make).await;
    });
    Ok(())
}

pub(super) fn terminate(session: &Arc<Session>, id: RequestId, process_id: &str) -> Handled {
    let mut processes = session.processes.lock();
    let process = match processes.get(process_id) {
        Some(Slot::Running(process)) => Arc::clone(process),
        Some(Slot::Starting { answer_to, cancel }) => {
            cancel.cancel();
            let text = format!("process {process_id} start was cancelled");
            let error = RpcError::new(code::INVALID_REQUEST, text);
            session.answer(encode_error(Some(answer_to), &error));
            processes.remove(process_id);
            drop(processes);
            return answer(session, &id, &TerminateResult { running: true });
        }
        None => return answer(session, &id, &TerminateResult { running: false }),
    };
    drop(processes);
    let running = !process.has_exited();
    // Works even if no place is left to wait for the outcome.
    process.terminator.kill_now();
    later(session, id, async move {
        process.terminator.force_end().await.map_err(internal)?;
        Ok(TerminateResult { running })
    })
}

pub(super) fn known(session: &Session, process_id: &str) -> Result<Arc<Process>, RpcError> {
    let text = match session.processes.lock().get(process_id) {
        Some(Slot::Running(process)) => return Ok(Arc::clone(process)),
        Some(Slot::Starting { .. }) => format!("process id {} is starting", excerpt(process_id)),
        None => format!("unknown process id {}", excerpt(process_id)),
    };
    Err(RpcError::new(code::INVALID_REQUEST, text))
}

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

fn place_to_wait(session: &Arc<Session>) -> Result<(OwnedSemaphorePermit, Grant), RpcError> {
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
