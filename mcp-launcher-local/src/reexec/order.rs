//! The variable that makes a process a guardian, and says of which server. Pure.
//!
//! ```text
//! 1 DESCRIPTOR GRACE LENGTH DIRECTORY PROGRAM      the first four in decimal; no space between the last two
//! ```
//!
//! Arguments and environment of the server are the guardian's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the variable. A server does not see it.
pub(crate) const VARIABLE: &str = "MCP_LIFECYCLE_GUARDIAN";

/// The version of this text and of what is said on the socket.
const VERSION: &[u8] = b"1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The socket to the host.
    pub(crate) descriptor: i32,
    /// The time that the server has without its host, in milliseconds.
    pub(crate) grace: u32,
    /// The working directory, if it is not the host's own.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) program: PathBuf,
}

impl Order {
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace.into())
    }

    pub(crate) fn value(&self) -> OsString {
        let directory = self.directory.as_deref().unwrap_or(Path::new(""));
        let directory = directory.as_os_str().as_bytes();
        let numbers = format!(" {} {} {} ", self.descriptor, self.grace, directory.len());
        let program = self.program.as_os_str().as_bytes();
        OsString::from_vec([VERSION, numbers.as_bytes(), directory, program].concat())
    }

    /// `None` for what no host of this version has written.
    pub(crate) fn parse(value: &OsStr) -> Option<Self> {
        let mut parts = value.as_bytes().splitn(5, |byte| *byte == b' ');
        let mut part = || parts.next();
        let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse::<u32>().ok();
        if part()? != VERSION {
            return None;
        }
        let descriptor = i32::try_from(number(part()?)?).ok()?;
        let grace = number(part()?)?;
        let length = usize::try_from(number(part()?)?).ok()?;
        let (directory, program) = part()?.split_at_checked(length)?;
        let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
        let program = path(program);
        program.is_absolute().then(|| Self {
            descriptor,
            grace,
            directory: (length > 0).then(|| path(directory)),
            program,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = PathBuf> {
        let bytes = prop::collection::vec(1..=u8::MAX, 0..40);
        bytes.prop_map(|bytes| PathBuf::from(OsString::from_vec([b"/", &*bytes].concat())))
    }

    proptest! {
        #[test]
        fn an_order_is_read_as_it_was_written(
            descriptor in 0..=i32::MAX,
            grace: u32,
            directory in prop::option::of(path()),
            program in path(),
        ) {
            let order = Order { descriptor, grace, directory, program };
            prop_assert_eq!(Order::parse(&order.value()), Some(order));
        }

        #[test]
        fn hostile_bytes_are_no_order(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Order::parse(OsStr::from_bytes(&bytes));
        }
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_no_order() {
        for value in [
            "",
            "1",
            "1 3 0",
            "1 3 0 0",
            "1 3 0 0 ",
            "1 3 0 0 relative",
            "1 3 0 9 /bin/true",
            "1 3 0 10 /bin/true",
            "1 -3 0 0 /bin/true",
            "1 2147483648 0 0 /bin/true",
            "2 3 0 0 /bin/true",
        ] {
            assert_eq!(Order::parse(OsStr::new(value)), None, "{value:?}");
        }
        let order = Order::parse(OsStr::new("1 3 5 4 /tmp/a b")).unwrap();
        assert_eq!(order.directory.as_deref(), Some(Path::new("/tmp")));
        assert_eq!(order.program, Path::new("/a b"));
        assert_eq!(order.grace(), Duration::from_millis(5));
    }

    #[test]
    fn a_guardian_carries_the_mark_besides_its_order() {
        assert_ne!(VARIABLE, crate::identity::VARIABLE);
    }
}
