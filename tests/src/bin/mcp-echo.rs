//! A lean MCP echo server, so that a benchmark measures the client.
//!
//! Reads whatever there is in one big read, answers all complete lines of it
//! with one write, copies ids and texts verbatim, allocates nothing per
//! message. Tools: `echo {text}` and `blob {bytes}`. Both protocol eras.
//! It trusts its client: this is no example of how to parse JSON.

use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(windows)]
use std::os::windows::io::AsHandle;

use memchr::{memchr, memchr2, memrchr};

const VERSION_KEY: &[u8] = b"io.modelcontextprotocol/protocolVersion";

fn main() -> io::Result<()> {
    // Not `io::stdin()` and `io::stdout()`: their buffers would only copy.
    #[cfg(unix)]
    let (stdin, stdout) = (
        io::stdin().as_fd().try_clone_to_owned()?,
        io::stdout().as_fd().try_clone_to_owned()?,
    );
    #[cfg(windows)]
    let (stdin, stdout) = (
        io::stdin().as_handle().try_clone_to_owned()?,
        io::stdout().as_handle().try_clone_to_owned()?,
    );
    let (mut stdin, mut stdout) = (File::from(stdin), File::from(stdout));
    let mut input = vec![0; 256 << 10];
    let mut filled = 0;
    let mut output = Vec::with_capacity(256 << 10);
    loop {
        if filled == input.len() {
            input.resize(input.len() * 2, 0);
        }
        let read = match stdin.read(&mut input[filled..]) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        filled += read;
        let Some(newline) = memrchr(b'\n', &input[filled - read..filled]) else {
            continue;
        };
        let complete = filled - read + newline + 1;
        let mut lines = &input[..complete];
        while let Some(end) = memchr(b'\n', lines) {
            answer(&lines[..end], &mut output);
            lines = &lines[end + 1..];
        }
        input.copy_within(complete..filled, 0);
        filled -= complete;
        if !output.is_empty() {
            stdout.write_all(&output)?;
            output.clear();
        }
    }
}

/// Appends the answer to one message, if it wants one.
fn answer(line: &[u8], out: &mut Vec<u8>) {
    let (mut id, mut method, mut params) = (None, None, &b"{}"[..]);
    for (key, value) in Fields::of(line) {
        match key {
            b"id" => id = Some(value),
            b"method" => method = Some(unquote(value)),
            b"params" => params = value,
            _ => {}
        }
    }
    let (Some(id), Some(method)) = (id, method) else {
        return;
    };
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    match method {
        b"tools/call" => call(params, out),
        b"tools/list" => list(params, out),
        b"initialize" => initialize(params, out),
        b"ping" => out.extend_from_slice(br#","result":{}"#),
        b"server/discover" => out.extend_from_slice(
            br#","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcp-echo","version":"0"}}}"#,
        ),
        _ => out.extend_from_slice(
            br#","error":{"code":-32601,"message":"method not found"}"#,
        ),
    }
    out.extend_from_slice(b"}\n");
}

fn call(params: &[u8], out: &mut Vec<u8>) {
    let (mut name, mut arguments, mut modern) = (&b""[..], &b"{}"[..], false);
    for (key, value) in Fields::of(params) {
        match key {
            b"name" => name = unquote(value),
            b"arguments" => arguments = value,
            b"_meta" => modern = states_version(value),
            _ => {}
        }
    }
    out.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
    match name {
        b"blob" => {
            let bytes = field(arguments, b"bytes").map_or(0, number);
            out.push(b'"');
            out.resize(out.len() + bytes, b'x');
            out.push(b'"');
        }
        _ => out.extend_from_slice(field(arguments, b"text").unwrap_or(br#""""#)),
    }
    out.extend_from_slice(b"}]");
    if modern {
        out.extend_from_slice(br#","resultType":"complete""#);
    }
    out.push(b'}');
}

fn list(params: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(
        br#","result":{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"blob","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}}}}]"#,
    );
    if field(params, b"_meta").is_some_and(states_version) {
        out.extend_from_slice(br#","resultType":"complete","ttlMs":0,"cacheScope":"private""#);
    }
    out.push(b'}');
}

fn initialize(params: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#","result":{"protocolVersion":"#);
    out.extend_from_slice(field(params, b"protocolVersion").unwrap_or(br#""2025-11-25""#));
    out.extend_from_slice(
        br#","capabilities":{"tools":{}},"serverInfo":{"name":"mcp-echo","version":"0"}}"#,
    );
}

fn states_version(meta: &[u8]) -> bool {
    field(meta, VERSION_KEY).is_some()
}

fn field<'a>(object: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Fields::of(object).find_map(|(key, value)| (key == name).then_some(value))
}

fn unquote(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
    }
}

fn number(text: &[u8]) -> usize {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |value, digit| value * 10 + usize::from(digit - b'0'))
}

/// The fields of a JSON object: names without quotes, values verbatim.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(object: &'a [u8]) -> Self {
        Self {
            rest: object.trim_ascii_start().strip_prefix(b"{").unwrap_or(b""),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let at = memchr(b'"', self.rest)?;
        let key = &self.rest[at..];
        let (key, rest) = key.split_at_checked(value_len(key)?)?;
        let value = rest.trim_ascii_start().strip_prefix(b":")?;
        let value = value.trim_ascii_start();
        let (value, rest) = value.split_at_checked(value_len(value)?)?;
        self.rest = rest;
        Some((unquote(key), value.trim_ascii_end()))
    }
}

/// The length of the JSON value that `text` starts with.
fn value_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_len(text),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, 0);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at += string_len(&text[at..])?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => Some(
            text.iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']'))
                .unwrap_or(text.len()),
        ),
    }
}

/// The length of the JSON string that `text` starts with, quotes included.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}
