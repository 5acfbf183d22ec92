use std::future::Future;
use std::time::Duration;

use mcp_lifecycle_core::backend::program::{LastWords, Program};
use mcp_lifecycle_core::launch::BoxError;
use tokio::process::Command;
use tokio::time::timeout;

use super::config::{ExecServerConfig, Target};
use crate::error::reason;
use crate::link::{LineLink, Link};
use crate::{ExecutorError, Result};

/// Longest wait for a command to exit after the end of its input, before it is killed.
const LEAVE: Duration = Duration::from_secs(5);

/// Longest wait for the exit of a command that closed its output.
const END: Duration = Duration::from_secs(1);

pub(super) struct Connected {
    pub(super) link: Box<dyn Link>,
    command: Option<Carrier>,
}

impl Connected {
    pub(super) fn close(self) -> impl Future<Output = ()> + Send + 'static {
        let Self { link, command } = self;
        drop(link);
        async move {
            if let Some(command) = command {
                command.leave().await;
            }
        }
    }

    /// Closes a lost link. Returns `reason`, or the one that its command reports.
    pub(super) async fn part(self, reason: String) -> String {
        let Self { link, command } = self;
        drop(link);
        let Some(mut command) = command else {
            return reason;
        };
        let words = command.last_words().await;
        tokio::spawn(command.leave());
        words
    }
}

/// A command that carries the link on its streams.
struct Carrier {
    name: String,
    program: Program,
    words: LastWords,
}

impl Carrier {
    /// Returns why it has closed its output, as far as reported in time.
    async fn last_words(&mut self) -> String {
        let status = timeout(END, self.program.wait()).await;
        let end = match status {
            Ok(Ok(status)) => format!("`{}` ended with {status}", self.name),
            _ => format!("`{}` closed its standard output", self.name),
        };
        match self.words.hear().await {
            Some(words) => format!("{end} and said: {words}"),
            None => end,
        }
    }

    async fn leave(mut self) {
        let _ = timeout(LEAVE, self.program.wait()).await;
    }
}

pub(super) async fn connect(config: ExecServerConfig) -> Result<Connected> {
    let failed = |source: BoxError| ExecutorError::Connect {
        peer: config.peer(),
        reason: reason(source),
    };
    if let Some(objection) = config.objection() {
        return Err(failed(objection.into()));
    }
    match timeout(config.connect_timeout, dial(&config)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(
            format!("no connection within {:?}", config.connect_timeout).into(),
        )),
    }
}

async fn dial(config: &ExecServerConfig) -> Result<Connected, BoxError> {
    match &config.target {
        Target::WebSocket {
            url,
            token,
            certificates,
        } => {
            let token = token.as_deref();
            let link = super::dial::websocket(url, token, certificates, config.max_frame).await?;
            let command = None;
            Ok(Connected { link, command })
        }
        Target::Command { program, args } => {
            let mut command = Command::new(program);
            command.args(args);
            let (child, stdout, stdin, words) = Program::connect(command)?;
            let link = LineLink::new(stdout, stdin, config.max_frame);
            Ok(Connected {
                link: Box::new(link),
                command: Some(Carrier {
                    name: program.to_string_lossy().into_owned(),
                    program: child,
                    words,
                }),
            })
        }
    }
}
