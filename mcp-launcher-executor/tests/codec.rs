//! The codec on what real peers say and on what nobody should.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use mcp_launcher_executor::wire::protocol::extension::longest_reprieve;
use mcp_launcher_executor::wire::protocol::process::{
    ClosedNotification, ExitedNotification, OutputNotification, ProcessEvent, ReadResult,
    StartParams, Stream, WriteParams,
};
use mcp_launcher_executor::wire::protocol::{
    Chunk, InitializeResult, MalformedMessage, Message, RawOutput, RequestId, RpcError, code,
    encode_error, encode_notification, encode_output, encode_raw_output, encode_request,
    encode_result, path_from_wire,
};
use serde_json::json;

/// Lines of a real exchange with codex 0.169, and of older dialects.
const CORPUS: &str = include_str!("corpus/exchange.jsonl");

fn message(line: &str) -> Message<'_> {
    Message::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn every_line_of_the_corpus_is_a_message() {
    let kinds: Vec<_> = CORPUS
        .lines()
        .map(|line| match message(line) {
            Message::Request { .. } => 'q',
            Message::Notification { .. } => 'n',
            Message::Response { .. } => 'r',
            Message::Error { .. } => 'e',
            _ => '?',
        })
        .collect();
    assert!(!kinds.contains(&'?'));
    for kind in "qnre".chars() {
        assert!(kinds.contains(&kind), "{kind}");
    }
}

/// The work of the fuzz target: nothing may panic, and what parses is used.
fn use_everything(bytes: &[u8]) {
    if let Some(Ok(it)) = RawOutput::parse(&Bytes::copy_from_slice(bytes)) {
        let frame = encode_raw_output(it.process_id, it.seq, it.stream, &it.bytes);
        assert_eq!(frame.as_deref(), Some(bytes));
    }
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    if let Message::Request { params, .. } | Message::Notification { params, .. } = message {
        let _ = params
            .parse::<StartParams>()
            .map(|p| path_from_wire(&p.cwd));
        let _ = params.parse::<WriteParams>();
        let _ = params.parse::<OutputNotification>();
        let _ = params.parse::<ExitedNotification>();
        let _ = params.parse::<ClosedNotification>();
    } else if let Message::Response { result, .. } = message {
        let _ = result.parse::<ReadResult>();
        let _ = result.parse::<InitializeResult>();
    }
}

#[test]
fn no_mutation_of_the_corpus_panics() {
    // A small deterministic generator: the same cases in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let raw = encode_raw_output("name", 7, Stream::Stdout, b"output").unwrap();
    for frame in CORPUS.lines().map(str::as_bytes).chain([&*raw]) {
        for cut in 0..frame.len() {
            use_everything(&frame[..cut]);
        }
        for _ in 0..500 {
            let mut bytes = frame.to_vec();
            for _ in 0..1 + random() % 4 {
                let at = random() as usize % bytes.len();
                match random() % 3 {
                    0 => bytes[at] = random() as u8,
                    1 => bytes.insert(at, b"\"{}[],:\\0"[random() as usize % 9]),
                    _ => drop(bytes.remove(at)),
                }
            }
            use_everything(&bytes);
        }
    }
}

#[test]
fn output_is_written_as_it_is_read() {
    let bytes: Vec<u8> = (0..=255).collect();
    let frame = encode_output("p\"1\\", 7, Stream::Stderr, &bytes);
    let Message::Notification { method, params } = message(&frame) else {
        panic!("{frame}");
    };
    let output: OutputNotification = params.parse().unwrap();
    assert_eq!((&*method, output.seq), ("process/output", 7));
    assert_eq!(output.process_id, "p\"1\\");
    assert_eq!(output.stream, Stream::Stderr);
    assert_eq!(output.chunk.0, bytes);
}

#[test]
fn no_secret_is_in_a_debug_text() {
    let params: StartParams = serde_json::from_str(
        r#"{"processId":"p","argv":["x","hunter2"],"cwd":"/","env":{"A":"hunter2"},
            "envPolicy":{"set":{"B":"hunter2"}}}"#,
    )
    .unwrap();
    let text = format!(
        "{params:?} {:?} {:?}",
        params.env_policy,
        Chunk(b"hunter2".to_vec().into())
    );
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!params.pipe_stdin, "absent means no pipe");
}

