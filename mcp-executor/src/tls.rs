use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use mcp_lifecycle_core::backend::tls;
use mcp_lifecycle_core::launch::BoxError;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use super::private::open_secret;
use super::reload::Reloading;

/// A certificate chain and its key, and the authority of clients, if they need a certificate.
///
/// Changed files are reloaded, so that a renewed certificate needs no restart. Existing connections
/// continue.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<Reloading<rustls::ServerConfig>>,
    asks_clients: bool,
}

impl TlsIdentity {
    /// Reads PEM files. The key must be readable by its owner only, this user or root.
    ///
    /// With `client_ca`, clients need a certificate that is signed by one of this file's
    /// authorities.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, BoxError> {
        let files = [Some(certificate), Some(key), client_ca];
        let files = files.into_iter().flatten().map(Path::to_owned).collect();
        let (chain_file, key_file) = (certificate.to_owned(), key.to_owned());
        let ca_file = client_ca.map(Path::to_owned);
        let config = Reloading::new(files, move || {
            server_config(&chain_file, &key_file, ca_file.as_deref())
        });
        Ok(Self {
            config: Arc::new(config?),
            asks_clients: client_ca.is_some(),
        })
    }

    /// Returns whether clients need a certificate.
    pub fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.current())
    }
}

fn server_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<rustls::ServerConfig, BoxError> {
    let mut pem = Vec::new();
    open_secret(key)
        .and_then(|mut file| file.read_to_end(&mut pem))
        .map_err(|error| tls::named(key, error))?;
    let chain = tls::chain(certificate, &tls::read(certificate)?)?;
    let secret = tls::key(key, &pem)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match client_ca {
        Some(file) => {
            let roots = Arc::new(tls::roots(file, &tls::read(file)?)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            config.with_client_cert_verifier(verifier.build()?)
        }
        None => config.with_no_client_auth(),
    };
    Ok(config.with_single_cert(chain, secret)?)
}
