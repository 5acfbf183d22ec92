//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser};

/// Starts MCP servers on this machine for clients elsewhere, and never loses one.
///
/// Speaks the protocol of `codex exec-server`, and more with clients that know
/// it. Whatever a client started is ended when the client asks, when it has been
/// silent for the lease, and when this program ends, however it ends.
#[derive(Debug, Parser)]
#[command(name = "mcp-executor", version)]
#[command(group = ArgGroup::new("transport").required(true).args(["listen", "stdio"]), after_help = "\
Examples:
  ssh host mcp-executor --stdio
      Serve one client over ssh: nothing listens, ssh authenticates.
  mcp-executor --listen unix:/run/user/1000/mcp-executor
      Serve this user's programs on this machine; the kernel says who connects.
  mcp-executor --listen ws://127.0.0.1:0
      Listen on a free port of this machine; the URL is printed on stdout.
  mcp-executor --listen wss://0.0.0.0:7443 --token-file token --tls-cert cert.pem --tls-key key.pem
      Listen for other machines.

Token and certificate files are read again when they have changed.
Readiness: GET http://ADDRESS/readyz answers 200. Logs go to stderr; RUST_LOG sets
their level. SIGTERM or SIGINT ends every server in order, tells its client, then ends
the program; a second one skips the graces. The exit code is 0 when everything is
proven gone, 3 when something is not, 1 when it could not start, 2 for wrong usage.")]
pub(crate) struct Cli {
    /// Listen for WebSocket clients; port 0 takes a free one. A socket file is
    /// for this user and root only.
    #[arg(long, value_name = "ws[s]://IP:PORT|unix:PATH", value_parser = parse_listen)]
    pub(crate) listen: Option<Listen>,

    /// Serve one client on standard input and output, until they close.
    #[arg(long)]
    pub(crate) stdio: bool,

    #[command(flatten)]
    pub(crate) door: Door,

    /// Serve numbers for Prometheus at http://IP:PORT/metrics, on loopback only.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// How long a silent client keeps its servers, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = parse_seconds)]
    pub(crate) lease: f64,

    /// How many servers one client may have.
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_processes: u32,

    /// The largest message, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_frame: u16,
}

/// Tokens and certificates that clients and daemon show each other over a network.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "stdio")]
pub(crate) struct Door {
    /// A file with the bearer token that clients must show; nobody else may be
    /// able to read it. MCP_EXECUTOR_TOKEN in the environment does as well.
    /// Required unless the address is loopback. Given several times, the clients
    /// of each token have a share of their own.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Vec<PathBuf>,

    /// The certificate chain for wss://, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The authorities that sign the certificates which clients have to show, in PEM. Then a
    /// token is not required.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

/// Where to listen.
#[derive(Debug, Clone)]
pub(crate) enum Listen {
    Network { address: SocketAddr, secure: bool },
    File(PathBuf),
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("expected a path after unix:".to_owned()),
            path => Ok(Listen::File(path.into())),
        };
    }
    let (secure, address) = match (text.strip_prefix("ws://"), text.strip_prefix("wss://")) {
        (Some(address), _) => (false, address),
        (_, Some(address)) => (true, address),
        _ => return Err("expected ws://IP:PORT, wss://IP:PORT or unix:PATH".to_owned()),
    };
    let address = address.trim_end_matches('/').parse();
    let address = address.map_err(|_| "expected an IP address and a port".to_owned())?;
    Ok(Listen::Network { address, secure })
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds between 0.1 and 86400".to_owned()),
    }
}
