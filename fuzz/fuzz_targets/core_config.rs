//! Any text as a host's configuration of servers: the first byte says in which format. It is read
//! the same each time, and nothing shows what was in a variable.

#![no_main]

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::config::{ConfigReader, Format, LauncherRegistry};
use mcp_lifecycle_core::document::{Node, Value};

const SECRET: &str = "hunter2-hunter2";

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, text)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(text) else {
        return;
    };
    let format = if first == b't' {
        Format::Toml
    } else {
        Format::Json
    };
    let quoted = format
        .parse(&list(format, text))
        .expect("what is quoted is read");
    assert!(holds(&quoted, text), "{text:?}");
    if let Ok(node) = format.parse(text) {
        is_within(&node, text);
    }
    let launchers = LauncherRegistry::new(Arc::new(LocalLauncher::new()));
    let reader = ConfigReader::new(&launchers);
    let reader = reader.variables(|name| (!name.is_empty()).then(|| SECRET.to_owned()));
    let read = || match reader.read_str(text, format) {
        Ok(set) => {
            let skipped: Vec<_> = set.skipped.iter().map(ToString::to_string).collect();
            let shown = format!("{:?} {skipped:?}", set.servers);
            // A command line is no secret: everyone on the machine sees it.
            let specs = set.servers.iter().map(|server| server.config.spec());
            let words = specs.flat_map(|spec| {
                let words = spec.args().iter().map(OsString::as_os_str);
                words
                    .chain(spec.program())
                    .chain(spec.cwd().map(Path::as_os_str))
            });
            let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
            (shown, words.concat().matches(SECRET).count())
        }
        Err(error) => (format!("{error} {error:?}"), 0),
    };
    let (shown, allowed) = read();
    assert_eq!(shown, read().0);
    if !text.contains("hunter2") {
        assert!(shown.matches(SECRET).count() <= allowed, "{shown}");
    }
});

fn list(format: Format, text: &str) -> String {
    match format {
        Format::Toml => format!("a = [{}]", format.quote(text)),
        _ => format!("{{\"a\": [{}]}}", format.quote(text)),
    }
}

fn holds(root: &Node, text: &str) -> bool {
    let [member] = root.members() else {
        return false;
    };
    matches!(&member.node.value, Value::List(list) if list.len() == 1 && list[0].as_text() == Some(text))
}

/// Each place is one of the text: it can be cut there, and is within what holds it.
fn is_within(node: &Node, text: &str) {
    assert!(text.get(node.range.clone()).is_some(), "{:?}", node.range);
    match &node.value {
        Value::Table { members, .. } => {
            for member in members {
                assert!(text.is_char_boundary(member.start));
                is_within(&member.node, text);
            }
        }
        Value::List(list) => {
            for item in list {
                assert!(node.range.start <= item.range.start && item.range.end <= node.range.end);
                is_within(item, text);
            }
        }
        Value::Text(_) | Value::Other(_) => {}
    }
}
