//! A connection to an engine over TLS, with the docker CLI's certificates.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
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
        let unusable = |name: &str, error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", at(name).display()))
        };
        let read = |name: &str| {
            let found = CertificateDer::pem_file_iter(at(name));
            let found = found.and_then(Iterator::collect::<Result<Vec<_>, _>>);
            found.map_err(|error| unusable(name, &error))
        };
        let mut roots = RootCertStore::empty();
        for root in read("ca.pem")? {
            roots
                .add(root)
                .map_err(|error| unusable("ca.pem", &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let config = match at("cert.pem").exists() {
            true => {
                let key = PrivateKeyDer::from_pem_file(at("key.pem"));
                let key = key.map_err(|error| unusable("key.pem", &error))?;
                let config = config.with_client_auth_cert(read("cert.pem")?, key);
                config.map_err(|error| unusable("cert.pem", &error))?
            }
            false => config.with_no_client_auth(),
        };
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
