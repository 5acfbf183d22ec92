//! Connecting: a link to wherever the configuration says.

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;

use mcp_lifecycle_core::error::BoxError;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::config::{ExecServerConfig, Target};
use crate::ExecutorError;
use crate::error::SharedError;
use crate::link::{LineLink, Link};

/// How long a command may take to leave after its standard input was closed.
const LEAVE: Duration = Duration::from_secs(5);

/// A link and what it takes to leave nothing of it behind.
pub(super) struct Connected {
    pub(super) link: Box<dyn Link>,
    child: Option<Child>,
    #[cfg(feature = "websocket")]
    haste: Option<super::prompt::Haste>,
}

impl Connected {
    /// What the peer is: a daemon of ours needs no haste.
    pub(super) fn peer_is_ours(&self, ours: bool) {
        #[cfg(feature = "websocket")]
        if let Some(haste) = &self.haste {
            haste.set(!ours);
        }
        #[cfg(not(feature = "websocket"))]
        let _ = ours;
    }

    /// Closes the link; waits for the command behind it, if there is one.
    pub(super) fn close(self) -> impl Future<Output = ()> + Send + 'static {
        let Self { link, child, .. } = self;
        drop(link);
        async move {
            if let Some(mut child) = child
                && tokio::time::timeout(LEAVE, child.wait()).await.is_err()
            {
                let _ = child.kill().await;
            }
        }
    }
}

/// Connects, within the configured time.
pub(super) async fn connect(config: ExecServerConfig) -> Result<Connected, ExecutorError> {
    let failed = |source: BoxError| ExecutorError::Connect {
        peer: config.peer(),
        source: SharedError::new(source),
    };
    match tokio::time::timeout(config.connect_timeout, dial(&config)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(
            format!("no connection within {:?}", config.connect_timeout).into(),
        )),
    }
}

async fn dial(config: &ExecServerConfig) -> Result<Connected, BoxError> {
    match &config.target {
        #[cfg(feature = "websocket")]
        Target::WebSocket {
            url,
            token,
            certificates,
        } => {
            let (link, haste) =
                super::dial::websocket(url, token.as_deref(), certificates, config.max_frame)
                    .await?;
            Ok(Connected {
                link,
                child: None,
                haste,
            })
        }
        Target::Command { program, args } => {
            let mut command = Command::new(program);
            command
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            // Ctrl-C in the host's terminal is the host's business.
            #[cfg(unix)]
            command.process_group(0);
            let mut child = command.spawn()?;
            let stdin = child.stdin.take().ok_or("no standard input")?;
            let stdout = child.stdout.take().ok_or("no standard output")?;
            if let Some(stderr) = child.stderr.take() {
                tokio::spawn(trace_lines(stderr, config.peer()));
            }
            let link = LineLink::new(stdout, stdin, config.max_frame);
            Ok(Connected {
                link: Box::new(link),
                child: Some(child),
                #[cfg(feature = "websocket")]
                haste: None,
            })
        }
    }
}

/// What the command says on standard error goes to the trace, bounded per line.
async fn trace_lines(stderr: tokio::process::ChildStderr, peer: String) {
    use tokio::io::AsyncReadExt;
    const LINE: u64 = 4096;
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(read) = (&mut stderr).take(LINE).read_until(b'\n', &mut line).await {
        if read == 0 {
            return;
        }
        tracing::info!(%peer, "{}", String::from_utf8_lossy(line.trim_ascii_end()));
        line.clear();
    }
}
