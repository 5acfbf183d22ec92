//! What host and guardian say to each other: lines on a socket. Pure.
//!
//! ```text
//! host ──▶ guardian   terminate | kill
//! guardian ──▶ host   started PID | failed STAGE ERRNO | exited code N | exited signal N | exited unknown
//!                     gone PID:NAME ...        who had to be ended besides the main process, names in hexadecimal
//! ```

use std::fmt::Write as _;
use std::str::FromStr;

use mcp_lifecycle_core::launch::ExitStatus;

/// Something that a guardian tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Started(u32),
    Failed(Stage, i32),
    Exited(ExitStatus),
    Gone(Vec<(u32, String)>),
}

/// The step of a start that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The working directory was not entered.
    Directory,
    /// The program was not executed.
    Program,
    /// The server could not be watched, or the guardian itself lacks something.
    Watch,
}

/// Something that a host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Terminate,
    Kill,
}

/// So many are named at most, so that a report fits into a socket that nobody reads.
pub(crate) const NAMED_MAX: usize = 32;

/// The longest line; more is from somebody else.
const LINE_MAX: usize = 4096;

impl Asked {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Terminate => "terminate\n",
            Self::Kill => "kill\n",
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line {
            "terminate" => Some(Self::Terminate),
            "kill" => Some(Self::Kill),
            _ => None,
        }
    }
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Program => "program",
            Self::Watch => "watch",
        }
    }
}

impl Told {
    pub(crate) fn line(&self) -> String {
        let mut line = match self {
            Self::Started(pid) => format!("started {pid}"),
            Self::Failed(stage, errno) => format!("failed {} {errno}", stage.word()),
            Self::Exited(ExitStatus::Code(code)) => format!("exited code {code}"),
            Self::Exited(ExitStatus::Signal(signal)) => format!("exited signal {signal}"),
            Self::Exited(_) => "exited unknown".to_owned(),
            Self::Gone(swept) => {
                let mut line = "gone".to_owned();
                for (pid, name) in swept.iter().take(NAMED_MAX) {
                    let _ = write!(line, " {pid}:");
                    for byte in name.bytes() {
                        let _ = write!(line, "{byte:02x}");
                    }
                }
                line
            }
        };
        line.push('\n');
        line
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let told = match words.next()? {
            "started" => Self::Started(number(words.next()?)?),
            "failed" => {
                let stage = words.next()?;
                let stages = [Stage::Directory, Stage::Program, Stage::Watch];
                let stage = stages.into_iter().find(|known| known.word() == stage)?;
                Self::Failed(stage, number(words.next()?)?)
            }
            "exited" => Self::Exited(match words.next()? {
                "code" => ExitStatus::Code(number(words.next()?)?),
                "signal" => ExitStatus::Signal(number(words.next()?)?),
                "unknown" => ExitStatus::Unknown,
                _ => return None,
            }),
            "gone" => {
                let swept: Option<Vec<_>> = words.by_ref().map(swept).collect();
                Self::Gone(swept.filter(|swept| swept.len() <= NAMED_MAX)?)
            }
            _ => return None,
        };
        words.next().is_none().then_some(told)
    }
}

fn swept(word: &str) -> Option<(u32, String)> {
    let (pid, name) = word.split_once(':')?;
    let (digits, odd) = name.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
    };
    let name: Option<Vec<u8>> = digits.iter().map(byte).collect();
    let name = String::from_utf8_lossy(&name?).into_owned();
    odd.is_empty().then_some((number(pid)?, name))
}

/// A number as `Display` writes it: no sign but a minus, no zeroes before it.
fn number<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse()
        .ok()
        .filter(|number: &T| number.to_string() == text)
}

/// The lines of what has come so far.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line that is whole, without its end.
    pub(crate) fn next(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line = self.bytes.drain(..=end).take(end).collect::<Vec<u8>>();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Returns whether what has come is no line of ours any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.bytes.len() > LINE_MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told() -> impl Strategy<Value = Told> {
        let stage = prop::sample::select(vec![Stage::Directory, Stage::Program, Stage::Watch]);
        prop_oneof![
            any::<u32>().prop_map(Told::Started),
            (stage, any::<i32>()).prop_map(|(stage, errno)| Told::Failed(stage, errno)),
            any::<i32>().prop_map(|code| Told::Exited(ExitStatus::Code(code))),
            any::<i32>().prop_map(|signal| Told::Exited(ExitStatus::Signal(signal))),
            Just(Told::Exited(ExitStatus::Unknown)),
            prop::collection::vec((any::<u32>(), ".{0,16}"), 0..NAMED_MAX).prop_map(Told::Gone),
        ]
    }

    proptest! {
        #[test]
        fn what_is_told_is_heard_however_it_is_cut(all in prop::collection::vec(told(), 0..5), cut in 1..40_usize) {
            let text: String = all.iter().map(Told::line).collect();
            let mut lines = Lines::default();
            let mut heard = Vec::new();
            for part in text.as_bytes().chunks(cut) {
                lines.add(part);
                while let Some(line) = lines.next() {
                    heard.push(Told::parse(&line).unwrap());
                }
            }
            prop_assert_eq!(heard, all);
        }

        #[test]
        fn hostile_bytes_are_no_message_or_the_one_they_spell(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = Lines::default();
            lines.add(&bytes);
            while let Some(line) = lines.next() {
                let _ = Asked::parse(&line);
                if let Some(told) = Told::parse(&line) {
                    prop_assert!(Told::parse(told.line().trim_end_matches('\n')) == Some(told));
                }
            }
        }
    }

    #[test]
    fn what_is_asked_is_heard() {
        for asked in [Asked::Terminate, Asked::Kill] {
            let mut lines = Lines::default();
            lines.add(asked.line().as_bytes());
            assert_eq!(Asked::parse(&lines.next().unwrap()), Some(asked));
        }
    }

    #[test]
    fn what_is_not_ours_is_no_message() {
        for line in [
            "",
            "started",
            "started -1",
            "started +1",
            "started 01",
            "started 1 2",
            "started 4294967296",
            "failed program",
            "failed somewhere 2",
            "exited code",
            "exited code 1 ",
            "exited well",
            "gone 1",
            "gone 1:6",
            "gone 1:zz",
            "gone  1:61",
            "Gone",
        ] {
            assert_eq!(Told::parse(line), None, "{line:?}");
        }
        for line in ["", "kill ", "Kill", "terminate now"] {
            assert_eq!(Asked::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_report_is_short_and_a_line_without_end_is_not_kept_for_ever() {
        let many = vec![(u32::MAX, "a name of sixteen".to_owned()); 1000];
        let line = Told::Gone(many).line();
        assert!(line.len() <= LINE_MAX);
        let mut lines = Lines::default();
        lines.add(line.as_bytes());
        assert!(lines.next().is_some() && !lines.is_broken());
        lines.add(&[b'x'; LINE_MAX + 1]);
        assert!(lines.next().is_none() && lines.is_broken());
    }
}
