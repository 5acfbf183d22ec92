//! The companion's answer to the wrapper: what to start instead. Pure, but for the reading and writing.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The longest answer: more than the kernel takes for the arguments and environment of a program.
const MOST: u32 = 8 << 20;

/// Decision on what becomes of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It is started by this command, with these variables, so that its containers are known.
    Tracked {
        command: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
    },
    /// There is no engine that it would use.
    Nothing,
    /// The server's containers will not be known, for this reason.
    Untracked(String),
}

impl Reply {
    /// The bytes of it, with their number in front.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut put = |word: &[u8]| {
            text.extend_from_slice(word);
            // No argument and no variable has this byte.
            text.push(0);
        };
        match self {
            Self::Tracked { command, env } => {
                put(b"tracked");
                put(command.len().to_string().as_bytes());
                command.iter().for_each(|word| put(word.as_bytes()));
                for (name, value) in env {
                    put(name.as_bytes());
                    put(value.as_bytes());
                }
            }
            Self::Nothing => put(b"nothing"),
            Self::Untracked(why) => {
                put(b"untracked");
                put(why.replace('\0', " ").as_bytes());
            }
        }
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes(), text.as_slice()].concat()
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] where the companion has ended, [`io::ErrorKind::InvalidData`] for what is none.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length as usize];
        stream.read_exact(&mut text)?;
        Self::decode(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let mut words = text.strip_suffix(&[0])?.split(|&byte| byte == 0);
        match words.next()? {
            b"nothing" => Some(Self::Nothing),
            b"untracked" => {
                let why = String::from_utf8_lossy(words.next()?).into_owned();
                Some(Self::Untracked(why))
            }
            b"tracked" => {
                let count: usize = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
                let own = |word: &[u8]| OsStr::from_bytes(word).to_owned();
                let command: Vec<_> = words.by_ref().take(count).map(own).collect();
                let mut env = Vec::new();
                while let Some(name) = words.next() {
                    let value = OsString::from_vec(words.next()?.to_vec());
                    env.push((own(name), value));
                }
                (command.len() == count && count > 0).then_some(Self::Tracked { command, env })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(reply: &Reply) -> io::Result<Reply> {
        Reply::read(&mut reply.encode().as_slice())
    }

    #[test]
    fn what_is_written_is_read() {
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
            assert_eq!(again(&reply).unwrap(), reply);
        }
    }

    #[test]
    fn what_is_cut_short_or_nonsense_is_an_error() {
        let whole = Reply::Untracked("why".to_owned()).encode();
        for length in 0..whole.len() {
            let cut = Reply::read(&mut &whole[..length]);
            assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        for nonsense in [
            "",
            "\0",
            "other\0",
            "tracked\x002\0a\0",
            "tracked\x000\0",
            "tracked\x001\0a\0b\0",
        ] {
            let length = (nonsense.len() as u32).to_le_bytes();
            let bytes = [&length, nonsense.as_bytes()].concat();
            let error = Reply::read(&mut bytes.as_slice()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{nonsense:?}");
        }
        let huge = Reply::read(&mut [0xff; 8].as_slice()).unwrap_err();
        assert_eq!(huge.kind(), io::ErrorKind::InvalidData);
    }
}
