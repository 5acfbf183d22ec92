//! Standard output, to which nobody may be listening any more: that is no error of what was done.

use std::fmt;
use std::io::{self, Write};

/// Prints a line.
pub(crate) fn line(text: impl fmt::Display) {
    print(format_args!("{text}\n"));
}

/// Prints a text as it is.
pub(crate) fn print(text: impl fmt::Display) {
    let _ = write!(io::stdout().lock(), "{text}");
}
