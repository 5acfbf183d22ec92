//! Requests of a client that has a session.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::terminate::EndReason;
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::Shared;
use super::budget::Grant;
use super::host::environment_info;
use super::interrupt::interrupt;
use super::limits::{MOST_NAME, MOST_WAITING, WAITING_EACH};
use super::metadata;
use super::process::{Owner as _, Process};
use super::session::{Session, Slot};
use super::start::start;
use super::stdin::Verdict;
use crate::protocol::extension::{AckParams, ListResult, ListedProcess, SurvivorsResult};
use crate::protocol::process::{
    ProcessParams, ReadParams, Signal, SignalParams, TerminateResult, WriteParams, WriteResult,
    WriteStatus,
};
use crate::protocol::{
    MalformedMessage, Params, RequestId, RpcError, code, encode_error, encode_result, method,
};
use crate::wire::wire_remnant;

/// The longest that a read may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Carries out a request of the connection of this generation, whose frame takes
/// so much room; answers now or later, through the session.
pub(super) fn request(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    generation: u64,
    frame: &mut Grant,
    id: RequestId,
    method: &str,
    params: Params<'_>,
) {
    let answer_to = id.clone();
    // Its text, what it is parsed into, and a place to wait: as much as any takes.
    session.make_room(params.text().len() * 2 + WAITING_EACH);
    let outcome = carry_out(shared, session, generation, frame, id, method, params);
    if let Err(error) = outcome {
        // What exists already was started.
        if method == method::START && error.code != code::INVALID_REQUEST {
            let named = params.parse::<ProcessParams>();
            let name = named.map(|it| it.process_id).unwrap_or_default();
            session.audit.not_started(&name, "", &error);
        }
        session.answer(encode_error(Some(&answer_to), &error));
    }
}

fn carry_out(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    generation: u64,
    frame: &mut Grant,
    id: RequestId,
    method: &str,
    params: Params<'_>,
) -> Result<(), RpcError> {
    let extended = session.is_extended();
    match method {
        method::START => start(shared, session, generation, frame, id, params),
        method::WRITE => write(session, frame, id, params.parse()?),
        method::READ => read(session, id, params.parse()?),
        method::SIGNAL => signal(session, id, params.parse()?),
        method::TERMINATE => {
            terminate(session, id, &params.parse::<ProcessParams>()?.process_id);
            Ok(())
        }
        method::ENVIRONMENT_INFO => {
            answer(session, &id, &environment_info());
            Ok(())
        }
        method::ENVIRONMENT_STATUS => {
            answer(session, &id, &json!({"status": "ready"}));
            Ok(())
        }
        method::GET_METADATA => {
            let path = metadata::path(params)?;
            later(session, id, async move {
                let looked = tokio::task::spawn_blocking(move || metadata::look(&path)).await;
                looked.unwrap_or_else(|_| Err(RpcError::new(code::INTERNAL, "it was cut short")))
            });
            Ok(())
        }
        method::PING if extended => {
            answer(session, &id, &json!({}));
            Ok(())
        }
        method::CLOSE_STDIN if extended => {
            let it: ProcessParams = params.parse()?;
            let status = match session.process(&it.process_id) {
                Some(process) if process.is_input_behind() => {
                    let text = "a write before it was refused and is to be repeated first";
                    return Err(RpcError::new(code::LIMIT, text));
                }
                Some(process) => {
                    process.close_stdin();
                    WriteStatus::Accepted
                }
                None => WriteStatus::UnknownProcess,
            };
            answer(session, &id, &WriteResult { status });
            Ok(())
        }
        method::LIST if extended => {
            answer(session, &id, &list(session));
            Ok(())
        }
        method::SURVIVORS if extended => {
            let it: ProcessParams = params.parse()?;
            let process = known(session, &it.process_id)?;
            later(session, id, async move {
                let alive = process.terminator.survivors().await.map_err(internal)?;
                let alive = alive.iter().take(64).map(wire_remnant).collect();
                Ok(SurvivorsResult { alive })
            });
            Ok(())
        }
        method::INITIALIZE => Err(RpcError::new(
            code::INVALID_REQUEST,
            "initialize may only be sent once per connection",
        )),
        other => Err(RpcError::new(
            code::METHOD_NOT_FOUND,
            format!("this executor does not implement `{}`", excerpt(other)),
        )),
    }
}

/// Carries out a notification.
pub(super) fn notification(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    method: &str,
    params: Params<'_>,
) -> Result<(), MalformedMessage> {
    match method {
        method::ACK if session.is_extended() => {
            let it: AckParams = params.parse()?;
            if let Some(process) = session.process(&it.process_id) {
                process.acknowledge(it.seq, it.stdout, it.stderr);
            }
        }
        method::END if session.is_extended() => {
            let (shared, session) = (Arc::clone(shared), Arc::clone(session));
            tokio::spawn(async move {
                let reason = EndReason::Other("client_left".to_owned());
                shared.registry.end(&session, reason).await;
            });
        }
        // Of a newer client, perhaps; nobody waits for an answer.
        _ => {}
    }
    Ok(())
}

