mod input;
mod output;

use std::sync::{Arc, Weak};
use std::task::Waker;

use bytes::BytesMut;
use mcp_lifecycle_core::launch::{ExitStatus, LaunchedServer, ProcessTerminator, ServerIdentity};
use mcp_lifecycle_core::lock::Lock;
use tokio::sync::{oneshot, watch};

pub(super) use input::{DEPTH, Input};
pub(super) use output::Output;

use self::output::Buffer;
use super::inbox::Sender;
use super::session::ProcessEvent;
use crate::protocol::extension::GoneNotification;
use crate::protocol::process::{StartParams, Stream, WriteParams, WriteStatus};
use crate::{ExecutorError, Result};

pub(super) enum Command {
    Start(StartParams, Weak<Remote>, Reply),
    Abandon(String),
    Write(WriteParams),
    CloseStdin(String),
    Consumed(String, u64, u64),
    Lag(String, bool),
    Forget(String),
    Call(&'static str, serde_json::Value, Reply),
    StartBlindly(StartParams),
    /// Sent without an answer, as the last resort.
    Terminate(String),
}

pub(super) type Reply = oneshot::Sender<Result<String>>;

pub(super) struct Wiring {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) process: Arc<Remote>,
}

impl Wiring {
    pub(super) fn started(
        self,
        terminator: impl FnOnce(Arc<Remote>) -> Arc<dyn ProcessTerminator>,
    ) -> LaunchedServer {
        let stderr = Some(Box::new(self.stderr) as _);
        LaunchedServer::new(self.stdin, self.stdout, stderr, terminator(self.process))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    pub(super) exit: Option<ExitStatus>,
    pub(super) closed: bool,
    pub(super) gone: Option<GoneNotification>,
    pub(super) failed: Option<ExecutorError>,
}

/// The client's end of one process. Dropping it ends the process, unless it has ended.
pub(super) struct Remote {
    pub(super) id: String,
    commands: Sender,
    pub(super) status: watch::Sender<Status>,
    streams: Lock<Streams>,
    window: usize,
    depth: u32,
}

#[derive(Default)]
struct Streams {
    stdout: Buffer,
    stderr: Buffer,
    writing: Writing,
    /// Consumed bytes of each stream that the peer knows of.
    told: (u64, u64),
    lagging: bool,
}

/// The state of stdin: a few writes are in flight, later bytes are joined into the next one.
#[derive(Default)]
struct Writing {
    queued: BytesMut,
    under_way: u32,
    count: u64,
    /// Closing: the peer is told once the queue is empty.
    closing: bool,
    broken: Option<std::io::ErrorKind>,
    waker: Option<Waker>,
    /// The last that flushed; woken when the input is broken.
    flushed: Option<Waker>,
}

impl Remote {
    pub(super) fn new(id: String, commands: Sender, window: usize, depth: u32) -> Arc<Self> {
        Arc::new(Self {
            id,
            commands,
            status: watch::Sender::new(Status::default()),
            streams: Lock::default(),
            window,
            depth,
        })
    }

    pub(super) fn wire(self: &Arc<Self>) -> Wiring {
        Wiring {
            stdin: Input::new(Arc::clone(self)),
            stdout: Output::new(Arc::clone(self), Stream::Stdout),
            stderr: Output::new(Arc::clone(self), Stream::Stderr),
            process: Arc::clone(self),
        }
    }

    pub(super) fn identity(&self, executor: &str) -> ServerIdentity {
        ServerIdentity::Remote {
            executor: executor.to_owned(),
            process_id: self.id.clone(),
        }
    }

    fn send(&self, command: Command) {
        // The driver outlives every sender.
        let _ = self.commands.send(command);
    }

    pub(super) fn on_event(&self, event: ProcessEvent) {
        match event {
            ProcessEvent::Output(stream, bytes) => self.output(stream, bytes),
            ProcessEvent::Exited(code) => {
                let exit = match code {
                    Some(code) if code >= 0 => ExitStatus::from_shell_code(code),
                    _ => ExitStatus::Unknown,
                };
                self.status.send_modify(|status| status.exit = Some(exit));
            }
            ProcessEvent::Closed => {
                self.status.send_modify(|status| status.closed = true);
                self.end_of_output(None);
            }
            ProcessEvent::Gone(proof) => {
                self.status.send_modify(|status| status.gone = Some(proof));
            }
        }
    }

    pub(super) fn on_failure(&self, error: ExecutorError) {
        self.end_of_output(Some(std::io::ErrorKind::ConnectionAborted));
        self.break_input(std::io::ErrorKind::BrokenPipe);
        self.status.send_modify(|status| {
            status.failed.get_or_insert(error);
        });
    }

    pub(super) fn on_written(&self, outcome: Result<WriteStatus>) {
        match outcome {
            Ok(WriteStatus::Accepted) => self.next_write(),
            Ok(_) => self.break_input(std::io::ErrorKind::BrokenPipe),
            Err(ExecutorError::Timeout { .. }) => self.break_input(std::io::ErrorKind::TimedOut),
            Err(_) => self.break_input(std::io::ErrorKind::BrokenPipe),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let status = self.status.borrow();
        // Closed output proves nothing about the tree.
        let command = if status.gone.is_some() || status.failed.is_some() {
            Command::Forget(self.id.clone())
        } else {
            Command::Abandon(self.id.clone())
        };
        self.send(command);
    }
}

mcp_lifecycle_core::debug_fields! { Remote, it { id: &it.id } }
