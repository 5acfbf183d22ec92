//! Output as it is, without base64: the `rawOutput` extension.
//!
//! A binary WebSocket frame. JSON never begins with such a byte, so that one
//! look at the first tells them apart:
//!
//! ```text
//! 0        1 or 2: standard output or standard error
//! 1..9     the number of the event, big endian
//! 9        n, the length of the process's name
//! 10..     the name, n bytes of UTF-8
//! 10+n..   the output
//! ```

use bytes::Bytes;

use super::MalformedMessage;
use super::process::Stream;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const HEAD: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOutput<'a> {
    pub process_id: &'a str,
    pub seq: u64,
    pub stream: Stream,
    pub bytes: Bytes,
}

impl<'a> RawOutput<'a> {
    /// Parses a frame; `None` when it does not begin like one of these.
    pub fn parse(frame: &'a Bytes) -> Option<Result<Self, MalformedMessage>> {
        let stream = match *frame.first()? {
            STDOUT => Stream::Stdout,
            STDERR => Stream::Stderr,
            _ => return None,
        };
        let malformed = |what: &str| MalformedMessage(what.to_owned());
        let parsed = || {
            let (head, rest) = frame.split_first_chunk::<HEAD>()?;
            let [_, seq @ .., length] = head;
            let name = rest.get(..usize::from(*length))?;
            Some((u64::from_be_bytes(*seq), name))
        };
        let Some((seq, name)) = parsed() else {
            return Some(Err(malformed("a raw frame is cut short")));
        };
        let Ok(process_id) = std::str::from_utf8(name) else {
            return Some(Err(malformed("a raw frame names no process")));
        };
        Some(Ok(Self {
            process_id,
            seq,
            stream,
            bytes: frame.slice(HEAD + name.len()..),
        }))
    }
}

/// A raw frame; `None` when a name this long, or this stream, has no place in it.
pub fn encode_raw_output(
    process_id: &str,
    seq: u64,
    stream: Stream,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let tag = match stream {
        Stream::Stdout => STDOUT,
        Stream::Stderr => STDERR,
        Stream::Pty => return None,
    };
    let length = u8::try_from(process_id.len()).ok()?;
    let mut frame = Vec::with_capacity(HEAD + process_id.len() + bytes.len());
    frame.push(tag);
    frame.extend_from_slice(&seq.to_be_bytes());
    frame.push(length);
    frame.extend_from_slice(process_id.as_bytes());
    frame.extend_from_slice(bytes);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_parsed() {
        for (name, output) in [("p", &b"out"[..]), ("", b""), ("größer", b"\0\xff{\n")] {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let frame = encode_raw_output(name, u64::MAX - 1, stream, output).unwrap();
                let frame = Bytes::from(frame);
                let parsed = RawOutput::parse(&frame).unwrap().unwrap();
                assert_eq!((parsed.process_id, parsed.seq), (name, u64::MAX - 1));
                assert_eq!((parsed.stream, &*parsed.bytes), (stream, output));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_json() {
        assert!(encode_raw_output(&"n".repeat(256), 1, Stream::Stdout, b"").is_none());
        assert!(encode_raw_output("p", 1, Stream::Pty, b"").is_none());
        for json in ["{}", " {}", "\t{}", "\n{}", "\r{}", ""] {
            assert!(RawOutput::parse(&Bytes::from_static(json.as_bytes())).is_none());
        }
    }

    #[test]
    fn a_frame_that_is_cut_is_malformed_and_never_a_panic() {
        let whole = encode_raw_output("name", 7, Stream::Stderr, b"output").unwrap();
        for cut in 1..whole.len() {
            let frame = Bytes::copy_from_slice(&whole[..cut]);
            let parsed = RawOutput::parse(&frame).unwrap();
            assert_eq!(parsed.is_ok(), cut >= HEAD + 4, "cut at {cut}");
        }
        let not_utf8 = Bytes::from_static(&[STDOUT, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0xff]);
        assert!(RawOutput::parse(&not_utf8).unwrap().is_err());
    }
}
