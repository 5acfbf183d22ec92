//! Any bytes as a frame of the executor's protocol: no panic, and what parses
//! is used as the peers use it. Seed: `mcp-launcher-executor/tests/corpus`.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mcp_launcher_executor::wire::protocol::extension::{AckParams, GoneNotification};
use mcp_launcher_executor::wire::protocol::process::{
    ClosedNotification, ExitedNotification, OutputNotification, ReadParams, ReadResult,
    SignalParams, StartParams, WriteParams,
};
use mcp_launcher_executor::wire::protocol::{
    InitializeParams, InitializeResult, Message, RawOutput, encode_output, encode_raw_output,
    path_from_wire,
};
use mcp_lifecycle_fuzz::bounded;

fuzz_target!(|bytes: &[u8]| bounded(bytes, codec));

fn codec(bytes: &[u8]) {
    if let Some(Ok(it)) = RawOutput::parse(&Bytes::copy_from_slice(bytes)) {
        let frame = encode_raw_output(it.process_id, it.seq, it.stream, &it.bytes);
        assert_eq!(frame.as_deref(), Some(bytes));
    }
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    match message {
        Message::Request { params, .. } | Message::Notification { params, .. } => {
            let _ = params.parse::<InitializeParams>();
            let _ = params.parse::<StartParams>().map(|p| path_from_wire(&p.cwd));
            let _ = params.parse::<WriteParams>();
            let _ = params.parse::<ReadParams>();
            let _ = params.parse::<SignalParams>();
            let _ = params.parse::<ExitedNotification>();
            let _ = params.parse::<ClosedNotification>();
            let _ = params.parse::<GoneNotification>();
            let _ = params.parse::<AckParams>();
            if let Ok(it) = params.parse::<OutputNotification>() {
                let frame = encode_output(&it.process_id, it.seq, it.stream, &it.chunk.0);
                assert!(Message::parse(frame.as_bytes()).is_ok());
            }
        }
        Message::Response { result, .. } => {
            let _ = result.parse::<ReadResult>();
            let _ = result.parse::<InitializeResult>();
        }
        _ => {}
    }
}
