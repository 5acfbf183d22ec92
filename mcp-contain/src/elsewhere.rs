//! Verbs that look at what runs, on systems where nothing keeps a record of it.

use std::ffi::OsString;

use crate::failure::Failure;

/// The words after such a verb. One that is no verb would be taken for a program.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

impl Words {
    /// Says why there is no answer.
    pub(crate) fn refuse(&self) -> Failure {
        let why = match cfg!(windows) {
            true => "here the kernel ends a server with its host, and keeps no list of servers",
            false => "this program starts no server on this system",
        };
        Failure::wrapper(format_args!("this verb works on Linux only: {why}"))
    }
}
