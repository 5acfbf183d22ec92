use mcp_lifecycle_core::launch::BoxError;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::{Response, header};

use super::config::Certificates;
use crate::link::{Counted, Link, WebSocketLink, websocket_config};
use crate::protocol::extension;

pub(super) async fn websocket(
    url: &str,
    token: Option<&str>,
    certificates: &Certificates,
    max_frame: usize,
) -> Result<Box<dyn Link>, BoxError> {
    #[cfg(unix)]
    if let Some(path) = url.strip_prefix("unix:") {
        return unix(path, max_frame).await;
    }
    let mut request = url.into_client_request()?;
    if let Some(token) = token {
        let mut value: tokio_tungstenite::tungstenite::http::HeaderValue =
            format!("Bearer {token}").parse()?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
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
        _ => return Err("the URL is none of ws://, wss:// and unix:".into()),
    };
    // Read first, so that an error of its files is the one to be reported.
    let connector = secure.then(|| connector(certificates)).transpose()?;
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = super::addresses::connect(&host, port).await?;
    stream.set_nodelay(true)?;
    let config = Some(websocket_config(max_frame));
    if let Some(connector) = connector {
        let stream = Counted::new(encrypt(connector, &host, stream).await?);
        let (mut socket, answer) = client_async_with_config(request, stream, config).await?;
        if !is_ours(&answer) {
            let socket = socket.get_mut();
            socket.after_read(|stream| acknowledge(stream.get_ref().0));
        }
        return Ok(Box::new(WebSocketLink::new(socket)));
    }
    let connected = client_async_with_config(request, Counted::new(stream), config).await;
    let (mut socket, answer) = connected.map_err(|error| match error {
        Error::Protocol(ProtocolError::HttparseError(_)) => {
            "the answer is no HTTP; if it listens with TLS, try wss://".into()
        }
        other => BoxError::from(other),
    })?;
    if !is_ours(&answer) {
        socket.get_mut().after_read(acknowledge);
    }
    Ok(Box::new(WebSocketLink::new(socket)))
}

/// Returns whether our daemon answers, which needs no quick acknowledgement.
fn is_ours<T>(answer: &Response<T>) -> bool {
    let server = answer.headers().get(header::SERVER);
    server.is_some_and(|it| it == extension::SERVER)
}

/// Acknowledges received bytes at once. The kernel resets the option, so this follows every read;
/// errors do not matter.
///
/// codex (0.169) leaves Nagle's algorithm on: its second small frame in a row waits for our
/// acknowledgement of the first, which Linux delays by 40 ms. Every call took 44 ms.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = stream.set_quickack(true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(unix)]
async fn unix(path: &str, max_frame: usize) -> Result<Box<dyn Link>, BoxError> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    let (me, it) = (nix::unistd::geteuid().as_raw(), stream.peer_cred()?.uid());
    // Root chose the path and may connect to any user.
    if ![0, me].contains(&it) && me != 0 {
        let problem = format!("its listener is user {it}, neither this one nor root");
        return Err(problem.into());
    }
    let request = "ws://localhost/".into_client_request()?;
    let config = Some(websocket_config(max_frame));
    let (socket, _) = client_async_with_config(request, Counted::new(stream), config).await?;
    Ok(Box::new(WebSocketLink::new(socket)))
}

fn connector(certificates: &Certificates) -> Result<tokio_rustls::TlsConnector, BoxError> {
    use mcp_lifecycle_core::backend::tls;

    let roots = match &certificates.trusted {
        Some(file) => tls::roots(file, &tls::read(file)?)?,
        None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
    };
    let own = certificates.own.as_ref();
    let config = tls::client(
        roots,
        own.map(|(certificate, key)| (&**certificate, &**key)),
    )?;
    Ok(tokio_rustls::TlsConnector::from(std::sync::Arc::new(
        config,
    )))
}

async fn encrypt(
    connector: tokio_rustls::TlsConnector,
    host: &str,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, BoxError> {
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())?;
    let connected = connector.connect(name, stream).await;
    connected.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(rustls::Error::InvalidMessage(_)) => {
                "the answer is no TLS; if it listens without, try ws://".into()
            }
            _ => error.into(),
        }
    })
}
