//! Decodes a line of a server's output into a message.

use rmcp::model::{
    CallToolResult, ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, JsonRpcResponse,
    JsonRpcVersion2_0, RequestId, ServerResult,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage};
use serde::{Deserialize, Serialize};

use super::answer::answer_id;
use super::lines::Line;
use super::pending::{Asked, Pending};

/// The code of errors that replace an unusable answer. JSON-RPC leaves -32000 to -32099 to
/// implementations; it never leaves this process.
pub(crate) const LIFECYCLE_ERROR: ErrorCode = ErrorCode(-32_099);

/// The reason that an answer could not be used, passed through rmcp as the data of an error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LifecycleFault {
    TooLarge { limit: usize },
    Malformed { problem: String },
    NoAnswer,
}

impl LifecycleFault {
    pub(crate) fn of(error: &ErrorData) -> Option<Self> {
        let data = error
            .data
            .clone()
            .filter(|_| error.code == LIFECYCLE_ERROR)?;
        serde_json::from_value(data).ok()
    }
}

#[derive(Debug)]
pub(super) enum Decoded {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// An answer without a pending request.
    Stray(RequestId),
    Junk,
}

pub(super) fn decode(line: Line<'_>, pending: &Pending, limit: usize) -> Decoded {
    let (line, problem) = match line {
        Line::Complete(line) => match decode_complete(line, pending) {
            Ok(decoded) => return decoded,
            Err(problem) => (line, LifecycleFault::Malformed { problem }),
        },
        Line::Oversized(head) => (head, LifecycleFault::TooLarge { limit }),
    };
    match answer_id(line).filter(|id| pending.remove(id).is_some()) {
        Some(id) => Decoded::Message(Box::new(fault(id, &problem))),
        None => Decoded::Junk,
    }
}

pub(super) fn fault(id: RequestId, fault: &LifecycleFault) -> RxJsonRpcMessage<RoleClient> {
    let data = serde_json::to_value(fault).ok();
    JsonRpcMessage::Error(JsonRpcError {
        jsonrpc: JsonRpcVersion2_0,
        id: Some(id),
        error: ErrorData::new(LIFECYCLE_ERROR, "unusable answer", data),
    })
}

/// The result of a tool call, decoded directly: rmcp's message type would try all alternatives.
#[derive(Deserialize)]
struct ToolAnswer {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    result: CallToolResult,
}

fn decode_complete(line: &[u8], pending: &Pending) -> Result<Decoded, String> {
    if find_id(line).and_then(|id| pending.get(&id)) == Some(Asked::CallTool)
        && let Ok(answer) = serde_json::from_slice::<ToolAnswer>(line)
        && pending.remove(&answer.id).is_some()
    {
        return Ok(Decoded::Message(Box::new(JsonRpcMessage::Response(
            JsonRpcResponse {
                jsonrpc: answer.jsonrpc,
                id: answer.id,
                result: ServerResult::CallToolResult(answer.result),
            },
        ))));
    }
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let message: RxJsonRpcMessage<RoleClient> =
        serde_json::from_slice(line).map_err(|error| describe(line, &error))?;
    let answered = match &message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    };
    match answered {
        Some(id) if pending.remove(id).is_none() => Ok(Decoded::Stray(id.clone())),
        _ => Ok(Decoded::Message(Box::new(message))),
    }
}

fn describe(line: &[u8], error: &serde_json::Error) -> String {
    match std::str::from_utf8(line) {
        Err(utf8) => format!("invalid UTF-8 at byte {}", utf8.valid_up_to()),
        Ok(_) if error.is_data() => "not a JSON-RPC message".to_owned(),
        Ok(_) => format!("invalid JSON: {error}"),
    }
}

const ID_WINDOW: usize = 128;

