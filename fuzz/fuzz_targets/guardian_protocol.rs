//! Any bytes between host and guardian, and as the name of a process in a server's report. What is
//! understood is written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_guardian::program::ending::Ending;
use mcp_guardian::program::protocol::{COMM_LEN, MESSAGE_MAX, Report, Request};
use mcp_guardian::program::text::Line;
use mcp_lifecycle_fuzz::bounded;

fuzz_target!(|bytes: &[u8]| bounded(bytes, |bytes| {
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(request.encode(), bytes);
    }
    if let Some(report) = Report::decode(bytes) {
        let mut buffer = [0; MESSAGE_MAX];
        let len = report.encode(&mut buffer);
        assert_eq!(&buffer[..len], bytes);
        if let Report::Gone { swept, .. } = report {
            assert!(swept.processes().count() as u64 <= u64::from(swept.total()));
            assert!(swept.processes().all(|(_, name)| name.len() <= COMM_LEN));
        }
    }
    let mut line = Line::new();
    line.then("{\"name\":").string(bytes);
    if let Some(ending) = bytes.first_chunk().and_then(Ending::decode) {
        assert_eq!(Ending::decode(&ending.encode()), Some(ending));
        if let Ending::Ended(ended) = ending {
            ended.describe(&mut line);
        }
    }
    line.key("names")
        .list(bytes.split(|&byte| byte == 0))
        .then("}");
    let read: serde_json::Value = serde_json::from_slice(line.bytes()).expect("it is JSON");
    let name = read["name"].as_str().expect("it has a name");
    assert!(
        name.chars()
            .all(|it| !it.is_control() || it == '\n' || it == '\t')
    );
}));
