mod handlers;

use std::sync::Arc;

use mcp_lifecycle_core::terminate::EndReason;
use serde_json::json;

use self::handlers::{Handled, answer, internal, known, later, read, signal, terminate, write};
use super::audit::excerpt;
use super::host::environment_info;
use super::limits::WAITING_EACH;
use super::quota::Grant;
use super::session::Session;
use super::start::start;
use super::{Shared, metadata};
use crate::protocol::extension::{AckParams, SurvivorsResult};
use crate::protocol::process::{ProcessParams, WriteResult, WriteStatus};
use crate::protocol::{MalformedMessage, Params, RequestId, RpcError, code, encode_error, method};
use crate::wire::wire_remnant;

/// Carries out a request of this connection, holding its frame's memory. Answers now, or later
/// through the session.
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
    // Its text, its parsed form, and a place to wait: the maximum.
    session.make_room(params.text().len() * 2 + WAITING_EACH);
    let carry_out = || -> Handled {
        let extended = session.is_extended();
        match method {
            method::START => start(shared, session, generation, frame, id, params),
            method::WRITE => write(session, frame, id, params.parse()?),
            method::READ => read(session, id, params.parse()?),
            method::SIGNAL => signal(session, id, params.parse()?),
            method::TERMINATE => {
                terminate(session, id, &params.parse::<ProcessParams>()?.process_id)
            }
            method::ENVIRONMENT_INFO => answer(session, &id, &environment_info()),
            method::ENVIRONMENT_STATUS => answer(session, &id, &json!({"status": "ready"})),
            method::GET_METADATA => {
                let path = metadata::path(params)?;
                later(session, id, async move {
                    let looked = tokio::task::spawn_blocking(move || metadata::look(&path)).await;
                    looked
                        .unwrap_or_else(|_| Err(RpcError::new(code::INTERNAL, "it was cut short")))
                })
            }
            method::PING if extended => answer(session, &id, &json!({})),
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
                answer(session, &id, &WriteResult { status })
            }
            method::SURVIVORS if extended => {
                let it: ProcessParams = params.parse()?;
                let process = known(session, &it.process_id)?;
                later(session, id, async move {
                    let alive = process.terminator.survivors().await.map_err(internal)?;
                    let alive = alive.iter().take(64).map(wire_remnant).collect();
                    Ok(SurvivorsResult { alive })
                })
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
    };
    if let Err(error) = carry_out() {
        // A duplicate was started earlier.
        if method == method::START && error.code != code::INVALID_REQUEST {
            let named = params.parse::<ProcessParams>();
            let name = named.map(|it| it.process_id).unwrap_or_default();
            session.audit.not_started(&name, "", &error);
        }
        session.answer(encode_error(Some(&answer_to), &error));
    }
}

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
        // Perhaps of a newer client; a notification needs no answer.
        _ => {}
    }
    Ok(())
}
