//! Stdout, which may be closed: that is not an error.

use std::fmt;
use std::io::{self, Write};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn line(text: impl fmt::Display) {
    print(format_args!("{text}\n"));
}

pub(crate) fn json(text: &serde_json::Value) {
    print(format_args!("{text:#}\n"));
}

pub(crate) fn print(text: impl fmt::Display) {
    let _ = write!(io::stdout().lock(), "{text}");
}