#[test]
fn a_request_has_no_version_field_and_no_null() {
    let frame = encode_request(&RequestId::Number(1), "x", &serde_json::json!({}));
    assert_eq!(frame, r#"{"id":1,"method":"x","params":{}}"#);
}

#[test]
fn lists_and_maps_have_a_limit() {
    let start = |argv: usize, env: usize| {
        let argv = vec!["\"\""; argv].join(",");
        let env = (0..env).map(|nth| format!("\"{nth}\":\"\""));
        let env = env.collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"processId":"p","argv":[{argv}],"cwd":"/","env":{{{env}}}}}"#);
        let parsed = serde_json::from_str::<StartParams>(&text);
        parsed.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(start(131_072, 4096), Ok(()));
    let [arguments, variables] = [(131_073, 0), (1, 4097)].map(|(argv, env)| {
        let error = start(argv, env).unwrap_err();
        error
            .split(" at line")
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    let list = "invalid length 131073, expected a list of at most 131072 strings";
    let map = "invalid length 4097, expected a map of at most 4096 strings";
    assert_eq!((&*arguments, &*variables), (list, map));
    for wrong in [r#""argv":7,"env":{}"#, r#""argv":[],"env":7"#] {
        let text = format!(r#"{{"processId":"p","cwd":"/",{wrong}}}"#);
        let error = serde_json::from_str::<StartParams>(&text).unwrap_err();
        assert!(error.to_string().contains("expected a "), "{error}");
    }
}

#[test]
fn ids_and_parameters_are_read_as_they_are_written() {
    let ids = [RequestId::Number(-7), RequestId::Text("a\"b".to_owned())];
    assert_eq!(ids.map(|id| id.to_string()), ["-7", "a\"b"]);
    for (params, text, is_object) in [
        (r#","params":null"#, "null", true),
        ("", "null", true),
        (r#","params":{"a": 1}"#, r#"{"a": 1}"#, true),
        (r#","params":[1]"#, "[1]", false),
    ] {
        let frame = format!(r#"{{"method":"x"{params}}}"#);
        let Message::Notification { params, .. } = message(&frame) else {
            panic!("{frame}");
        };
        let object = params.parse::<serde_json::Map<String, serde_json::Value>>();
        assert_eq!(
            (params.text(), object.is_ok()),
            (text, is_object),
            "{frame}"
        );
    }
}

#[test]
fn a_result_of_null_is_an_empty_object() {
    let Message::Response { result, .. } = message(r#"{"id":1,"result":null}"#) else {
        panic!("no response");
    };
    let object = result.parse::<serde_json::Map<String, serde_json::Value>>();
    assert_eq!(object.map(|it| it.len()), Ok(0));
}

#[test]
fn notifications_results_and_errors_are_written() {
    let id = RequestId::Number(7);
    let error = RpcError::new(code::LIMIT, "no");
    let detailed = error.clone().with_data(json!({"kind": "k"}));
    for (frame, expected) in [
        (
            encode_notification("x", &json!({"a": 1})),
            r#"{"method":"x","params":{"a":1}}"#,
        ),
        (
            encode_result(&id, &json!({"a": 1})),
            r#"{"id":7,"result":{"a":1}}"#,
        ),
        (
            encode_error(Some(&id), &error),
            r#"{"id":7,"error":{"code":-32020,"message":"no"}}"#,
        ),
        (
            encode_error(None, &detailed),
            r#"{"id":-1,"error":{"code":-32020,"message":"no","data":{"kind":"k"}}}"#,
        ),
    ] {
        assert_eq!(frame, expected);
        message(&frame);
    }
}

#[test]
fn the_data_of_an_error_is_read_unless_it_is_long() {
    let plain = RpcError::new(1, "m");
    assert_eq!((plain.kind(), plain.searched()), (None, vec![]));
    let data = json!({"kind": "not_found", "searched": ["/a", 7, "/b"]});
    let told = plain.clone().with_data(data);
    assert_eq!(told.kind(), Some("not_found"));
    assert_eq!(told.searched(), ["/a", "/b"].map(PathBuf::from));
    assert_eq!(told.to_string(), "m (code 1)");
    for (length, is_kept) in [(4096, true), (4097, false)] {
        let data = format!("\"{}\"", "x".repeat(length - 2));
        let text = format!(r#"{{"code":1,"message":"m","data":{data}}}"#);
        let error: RpcError = serde_json::from_str(&text).unwrap();
        assert_eq!(error.data.is_some(), is_kept, "{length}");
    }
    let malformed = RpcError::from(MalformedMessage("what".to_owned()));
    assert_eq!(malformed.code, code::INVALID_PARAMS);
    assert!(malformed.message.contains("what"), "{malformed}");
}

#[test]
fn codes_are_those_of_the_protocol() {
    for (code, number) in [
        (code::INVALID_REQUEST, -32600),
        (code::METHOD_NOT_FOUND, -32601),
        (code::INVALID_PARAMS, -32602),
        (code::INTERNAL, -32603),
        (code::NOT_FOUND, -32004),
        (code::SESSION_ATTACHED, -32010),
        (code::TRANSPORT_CLOSED, -32000),
        (code::LIMIT, -32020),
    ] {
        assert_eq!(code, number);
    }
}

#[test]
fn chunks_are_base64_and_private() {
    let chunk: Chunk = serde_json::from_str("\"aGk=\"").unwrap();
    assert_eq!(chunk, Chunk(Bytes::from_static(b"hi")));
    assert_eq!(format!("{chunk:?}"), "Chunk(2 bytes)");
    assert_eq!(serde_json::to_string(&chunk).unwrap(), "\"aGk=\"");
    for wrong in ["\"aGk\"", "\"a\"", "7"] {
        assert!(serde_json::from_str::<Chunk>(wrong).is_err(), "{wrong}");
    }
    let error = serde_json::from_str::<Chunk>("7").unwrap_err();
    assert!(error.to_string().contains("base64 with padding"), "{error}");
}

#[test]
fn streams_and_events_have_names_and_sizes() {
    let streams = [Stream::Stdout, Stream::Stderr, Stream::Pty];
    assert_eq!(streams.map(Stream::as_str), ["stdout", "stderr", "pty"]);
    for stream in streams {
        let written = serde_json::to_string(&stream).unwrap();
        assert_eq!(written, format!("\"{}\"", stream.as_str()));
    }
    let output = ProcessEvent::Output(Stream::Stdout, Bytes::from_static(b"abc"));
    assert_eq!((output.bytes(), ProcessEvent::Closed.bytes()), (3, 0));
}

#[test]
fn a_lease_runs_over_by_half_and_ten_seconds_at_most() {
    for (lease, reprieve) in [(4, 2), (20, 10), (3600, 10)] {
        let [lease, reprieve] = [lease, reprieve].map(Duration::from_secs);
        assert_eq!(longest_reprieve(lease), reprieve);
    }
}