fn write(
    session: &Arc<Session>,
    frame: &mut Grant,
    id: RequestId,
    params: WriteParams,
) -> Result<(), RpcError> {
    // What waits for the process counts from here on.
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

fn signal(session: &Arc<Session>, id: RequestId, params: SignalParams) -> Result<(), RpcError> {
    match (session.process(&params.process_id), params.signal) {
        (None, _) => answer(session, &id, &json!({})),
        (Some(process), Signal::Interrupt) => {
            if !process.has_exited() {
                interrupt(&process.terminator.identity())?;
            }
            answer(session, &id, &json!({}));
        }
        (Some(process), Signal::Terminate) => later(session, id, async move {
            let outcome = process.request_end(params.signal_id).await;
            outcome.map(|()| json!({})).map_err(internal)
        }),
    }
    Ok(())
}

fn read(session: &Arc<Session>, id: RequestId, params: ReadParams) -> Result<(), RpcError> {
    /// One answer stays far below any frame limit, whatever was asked for.
    const MOST: usize = 256 << 10;
    let process = known(session, &params.process_id)?;
    let after = params.after_seq.unwrap_or(0);
    // Its bytes are a third more on the wire.
    let most = MOST.min(session.largest_answer / 2);
    let most = params.max_bytes.map_or(most, |max| most.min(max as usize));
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    let now = process.log.lock().read(after, most);
    if wait.is_zero() || !now.chunks.is_empty() || now.closed {
        answer(session, &id, &now);
        return Ok(());
    }
    let Some(place) = place_to_wait(session, &id) else {
        return Ok(());
    };
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

fn terminate(session: &Arc<Session>, id: RequestId, process_id: &str) {
    let process = {
        let mut processes = session.processes.lock();
        match processes.get(process_id) {
            Some(Slot::Running(process)) => Some(Arc::clone(process)),
            Some(Slot::Starting { .. }) => {
                if let Some(Slot::Starting { answer_to, cancel }) = processes.remove(process_id) {
                    cancel.cancel();
                    let text = format!("process {process_id} start was cancelled");
                    let error = RpcError::new(code::INVALID_REQUEST, text);
                    session.answer(encode_error(Some(&answer_to), &error));
                }
                drop(processes);
                answer(session, &id, &TerminateResult { running: true });
                return;
            }
            None => None,
        }
    };
    match process {
        Some(process) => {
            let running = !process.has_exited();
            // Also where no place is left to wait for the outcome.
            process.terminator.kill_now();
            later(session, id, async move {
                process.terminator.force_end().await.map_err(internal)?;
                Ok(TerminateResult { running })
            });
        }
        None => answer(session, &id, &TerminateResult { running: false }),
    }
}

fn list(session: &Session) -> ListResult {
    let processes = session.processes.lock();
    let listed = processes.values().filter_map(|slot| match slot {
        Slot::Running(process) if process.has_ended() => None,
        Slot::Running(process) => Some(ListedProcess {
            process_id: process.id.clone(),
            identity: process.terminator.identity().to_string(),
            program: process.program.clone(),
            age_ms: process.started.elapsed().as_millis() as u64,
            exited: process.has_exited(),
        }),
        Slot::Starting { .. } => None,
    });
    ListResult {
        processes: listed.collect(),
    }
}

/// As much of a client's word as an error repeats.
fn excerpt(word: &str) -> String {
    word.chars().take(MOST_NAME).collect()
}

fn known(session: &Session, process_id: &str) -> Result<Arc<Process>, RpcError> {
    match session.processes.lock().get(process_id) {
        Some(Slot::Running(process)) => Ok(Arc::clone(process)),
        Some(Slot::Starting { .. }) => Err(RpcError::new(
            code::INVALID_REQUEST,
            format!("process id {} is starting", excerpt(process_id)),
        )),
        None => Err(RpcError::new(
            code::INVALID_REQUEST,
            format!("unknown process id {}", excerpt(process_id)),
        )),
    }
}

fn answer(session: &Session, id: &RequestId, result: &impl Serialize) {
    session.answer(answer_for(session, id, result));
}

/// An answer that its client can take.
fn answer_for(session: &Session, id: &RequestId, result: &impl Serialize) -> String {
    let frame = encode_result(id, result);
    let (size, most) = (frame.len(), session.largest_answer);
    if size <= most {
        return frame;
    }
    let text = format!("the answer has {size} bytes, and this client takes {most}");
    encode_error(Some(id), &RpcError::new(code::LIMIT, text))
}

/// Answers when the future is done; the connection does not wait for it.
fn later<T: Serialize>(
    session: &Arc<Session>,
    id: RequestId,
    work: impl Future<Output = Result<T, RpcError>> + Send + 'static,
) {
    let Some(place) = place_to_wait(session, &id) else {
        return;
    };
    let session = Arc::clone(session);
    tokio::spawn(async move {
        let _place = place;
        let frame = match work.await {
            Ok(result) => answer_for(&session, &id, &result),
            Err(error) => encode_error(Some(&id), &error),
        };
        session.answer_in_turn(|| frame).await;
    });
}

/// A place for a request that waits; answers it when there is none.
fn place_to_wait(session: &Arc<Session>, id: &RequestId) -> Option<(OwnedSemaphorePermit, Grant)> {
    let place = Arc::clone(&session.waiting).try_acquire_owned().ok();
    let mut grant = Grant::of(&session.portion);
    let place = place.filter(|_| grant.try_set(WAITING_EACH));
    if place.is_none() {
        let text = format!("as many requests of this session wait as may, {MOST_WAITING} at most");
        let error = RpcError::new(code::LIMIT, text);
        session.answer(encode_error(Some(id), &error));
    }
    place.map(|place| (place, grant))
}

fn internal(error: mcp_lifecycle_core::launch::StepError) -> RpcError {
    let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    RpcError::new(code::INTERNAL, text)
}

impl From<MalformedMessage> for RpcError {
    fn from(error: MalformedMessage) -> Self {
        Self::new(code::INVALID_PARAMS, error.to_string())
    }
}
