//! `mcp-executor`: starts MCP servers on this machine for clients elsewhere.

use std::env::VarError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use mcp_launcher_executor::daemon::{Daemon, Limits, Listener, TlsIdentity, Token};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::ServerLauncher;
use mcp_lifecycle_core::error::{BoxError, Report};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};

/// Starts MCP servers on this machine for clients elsewhere, and never loses one.
///
/// Speaks the protocol of `codex exec-server`, and more with clients that know
/// it. Whatever a client started is ended when the client asks, when it has been
/// silent for the lease, and when this program ends, however it ends.
#[derive(Debug, Parser)]
#[command(version, group = ArgGroup::new("transport").required(true).args(["listen", "stdio"]), after_help = "\
Examples:
  ssh host mcp-executor --stdio
      Serve one client over ssh: nothing listens, ssh authenticates.
  mcp-executor --listen ws://127.0.0.1:0
      Listen on a free port of this machine; the URL is printed on stdout.
  mcp-executor --listen wss://0.0.0.0:7443 --token-file token --tls-cert cert.pem --tls-key key.pem
      Listen for other machines.

Token and certificate files are read again when they have changed.
Readiness: GET http://ADDRESS/readyz answers 200. Logs go to stderr; RUST_LOG sets
their level. SIGTERM or SIGINT ends every server in order, tells its client, then ends
the program; a second one skips the graces. The exit code is 0 when everything is
proven gone, 3 when something is not, 1 when it could not start, 2 for wrong usage.")]
struct Cli {
    /// Listen for WebSocket clients; port 0 takes a free one.
    #[arg(long, value_name = "ws[s]://IP:PORT", value_parser = parse_listen)]
    listen: Option<Listen>,

    /// Serve one client on standard input and output, until they close.
    #[arg(long)]
    stdio: bool,

    /// A file with the bearer token that clients must show; nobody else may be
    /// able to read it. MCP_EXECUTOR_TOKEN in the environment does as well.
    /// Required unless the address is loopback.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The certificate chain for wss://, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Who signs the certificates that clients have to show, in PEM. Then a
    /// token is not required.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// How long a silent client keeps its servers, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = parse_seconds)]
    lease: f64,

    /// How many servers one client may have.
    #[arg(long, value_name = "COUNT", default_value_t = 1024)]
    max_processes: usize,

    /// The largest message, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    max_frame: u16,
}

#[derive(Debug, Clone, Copy)]
struct Listen {
    address: SocketAddr,
    secure: bool,
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    let (secure, address) = match (text.strip_prefix("ws://"), text.strip_prefix("wss://")) {
        (Some(address), _) => (false, address),
        (_, Some(address)) => (true, address),
        _ => return Err("expected ws://IP:PORT or wss://IP:PORT".to_owned()),
    };
    let address = address.trim_end_matches('/').parse();
    let address = address.map_err(|_| "expected an IP address and a port".to_owned())?;
    Ok(Listen { address, secure })
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds between 0.1 and 86400".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Said on standard error, which is what failed: that would be a panic.
        .log_internal_errors(false)
        .init();
    match run(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-executor: {}", Report(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<(), BoxError> {
    let mut limits = Limits::default();
    limits.lease = Duration::from_secs_f64(cli.lease);
    limits.max_processes = cli.max_processes;
    limits.max_frame = usize::from(cli.max_frame) << 20;

    // Signals first: one that comes during the start must not kill us halfway.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let launcher = LocalLauncher::new();
    // Clients are told what there is before the first of them launches anything.
    launcher.probe().await;
    let launcher: Arc<dyn ServerLauncher> = Arc::new(launcher);
    let listener = match cli.listen {
        Some(listen) => Some(bind(&cli, listen).await?),
        None => None,
    };
    sweep(&*launcher).await;
    let daemon = Daemon::new(launcher, limits);
    let serving = async {
        match listener {
            Some(listener) => {
                let line = format!("{}\n", listener.url()?);
                let mut stdout = tokio::io::stdout();
                stdout.write_all(line.as_bytes()).await?;
                stdout.flush().await?;
                listener.serve(&daemon).await;
            }
            None => {
                daemon
                    .serve_stdio(tokio::io::stdin(), tokio::io::stdout())
                    .await
            }
        }
        Ok::<_, BoxError>(())
    };
    let outcome = tokio::select! {
        outcome = serving => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
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
    outcome?;
    if unproven > 0 {
        eprintln!("mcp-executor: {unproven} processes are not proven gone; the log names them");
    }
    // A read of standard input that is under way would hold the runtime up.
    std::process::exit(if unproven > 0 { UNPROVEN } else { 0 })
}

/// The exit code when something may have survived the end in order.
const UNPROVEN: i32 = 3;

async fn bind(cli: &Cli, listen: Listen) -> Result<Listener, BoxError> {
    let Listen { address, secure } = listen;
    let token = match (&cli.token_file, std::env::var("MCP_EXECUTOR_TOKEN")) {
        (Some(file), _) => Some(Token::from_file(file)?),
        (None, Ok(secret)) => Some(Token::new(&secret)?),
        (None, Err(VarError::NotPresent)) => None,
        (None, Err(VarError::NotUnicode(_))) => {
            return Err("MCP_EXECUTOR_TOKEN is not UTF-8".into());
        }
    };
    if token.is_none() && cli.tls_client_ca.is_none() && !address.ip().is_loopback() {
        return Err(format!(
            "{address} can be reached from other machines; give --token-file or --tls-client-ca, or listen on 127.0.0.1"
        )
        .into());
    }
    let tls = match (&cli.tls_cert, &cli.tls_key, secure) {
        (Some(certificate), Some(key), true) => Some(TlsIdentity::from_files(
            certificate,
            key,
            cli.tls_client_ca.as_deref(),
        )?),
        (None, None, false) => None,
        (_, _, true) => return Err("wss:// needs --tls-cert and --tls-key".into()),
        (_, _, false) => return Err("--tls-cert and --tls-key need a wss:// address".into()),
    };
    if !secure && !address.ip().is_loopback() {
        tracing::warn!("the token crosses the network unencrypted; wss:// would protect it");
    }
    let bound = Listener::bind(address, token, tls).await;
    bound.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "{address} is in use by another program; choose another port, or 0 for a free one"
        )
        .into(),
        _ => format!("cannot listen on {address}: {error}").into(),
    })
}

/// What an earlier run left behind, if it was killed together with its guards.
async fn sweep(launcher: &dyn ServerLauncher) {
    match launcher.reap_orphans().await {
        Ok(report) if report.ended.is_empty() && report.failed.is_empty() => {}
        Ok(report) => tracing::warn!(
            ended = report.ended.len(),
            failed = report.failed.len(),
            "swept what an earlier run left behind"
        ),
        Err(error) => tracing::warn!(error = %Report(&error), "cannot sweep"),
    }
}
