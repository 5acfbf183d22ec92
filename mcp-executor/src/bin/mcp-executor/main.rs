//! `mcp-executor`: starts MCP servers on this machine for clients elsewhere.

mod cli;
mod listen;
mod log;
mod service;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use mcp_executor::{Daemon, Limits};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{BoxError, ErrorChain, ServerLauncher};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Cli;

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
    // A pending read of stdin would block the runtime's shutdown.
    std::process::exit(code)
}

/// Serves until the end. Returns how many processes are not proven gone.
async fn run(cli: Cli) -> Result<usize, BoxError> {
    service::raise_descriptor_limit();
    let mut limits = Limits::default();
    limits.lease = Duration::from_secs_f64(cli.lease);
    limits.max_processes = cli.max_processes as usize;
    limits.max_frame = usize::from(cli.max_frame) << 20;

    // Signals first: one during the start must not kill the program midway.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let launcher = LocalLauncher::new();
    // Semantics must be known before the first client launches anything.
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
    // In its own task, so that clients are refused while the daemon ends.
    let mut serving = tokio::spawn(async move {
        match listener {
            Some(listener) => {
                let url = listener.url()?;
                let line = format!("{url}\n");
                // One handle: another one's flush does not wait for its writes.
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
        // Even after a panic the servers are ended.
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
        // Ending it removes its socket file, which stays if anything is unproven, as the address
        // does.
        let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    }
    outcome.map(|()| unproven)
}

const UNPROVEN: i32 = 3;

/// Ends what an earlier run left, if it was killed together with its guardians.
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
