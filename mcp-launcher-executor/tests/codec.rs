//! The codec on what real peers say and on what nobody should.

use bytes::Bytes;
use mcp_launcher_executor::wire::protocol::process::{
    ClosedNotification, ExitedNotification, OutputNotification, ReadResult, StartParams, Stream,
    WriteParams,
};
use mcp_launcher_executor::wire::protocol::{
    Chunk, InitializeResult, Message, RawOutput, RequestId, encode_output, encode_raw_output,
    encode_request, path_from_wire,
};

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