/// Finds the ID of an answer without parsing all of it: servers write it near the beginning
/// (`{"jsonrpc":"2.0","id":1,"result":…`) or near the end (`…,"jsonrpc":"2.0","id":1}`). The parser
/// confirms it.
fn find_id(line: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\":";
    let head = &line[..line.len().min(ID_WINDOW)];
    let tail = &line[line.len().saturating_sub(ID_WINDOW)..];
    let after = match memchr::memmem::find(head, KEY) {
        Some(at) => &line[at + KEY.len()..],
        None => {
            let at = memchr::memmem::rfind(tail, KEY)?;
            &tail[at + KEY.len()..]
        }
    };
    let after = &after[..after.len().min(ID_WINDOW)];
    let end = after.iter().position(|b| matches!(b, b',' | b'}'))?;
    serde_json::from_slice(&after[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pending() -> Pending {
        let pending = Pending::default();
        pending.insert(RequestId::Number(7), Asked::CallTool);
        pending.insert(RequestId::Number(8), Asked::Other);
        pending
    }

    fn message(line: &[u8], pending: &Pending) -> RxJsonRpcMessage<RoleClient> {
        match decode(Line::Complete(line), pending, 10) {
            Decoded::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tool_answer_is_the_same_by_either_way() {
        let result = json!({"content": [{"type": "text", "text": "a\nb"}], "isError": false});
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#),
            format!(r#"{{"result":{result},"jsonrpc":"2.0","id":7}}"#),
        ] {
            let fast = message(line.as_bytes(), &pending());
            let slow: RxJsonRpcMessage<RoleClient> = serde_json::from_str(&line).unwrap();
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
        }
    }

    #[test]
    fn an_id_inside_the_result_is_not_taken_for_the_answer() {
        let pending = pending();
        let line = br#"{"result":{"content":[],"_meta":{"id":8}},"jsonrpc":"2.0","id":7}"#;
        let JsonRpcMessage::Response(response) = message(line, &pending) else {
            panic!()
        };
        assert_eq!(response.id, RequestId::Number(7));
        assert_eq!(pending.len(), 1);
    }

    #[test]
    fn an_input_required_answer_to_a_tool_call_takes_the_general_way() {
        let line =
            br#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","requestState":"s"}}"#;
        let JsonRpcMessage::Response(response) = message(line, &pending()) else {
            panic!()
        };
        assert!(matches!(
            response.result,
            ServerResult::InputRequiredResult(_)
        ));
    }

    #[test]
    fn an_unusable_answer_fails_its_call() {
        for (line, expected) in [
            (
                &br#"{"jsonrpc":"2.0","id":8,"result":{"a":"#[..],
                "invalid JSON",
            ),
            (
                &b"{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{\"a\":\"\xff\"}}"[..],
                "UTF-8",
            ),
            (
                &br#"{"jsonrpc":"1.0","id":8,"result":{}}"#[..],
                "not a JSON-RPC",
            ),
        ] {
            let pending = pending();
            let JsonRpcMessage::Error(error) = message(line, &pending) else {
                panic!()
            };
            assert_eq!(error.error.code, LIFECYCLE_ERROR);
            let data = error.error.data.unwrap().to_string();
            assert!(data.contains(expected), "{data}");
            assert_eq!(pending.len(), 1);
        }
    }

    #[test]
    fn a_log_line_that_looks_like_an_answer_fails_no_call() {
        for line in [
            r#"{"id":8,"level":"info","msg":"done"}"#,
            r#"{"level":"error","error":"refused","id":8}"#,
            r#"{"time":1,"result":{"a":1},"id":8}"#,
            r#"{"msg":"sent","message":{"jsonrpc":"2.0","id":8,"result":{}}}"#,
            r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":7}"#,
            r#"[{"jsonrpc":"2.0","id":8}]"#,
            r#"answer: {"jsonrpc":"2.0","id":8,"result":{}}"#,
            r#"{"id":8,"level":"inf"#,
        ] {
            let pending = pending();
            let junk = decode(Line::Complete(line.as_bytes()), &pending, 10);
            assert!(matches!(junk, Decoded::Junk), "{line}: {junk:?}");
            let junk = decode(Line::Oversized(line.as_bytes()), &pending, 10);
            assert!(matches!(junk, Decoded::Junk), "{line}: {junk:?}");
            assert_eq!(pending.len(), 2);
        }
    }

    #[test]
    fn an_oversized_answer_fails_its_call_and_other_lines_are_junk() {
        let pending = pending();
        let head = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"#;
        assert!(matches!(
            decode(Line::Oversized(head), &pending, 10),
            Decoded::Message(_)
        ));
        assert!(matches!(
            decode(Line::Oversized(head), &pending, 10),
            Decoded::Junk
        ));
        assert!(matches!(
            decode(Line::Complete(b"listening on 8080"), &pending, 10),
            Decoded::Junk
        ));
        let late = br#"{"jsonrpc":"2.0","id":99,"result":{}}"#;
        assert!(matches!(
            decode(Line::Complete(late), &pending, 10),
            Decoded::Stray(RequestId::Number(99))
        ));
    }
}
