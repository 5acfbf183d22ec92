//! `process/start`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use mcp_lifecycle_core::launch::{
    InheritEnv, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ServerSpec,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::doubts::until_gone;
use super::limits::{MOST_NAME, MOST_START};
use super::pump::pump;
use super::quota::Grant;
use super::session::{Process, Session, Slot};
use super::{Shared, environment, restrictions};
use crate::protocol::process::{ProcessParams, StartParams, StartResult, Stream};
use crate::protocol::{
    Params, RequestId, RpcError, code, encode_error, encode_result, path_from_wire,
};

/// Starts a process; the answer follows when it runs or has failed.
///
/// A repetition is recognized before limits are checked: the first start may have used up what is
/// left, and the client would take a refusal for its failure.
pub(super) fn start(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    generation: u64,
    frame: &mut Grant,
    id: RequestId,
    params: Params<'_>,
) -> Result<(), RpcError> {
    let size = params.text().len();
    if size > MOST_START {
        let most = format!("{MOST_START} are the most that a system can take");
        return Err(no_room(size, &most));
    }
    let named: ProcessParams = params.parse()?;
    if is_repetition(
        session,
        &mut session.processes.lock(),
        &id,
        &named.process_id,
    )? {
        return Ok(());
    }
    let mut grant = Grant::of(&session.portion);
    // Its text and its parsed form.
    frame.shrink(size);
    if !grant.try_set(size * 2) {
        let why = "this client has taken all the memory that it may";
        return Err(no_room(size, why));
    }
    restrictions::check(params)?;
    let params: StartParams = params.parse()?;
    check(&params)?;
    let place = place(session)?;
    let cancel = CancellationToken::new();
    {
        let mut processes = session.processes.lock();
        // A start that its client gave up over another connection must not begin now.
        if !session.is_attached_as(generation)
            || is_repetition(session, &mut processes, &id, &params.process_id)?
        {
            return Ok(());
        }
        let live = |slot: &&Slot| !matches!(slot, Slot::Running(process) if process.has_ended());
        let limit = session.limits.max_processes;
        // Ended processes are kept until the client has their output.
        if processes.values().filter(live).count() >= limit || processes.len() >= 2 * limit {
            let text = format!("this session has {limit} processes already");
            return Err(RpcError::new(code::LIMIT, text));
        }
        if session.is_closing() {
            return Err(RpcError::new(code::INVALID_REQUEST, "the session is over"));
        }
        let slot = Slot::Starting {
            answer_to: id,
            cancel: cancel.clone(),
        };
        processes.insert(params.process_id.clone(), slot);
    }
    let launch = launch(
        Arc::clone(shared),
        Arc::clone(session),
        params,
        cancel,
        place,
    );
    session.launching.spawn(async move {
        let _grant = grant;
        launch.await;
    });
    Ok(())
}

fn is_repetition(
    session: &Session,
    processes: &mut HashMap<String, Slot>,
    id: &RequestId,
    process_id: &str,
) -> Result<bool, RpcError> {
    match processes.get_mut(process_id) {
        Some(Slot::Starting { answer_to, .. }) if session.is_extended() => {
            *answer_to = id.clone();
            Ok(true)
        }
        Some(_) => {
            let text = format!("process {process_id} already exists");
            Err(RpcError::new(code::INVALID_REQUEST, text))
        }
        None => Ok(false),
    }
}

fn place(session: &Session) -> Result<OwnedSemaphorePermit, RpcError> {
    let account = &session.portion.account;
    Arc::clone(&account.places)
        .try_acquire_owned()
        .map_err(|_| {
            let most = account.processes;
            let text = format!("this executor has {most} processes of this token or user");
            RpcError::new(code::LIMIT, text)
        })
}

fn no_room(size: usize, why: &str) -> RpcError {
    RpcError::new(code::LIMIT, format!("a start of {size} bytes: {why}"))
}

async fn launch(
    shared: Arc<Shared>,
    session: Arc<Session>,
    params: StartParams,
    cancel: CancellationToken,
    place: OwnedSemaphorePermit,
) {
    let begun = Instant::now();
    let process_id = params.process_id.clone();
    let program = params.argv.first().cloned().unwrap_or_default();
    let work = async {
        let _turn = session.launches.acquire().await;
        let spec = spec(&params)?;
        let launched = shared.launcher.launch(&spec, &LaunchContext::new()).await;
        Ok((params, launched.map_err(|error| refusal(&error))?))
    };
    let launched = tokio::select! {
        launched = work => launched,
        // A dropped launch leaves nothing.
        () = cancel.cancelled() => return,
    };
    let (params, launched) = match launched {
        Ok(launched) => launched,
        Err(error) => {
            session.audit.not_started(&process_id, &program, &error);
            let slot = {
                let mut processes = session.processes.lock();
                // After a cancellation, the entry may belong to another process.
                let is_ours = !cancel.is_cancelled();
                is_ours.then(|| processes.remove(&process_id)).flatten()
            };
            if let Some(Slot::Starting { answer_to, .. }) = slot {
                session.answer(encode_error(Some(&answer_to), &error));
            }
            return;
        }
    };
    let settled = settle(&session, params, launched, &cancel, place);
    match settled {
        Ok(answer_to) => {
            tracing::debug!(process = process_id, took = ?begun.elapsed(), "started");
            let result = StartResult {
                process_id,
                sandbox_type: Some("none".to_owned()),
            };
            session.answer(encode_result(&answer_to, &result));
        }
        Err(unwanted) => {
            let (launched, place) = *unwanted;
            undo(&session, &process_id, launched, place).await;
        }
    }
}

