//! Tool calls in several rounds: since 2026-07-28 a server returns `input_required`, and the client
//! repeats the call with the answers of the application's handler.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ClientResult, ErrorData,
    InputRequest, InputRequiredResult, InputResponses, RequestId, ServerRequest, ServerResult,
};
use rmcp::service::{RequestContext, Service, ServiceError};

use super::call::{self, Called};
use super::session::Session;
use super::{CallError, CallErrorKind, CallOptions};

const MAX_ROUNDS: usize = rmcp::model::DEFAULT_MRTR_MAX_ROUNDS;

pub(super) async fn call_tool(
    session: &Session,
    mut params: CallToolRequestParams,
    options: &CallOptions,
) -> Result<CallToolResult, CallError> {
    for _ in 0..MAX_ROUNDS {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        let called = Called::Tool(&params.name);
        match call::request(session, called, request, options).await? {
            ServerResult::CallToolResult(result) => return Ok(result),
            ServerResult::InputRequiredResult(asked) => {
                let answers = answer(session, asked);
                let (answers, state) = call::guard(session, called, answers, options, None).await?;
                params.input_responses = answers;
                params.request_state = state;
            }
            _ => return Err(protocol(session, called, ServiceError::UnexpectedResponse)),
        }
    }
    let max_rounds = MAX_ROUNDS;
    let exceeded = ServiceError::InputRequiredRoundsExceeded { max_rounds };
    Err(protocol(session, Called::Tool(&params.name), exceeded))
}

fn protocol(session: &Session, called: Called<'_>, error: ServiceError) -> CallError {
    called.failed(session, CallErrorKind::Protocol(Box::new(error)))
}

async fn answer(
    session: &Session,
    asked: InputRequiredResult,
) -> Result<(Option<InputResponses>, Option<String>), ServiceError> {
    let requests = asked.input_requests.unwrap_or_default();
    if requests.is_empty() && asked.request_state.is_none() {
        return Err(ServiceError::UnexpectedResponse);
    }
    let mut answers = InputResponses::default();
    for (key, request) in requests {
        let answer = answer_one(session, &key, request).await?;
        answers.insert(key, answer);
    }
    Ok((
        (!answers.is_empty()).then_some(answers),
        asked.request_state,
    ))
}

async fn answer_one(
    session: &Session,
    key: &str,
    request: InputRequest,
) -> Result<serde_json::Value, ServiceError> {
    let request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(ServiceError::UnexpectedResponse),
    };
    let Some(running) = session.rmcp.get() else {
        return Err(ServiceError::TransportClosed);
    };
    let context = RequestContext::new(RequestId::String(key.into()), running.peer().clone());
    let result = match session.handler.handle_request(request, context).await {
        Ok(ClientResult::CreateMessageResult(result)) => serde_json::to_value(result),
        Ok(ClientResult::ElicitResult(result)) => serde_json::to_value(result),
        Ok(ClientResult::ListRootsResult(result)) => serde_json::to_value(result),
        Ok(_) => return Err(ServiceError::UnexpectedResponse),
        Err(error) => return Err(ServiceError::McpError(error)),
    };
    result
        .map_err(|error| ServiceError::McpError(ErrorData::internal_error(error.to_string(), None)))
}
