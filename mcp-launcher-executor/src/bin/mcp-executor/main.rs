//! `mcp-executor`: starts MCP servers on this machine for clients elsewhere.

mod certificate;
mod cli;
mod listen;
mod log;
mod service;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use mcp_launcher_executor::daemon::{Daemon, Limits};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{BoxError, ErrorChain, ServerLauncher};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, Task};

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let log = log::begin();
    let outcome = run(cli).await;
    drop(log);
    let code = match outcome {
        Ok(0) => 0,
        Ok(unproven) => {
            log::last_words(format!(
                "{unproven} processes are not proven gone; the log names them"
            ));
            UNPROVEN
        }
        Err(error) => {
            log::last_words(ErrorChain(&*error).to_string());
            1
        }
    };
    // A read of standard input that is under way would hold the runtime up.
    std::process::exit(code)
}

/// Serves until the end; how many processes are not proven gone.
async fn run(cli: Cli) -> Result<usize, BoxError> {
    if let Some(Task::Certificate { hosts, directory }) = cli.task {
        let text = certificate::make(hosts, &directory)?;
        // One handle: the flush of another one does not wait for what this one writes.
        let mut stdout = tokio::io::stdout();
        stdout.write_all(text.as_bytes()).await?;
        stdout.flush().await?;
        return Ok(0);
    }
    service::raise_descriptor_limit();
    let mut limits = Limits::default();
    limits.lease = Duration::from_secs_f64(cli.lease);
    limits.max_processes = cli.max_processes as usize;
    limits.max_frame = usize::from(cli.max_frame) << 20;

    // Signals first: one that comes during the start must not kill us halfway.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let launcher = LocalLauncher::new();
    // Clients are told what there is before the first of them launches anything.
    launcher.probe().await;
    let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher);
    let listener = listen::bind(&cli).await?;
    let metrics = listen::bind_metrics(&cli).await?;
    let daemon = Daemon::new(launcher, limits);
    sweep(&daemon).await;
    if let Some(metrics) = metrics {
        let daemon = daemon.clone();
        tokio::spawn(async move { metrics.serve(&daemon).await });
    }
    let serves = daemon.clone();
    // On a task of its own: whoever comes while the daemon ends is sent away.
    let mut serving = tokio::spawn(async move {
        match listener {
            Some(listener) => {
                let url = listener.url()?;
                let line = format!("{url}\n");
                let mut stdout = tokio::io::stdout();
                stdout.write_all(line.as_bytes()).await?;
                stdout.flush().await?;
                service::ready(&url);
                listener.serve(&serves).await;
            }
            None => {
                service::ready("standard input");
                serves
                    .serve_stdio(tokio::io::stdin(), tokio::io::stdout())
                    .await
            }
        }
        Ok::<_, BoxError>(())
    });
    let outcome = tokio::select! {
        // Also by a panic: the servers are ended all the same.
        outcome = &mut serving => outcome.unwrap_or_else(|error| Err(error.into())),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    service::stopping();
    let unproven = {
        let mut shutdown = std::pin::pin!(daemon.shutdown());
        loop {
            tokio::select! {
                unproven = &mut shutdown => break unproven,
                _ = terminate.recv() => daemon.hurry(),
                _ = interrupt.recv() => daemon.hurry(),
            }
        }
    };
    if unproven == 0 && !serving.is_finished() {
        // A socket file is removed with it. In doubt it stays, as the address does.
        let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    }
    outcome.map(|()| unproven)
}

/// The exit code when something may have survived the end in order.
const UNPROVEN: i32 = 3;

/// Ends what an earlier run left behind, if it was killed together with its guards.
async fn sweep(daemon: &Daemon) {
    match daemon.sweep().await {
        Ok(report) if report.is_complete() && report.ended.is_empty() => {}
        Ok(report) => tracing::warn!(
            ended = report.ended.len(),
            failed = report.failed.len(),
            unknown = report.unknown.len(),
            "swept what an earlier run left behind"
        ),
        Err(error) => tracing::warn!(error = %ErrorChain(&error), "cannot sweep"),
    }
}