fn settle(
    session: &Arc<Session>,
    params: StartParams,
    launched: LaunchedServer,
    cancel: &CancellationToken,
    place: OwnedSemaphorePermit,
) -> Result<RequestId, Box<(LaunchedServer, OwnedSemaphorePermit)>> {
    let mut processes = session.processes.lock();
    let answer_to = match processes.get(&params.process_id) {
        Some(Slot::Starting { answer_to, .. }) if !cancel.is_cancelled() => answer_to.clone(),
        _ => return Err(Box::new((launched, place))),
    };
    let (process, stdout, stderr) = Process::adopt(&params, launched, session, place);
    tokio::spawn(pump(Arc::clone(&process), stdout, Stream::Stdout));
    if let Some(stderr) = stderr {
        tokio::spawn(pump(Arc::clone(&process), stderr, Stream::Stderr));
    }
    processes.insert(params.process_id, Slot::Running(process));
    Ok(answer_to)
}

async fn undo(
    session: &Session,
    name: &str,
    launched: LaunchedServer,
    place: OwnedSemaphorePermit,
) {
    let parts = launched.into_parts();
    let terminator = Arc::clone(&parts.terminator);
    let (handle, _stdin) = ServerHandle::new(name, parts.stdin, parts.terminator);
    let policy = TerminationPolicy::immediate();
    let Err(error) = handle.terminate(&policy, EndReason::StartFailed).await else {
        return;
    };
    tracing::warn!(%error, "a start that was given up is not proven gone");
    let proven = Arc::default();
    session.doubts.add(&session.id, &proven);
    let doubts = Arc::clone(&session.doubts);
    tokio::spawn(until_gone(terminator, doubts, proven, place));
}

fn check(params: &StartParams) -> Result<(), RpcError> {
    let invalid = |text: String| Err(RpcError::new(code::INVALID_PARAMS, text));
    let Some(program) = params.argv.first() else {
        return invalid("argv must not be empty".to_owned());
    };
    if params.process_id.is_empty() {
        return invalid("processId must not be empty".to_owned());
    }
    if params.process_id.len() > MOST_NAME {
        return invalid(format!("processId must not exceed {MOST_NAME} bytes"));
    }
    if params.tty {
        return invalid("this executor has no terminals".to_owned());
    }
    if params.arg0.as_ref().is_some_and(|arg0| arg0 != program) {
        return invalid("this executor does not support arg0".to_owned());
    }
    environment::check(params).or_else(invalid)
}

fn spec(params: &StartParams) -> Result<ServerSpec, RpcError> {
    let invalid = |text: String| RpcError::new(code::INVALID_PARAMS, text);
    let (program, args) = params
        .argv
        .split_first()
        .unwrap_or((&params.process_id, &[]));
    let cwd = path_from_wire(&params.cwd)
        .ok_or_else(|| invalid("cwd is neither a file: URI nor an absolute path".to_owned()))?;
    let host = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let env = environment::resolve(params.env_policy.as_ref(), &params.env, host);
    let mut spec = ServerSpec::builder(&params.process_id, program)
        .args(args)
        .cwd(cwd)
        .inherit_env(InheritEnv::Nothing);
    for (name, value) in env {
        spec = spec.env(name, value);
    }
    spec.build().map_err(|error| invalid(error.to_string()))
}

fn refusal(error: &LaunchError) -> RpcError {
    let kind = match error.kind() {
        LaunchErrorKind::NotFound { .. } => "notFound",
        LaunchErrorKind::NoSuchFile(_) => "noSuchFile",
        LaunchErrorKind::NotExecutable(_) => "notExecutable",
        LaunchErrorKind::IsDirectory(_) => "isDirectory",
        LaunchErrorKind::WorkingDirectory { .. } => "workingDirectory",
        LaunchErrorKind::Limit { .. } => "limit",
        _ => "other",
    };
    let text = mcp_lifecycle_core::launch::ErrorChain(error).to_string();
    let mut data = json!({ "kind": kind });
    if let LaunchErrorKind::NotFound { searched, .. } = error.kind() {
        let searched = searched.iter().map(|dir| dir.to_string_lossy());
        data["searched"] = searched.collect::<Vec<_>>().into();
    }
    RpcError::new(code::INTERNAL, text).with_data(data)
}
