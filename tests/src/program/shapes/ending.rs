//! Servers that end too early, too late, or never.

use std::io::{self, Write};
use std::{process, thread};

use crate::program::Context;
use crate::program::args::Stage;
use crate::program::message::Message;
use crate::program::serve::{Behaviour, Flow, Server, park_forever};
#[cfg(unix)]
use crate::program::sys;

/// Sees the end of stdin and takes its time.
pub(super) struct SlowEof;

impl Behaviour for SlowEof {
    fn at_eof(&mut self, server: &Server) {
        let limit = server.context.args.linger;
        match (&server.context.alive, limit) {
            (Some(alive), limit) => alive.step(limit),
            (None, Some(limit)) => thread::sleep(limit),
            (None, None) => park_forever(),
        }
    }
}

/// Stops itself, as a debugger or ^Z would.
#[cfg(unix)]
pub(super) struct Stops;

#[cfg(unix)]
impl Behaviour for Stops {
    fn after_handshake(&mut self, server: &Server) {
        server.context.event("stopping");
        sys::stop_self(server.context.args.lifetime);
    }
}

/// Reads everything, says nothing.
pub(super) struct NeverAnswers;

impl Behaviour for NeverAnswers {
    fn on_message(&mut self, server: &Server, message: &Message) -> Flow {
        server
            .context
            .event(&format!("unanswered {}", message.method));
        Flow::Handled
    }
}

/// Leaves its stdin to fill up.
pub(super) struct NeverReads;

impl Behaviour for NeverReads {
    fn at_start(&mut self, server: &Server) {
        if server.context.args.at == Stage::Handshake {
            park_forever();
        }
    }

    fn after_handshake(&mut self, server: &Server) {
        server.context.event("deaf");
        park_forever();
    }
}

/// Exits on the first request, with a reason on stderr.
pub(super) struct ExitsDuringHandshake;

impl Behaviour for ExitsDuringHandshake {
    fn on_message(&mut self, server: &Server, message: &Message) -> Flow {
        if message.is_handshake() {
            complain_and_exit(&server.context);
        }
        Flow::Handled
    }
}

/// Exits as soon as it is ready.
pub(super) struct ExitsAfterHandshake;

impl Behaviour for ExitsAfterHandshake {
    fn after_handshake(&mut self, server: &Server) {
        process::exit(server.context.args.code);
    }
}

/// Dies in the middle of an answer.
pub(super) struct DiesMidCall;

impl Behaviour for DiesMidCall {
    fn on_message(&mut self, server: &Server, message: &Message) -> Flow {
        if message.tool().is_none() {
            return Flow::Answer;
        }
        let _ = server.out.raw(br#"{"jsonrpc":"2.0","id":"#);
        complain_and_exit(&server.context)
    }
}

/// Exits with the code and the last words that the command line asks for.
pub(super) fn complain_and_exit(context: &Context) -> ! {
    if let Some(text) = &context.args.stderr {
        let _ = writeln!(io::stderr(), "{text}");
    }
    process::exit(context.args.code)
}
