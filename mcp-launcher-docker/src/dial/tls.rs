//! A connection to an engine over TLS, with the docker CLI's certificates.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mcp_lifecycle_core::backend::tls;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Tls {
    address: String,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl Tls {
    /// Reads `ca.pem`, and `cert.pem` and `key.pem` if they exist.
    pub(super) fn new(address: &str, certificates: &Path) -> io::Result<Self> {
        let at = |name: &str| certificates.join(name);
        let (certificate, key) = (at("cert.pem"), at("key.pem"));
        let own = certificate.exists().then_some((&*certificate, &*key));
        let authority = at("ca.pem");
        let config = tls::read(&authority)
            .and_then(|pem| tls::roots(&authority, &pem))
            .and_then(|roots| tls::client(roots, own));
        let config = config.map_err(io::Error::other)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self {
            address: address.to_owned(),
            name: ServerName::try_from(host).map_err(io::Error::other)?,
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    pub(super) async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = super::tcp::connect(&self.address).await?;
        self.connector.connect(self.name.clone(), stream).await
    }
}

mcp_lifecycle_core::debug_fields! { Tls, it { address: &it.address } }
