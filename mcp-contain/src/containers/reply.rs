//! The companion's reply to the wrapper: the command to start. Pure, but for reading and writing.

use std::ffi::OsString;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

/// Longest reply: more than the kernel accepts as arguments and environment, written in JSON.
const MOST: u32 = 32 << 20;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Start this command with these variables, so that its containers are tracked.
    Tracked {
        command: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
    },
    /// The server has no engine.
    Nothing,
    Untracked(String),
}

impl Reply {
    /// Encodes it with a length prefix.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Ok([&length.to_le_bytes(), text.as_slice()].concat())
    }

    /// Reads a reply; [`io::ErrorKind::UnexpectedEof`] if the companion has ended.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length as usize];
        stream.read_exact(&mut text)?;
        match serde_json::from_slice(&text) {
            Ok(Self::Tracked { command, .. }) if command.is_empty() => {
                Err(io::ErrorKind::InvalidData.into())
            }
            Ok(reply) => Ok(reply),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn encoded(reply: &Reply) -> Vec<u8> {
        reply.encode().unwrap()
    }

    #[test]
    fn a_reply_is_read_as_it_was_written() {
        let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let replies = [
            Reply::Nothing,
            Reply::Untracked("no engine".to_owned()),
            Reply::Tracked {
                command: vec![word(b"docker"), word(b""), word(b"\xff run\n")],
                env: vec![
                    (word(b"DOCKER_HOST"), word(b"unix:///x")),
                    (word(b"E"), word(b"")),
                ],
            },
            Reply::Tracked {
                command: vec![word(b"npx")],
                env: Vec::new(),
            },
        ];
        for reply in replies {
            let again = Reply::read(&mut encoded(&reply).as_slice()).unwrap();
            assert_eq!(again, reply);
        }
    }

    #[test]
    fn a_truncated_or_invalid_reply_is_an_error() {
        let whole = encoded(&Reply::Untracked("why".to_owned()));
        for length in 0..whole.len() {
            let cut = Reply::read(&mut &whole[..length]);
            assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let empty = Reply::Tracked {
            command: Vec::new(),
            env: Vec::new(),
        };
        let mut invalid = vec![encoded(&empty), vec![0xff; 8]];
        for text in ["", "\0", "\"Other\"", "{}", "\"Nothing\" x"] {
            let length = u32::try_from(text.len()).unwrap().to_le_bytes();
            invalid.push([&length, text.as_bytes()].concat());
        }
        for bytes in invalid {
            let error = Reply::read(&mut bytes.as_slice()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }
}
