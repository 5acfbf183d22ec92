//! The companion's reply to the wrapper: the command to start. Pure, but for reading and writing.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest reply: more than the kernel accepts as arguments and environment, written in JSON.
const MOST: u64 = 32 << 20;

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
    /// Reads a reply; [`io::ErrorKind::UnexpectedEof`] if the companion has ended. It writes nothing
    /// more before the server's end.
    pub(super) fn read(stream: impl Read) -> io::Result<Self> {
        match received(stream)? {
            Self::Tracked { command, .. } if command.is_empty() => {
                Err(io::ErrorKind::InvalidData.into())
            }
            reply => Ok(reply),
        }
    }
}

/// Returns a message as it is sent, with the end of its line.
pub(super) fn sent(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads one message.
pub(super) fn received<T: DeserializeOwned>(stream: impl Read) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MOST)).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(serde_json::from_slice(&line)?),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn encoded(reply: &Reply) -> Vec<u8> {
        sent(reply).unwrap()
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
            let again = Reply::read(encoded(&reply).as_slice()).unwrap();
            assert_eq!(again, reply);
        }
    }

    #[test]
    fn a_truncated_or_invalid_reply_is_an_error() {
        let whole = encoded(&Reply::Untracked("why".to_owned()));
        for length in 0..whole.len() {
            let cut = Reply::read(&whole[..length]);
            assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let empty = Reply::Tracked {
            command: Vec::new(),
            env: Vec::new(),
        };
        let mut invalid = vec![encoded(&empty), b"\xff\xff\n".to_vec()];
        invalid.extend(["\0\n", "\"Other\"\n", "{}\n"].map(|text| text.as_bytes().to_vec()));
        for bytes in invalid {
            let error = Reply::read(bytes.as_slice()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }
}
