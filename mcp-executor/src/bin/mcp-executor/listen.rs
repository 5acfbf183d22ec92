use std::env::VarError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mcp_executor::{Listener, MetricsListener, TlsIdentity, Token};
use mcp_lifecycle_core::launch::BoxError;

use crate::cli::{Cli, Listen};

const TOKEN: &str = "MCP_EXECUTOR_TOKEN";

pub(crate) async fn bind(cli: &Cli) -> Result<Option<Listener>, BoxError> {
    match &cli.listen {
        None => {
            token_is_not_used("standard input is its only client");
            Ok(None)
        }
        Some(Listen::File(path)) => bind_file(cli, path).await.map(Some),
        Some(Listen::Network { address, secure }) => {
            bind_network(cli, *address, *secure).await.map(Some)
        }
    }
}

async fn bind_file(cli: &Cli, path: &Path) -> Result<Listener, BoxError> {
    if !cli.door.token_file.is_empty() || cli.door.tls_cert.is_some() {
        return Err("a socket file needs neither --token-file nor --tls-cert: \
                    only this user and root can connect to it"
            .into());
    }
    token_is_not_used("the kernel tells who connects");
    let bound = Listener::bind_unix(path).await;
    bound.map_err(|error| explain(error, &path.display().to_string(), "another path"))
}

async fn bind_network(cli: &Cli, address: SocketAddr, secure: bool) -> Result<Listener, BoxError> {
    let tokens = tokens(&cli.door.token_file)?;
    let tls = match (&cli.door.tls_cert, &cli.door.tls_key, secure) {
        (Some(certificate), Some(key), true) => Some(TlsIdentity::from_files(
            certificate,
            key,
            cli.door.tls_client_ca.as_deref(),
        )?),
        (None, None, false) => None,
        (_, _, true) => return Err("wss:// needs --tls-cert and --tls-key".into()),
        (_, _, false) => return Err("--tls-cert and --tls-key need a wss:// address".into()),
    };
    if !secure && !address.ip().is_loopback() {
        tracing::warn!("the token crosses the network unencrypted; wss:// would protect it");
    }
    let bound = Listener::bind(address, tokens, tls).await;
    bound.map_err(|error| {
        explain(
            error,
            &address.to_string(),
            "another port, or 0 for a free one",
        )
    })
}

fn tokens(files: &[PathBuf]) -> Result<Vec<Token>, BoxError> {
    if !files.is_empty() {
        return files.iter().map(|file| Token::from_file(file)).collect();
    }
    match std::env::var(TOKEN) {
        Ok(secret) => Ok(vec![Token::new(&secret)?]),
        Err(VarError::NotPresent) => Ok(Vec::new()),
        Err(VarError::NotUnicode(_)) => Err(format!("{TOKEN} is not UTF-8").into()),
    }
}

pub(crate) async fn bind_metrics(cli: &Cli) -> Result<Option<MetricsListener>, BoxError> {
    let Some(address) = cli.metrics else {
        return Ok(None);
    };
    let bound = MetricsListener::bind(address).await;
    let place = format!("{address} for metrics");
    let bound =
        bound.map_err(|error| explain(error, &place, "another port, or 0 for a free one"))?;
    tracing::info!(url = bound.url()?, "metrics are served");
    Ok(Some(bound))
}

fn explain(error: std::io::Error, place: &str, instead: &str) -> BoxError {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{place} is in use by another program; choose {instead}").into()
        }
        _ => format!("cannot listen on {place}: {error}").into(),
    }
}

fn token_is_not_used(why: &str) {
    if std::env::var_os(TOKEN).is_some() {
        tracing::warn!("{TOKEN} is not used: {why}");
    }
}
