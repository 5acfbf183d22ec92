use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::process::Stream;
use super::{RequestId, RpcError};

#[derive(Serialize)]
struct Call<'a, P> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Answer<'a, R> {
    id: &'a RequestId,
    #[serde(flatten)]
    outcome: Outcome<'a, R>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome<'a, R> {
    Result(R),
    Error(&'a RpcError),
}

pub fn encode_request(id: &RequestId, method: &str, params: &impl Serialize) -> String {
    let id = Some(id);
    text(&Call { id, method, params })
}

pub fn encode_notification(method: &str, params: &impl Serialize) -> String {
    let id = None;
    text(&Call { id, method, params })
}

pub fn encode_result(id: &RequestId, result: &impl Serialize) -> String {
    let outcome = Outcome::Result(result);
    text(&Answer { id, outcome })
}

/// Encodes the answer to a failed request; with a `None` ID, which the protocol writes as -1.
pub fn encode_error(id: Option<&RequestId>, error: &RpcError) -> String {
    let id = id.unwrap_or(&RequestId::Number(-1));
    let outcome = Outcome::<()>::Error(error);
    text(&Answer { id, outcome })
}

/// Encodes `process/output` without a serializer, as it is the most frequent message.
pub fn encode_output(process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> String {
    let id = text(&process_id);
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4 + id.len() + 112);
    out.push_str(r#"{"method":"process/output","params":{"processId":"#);
    out.push_str(&id);
    out.push_str(r#","seq":"#);
    out.push_str(&seq.to_string());
    out.push_str(r#","stream":""#);
    out.push_str(stream.as_str());
    out.push_str(r#"","chunk":""#);
    STANDARD.encode_string(bytes, &mut out);
    out.push_str(r#""}}"#);
    out
}

fn text(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(text) => text,
        // Strings, numbers and maps with string keys always serialize.
        Err(error) => unreachable!("a message of the protocol serializes: {error}"),
    }
}
