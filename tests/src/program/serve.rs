//! The server: one thread that reads stdin, answers, and gives a shape its
//! chances to misbehave.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::{process, thread};

use serde_json::Value;

use crate::program::message::Message;
use crate::program::{Context, exit, protocol, sys, tools};

/// Where a shape departs from a well-behaved server.
pub(crate) trait Behaviour {
    /// Before anything is read.
    fn at_start(&mut self, _server: &Server) {}

    /// In place of the answer to `message`.
    fn on_message(&mut self, _server: &Server, _message: &Message) -> Flow {
        Flow::Answer
    }

    /// Once, when the handshake has been answered.
    fn after_handshake(&mut self, _server: &Server) {}

    /// After the end of stdin, before the process exits.
    fn at_eof(&mut self, _server: &Server) {}
}

/// The fate of a message that a shape has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It is answered as a well-behaved server would.
    Answer,
    /// It is not answered (any more).
    Handled,
}

/// A well-behaved server.
#[derive(Debug)]
pub(crate) struct Plain;

impl Behaviour for Plain {}

/// State that a running server has at hand.
pub(crate) struct Server {
    pub(crate) context: Context,
    pub(crate) out: Output,
    /// Calls that wait for their cancellation, by the text of their id.
    pub(crate) blocked: Mutex<HashMap<String, Value>>,
}

/// Serves stdin until its end.
pub(crate) fn serve(context: Context, behaviour: &mut dyn Behaviour) -> ! {
    if let Some(alive) = &context.alive {
        alive.answer_in_background();
    }
    let server = Server {
        context,
        out: Output::stdout(),
        blocked: Mutex::default(),
    };
    behaviour.at_start(&server);
    server.read_to_end(behaviour);
    server.context.event("eof");
    if server.context.args.ignore_eof {
        park_forever();
    }
    behaviour.at_eof(&server);
    process::exit(0)
}

/// Does nothing more in this thread; others go on.
pub(crate) fn park_forever() -> ! {
    loop {
        thread::park();
    }
}

impl Server {
    fn read_to_end(&self, behaviour: &mut dyn Behaviour) {
        let mut input = BufReader::new(io::stdin());
        let mut line = Vec::new();
        let mut greeted = false;
        while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
            if let Some(message) = Message::parse(&line) {
                if behaviour.on_message(self, &message) == Flow::Answer {
                    self.answer(&message);
                }
                if message.ends_handshake() && !std::mem::replace(&mut greeted, true) {
                    behaviour.after_handshake(self);
                }
            }
            line.clear();
        }
    }

    fn answer(&self, message: &Message) {
        if message.method == "notifications/cancelled" {
            self.cancel(&message.params["requestId"]);
        } else if message.method == "tools/call" {
            tools::call(self, message);
        } else if let Some(answer) = protocol::answer(message, self.context.args.era) {
            self.out.message(&answer);
        }
    }

    /// Tells the observer that the cancellation of a blocked call has arrived.
    fn cancel(&self, id: &Value) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = blocked.remove(&id.to_string()).is_some();
        let event = if known { "cancelled" } else { "stray-cancel" };
        self.context.event(&format!("{event} {id}"));
    }
}

/// Standard output, unbuffered: one write per message, from any thread.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<File>>);

impl Output {
    fn stdout() -> Self {
        match sys::stdout() {
            Ok(stdout) => Self(Arc::new(Mutex::new(stdout))),
            Err(error) => exit::refused("dup(stdout)", error),
        }
    }

    /// Writes one message and its newline.
    pub(crate) fn message(&self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        // Whether anybody reads is the client's affair: the end of stdin, not
        // a broken stdout, ends this server.
        let _ = self.raw(line.as_bytes());
    }

    /// Writes bytes that need not be a message.
    pub(crate) fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes)
    }
}
