//! Dialling a WebSocket.

use std::path::Path;

use mcp_lifecycle_core::error::BoxError;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;

use super::prompt::{Haste, Prompt};
use crate::link::{Link, WebSocketLink, websocket_config};

/// A WebSocket at `url`, with a bearer token.
pub(super) async fn websocket(
    url: &str,
    token: Option<&str>,
    ca_file: Option<&Path>,
    max_frame: usize,
) -> Result<(Box<dyn Link>, Haste), BoxError> {
    let mut request = url.into_client_request()?;
    if let Some(token) = token {
        let mut value: tokio_tungstenite::tungstenite::http::HeaderValue =
            format!("Bearer {token}").parse()?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let uri = request.uri();
    let host = uri.host().ok_or("the URL has no host")?;
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err("the URL is neither ws:// nor wss://".into()),
    };
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    let (stream, haste) = Prompt::new(stream);
    let config = Some(websocket_config(max_frame));
    if secure {
        let link = tls(request, &host, stream, config, ca_file).await?;
        return Ok((link, haste));
    }
    let (socket, _) = client_async_with_config(request, stream, config).await?;
    Ok((Box::new(WebSocketLink::new(socket)), haste))
}

type Request = tokio_tungstenite::tungstenite::handshake::client::Request;
type Config = Option<tokio_tungstenite::tungstenite::protocol::WebSocketConfig>;

#[cfg(not(feature = "wss"))]
async fn tls(
    _: Request,
    _: &str,
    _: Prompt,
    _: Config,
    _: Option<&Path>,
) -> Result<Box<dyn Link>, BoxError> {
    Err("this build has no `wss` feature".into())
}

#[cfg(feature = "wss")]
async fn tls(
    request: Request,
    host: &str,
    stream: Prompt,
    config: Config,
    ca_file: Option<&Path>,
) -> Result<Box<dyn Link>, BoxError> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use std::sync::Arc;

    let mut roots = rustls::RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for certificate in CertificateDer::pem_file_iter(file)? {
                roots.add(certificate?)?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from(host.to_owned())?;
    let stream = connector.connect(name, stream).await?;
    let (socket, _) = client_async_with_config(request, stream, config).await?;
    Ok(Box::new(WebSocketLink::new(socket)))
}
