//! [`TlsIdentity`]: the certificate that the daemon shows, and whose it accepts.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_lifecycle_core::launch::BoxError;
use rustls::server::WebPkiClientVerifier;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use super::private::open_secret;
use super::reload::Reloading;
use crate::pem;

/// A certificate chain and its key, and the authority of clients, if they have
/// to show a certificate as well.
///
/// The files are read again when they have changed, so that a renewed
/// certificate needs no restart. New connections get it; those that exist go on.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<Reloading<rustls::ServerConfig>>,
    asks_clients: bool,
}

/// The certificate, its key, or the authority of clients is of no use.
#[derive(Debug, Error)]
#[error("certificate {} with key {} cannot be used", certificate.display(), key.display())]
pub struct TlsError {
    certificate: PathBuf,
    key: PathBuf,
    #[source]
    source: BoxError,
}

impl TlsIdentity {
    /// Reads PEM files. The key must be readable by its owner only, this user
    /// or root.
    ///
    /// With `client_ca`, clients have to show a certificate that one of this
    /// file's authorities has signed.
    ///
    /// # Errors
    ///
    /// [`TlsError`] names the files; its source says what is wrong.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let files = [Some(certificate), Some(key), client_ca];
        let files = files.into_iter().flatten().map(Path::to_owned).collect();
        let (chain_file, key_file) = (certificate.to_owned(), key.to_owned());
        let ca_file = client_ca.map(Path::to_owned);
        let config = Reloading::new(files, move || {
            server_config(&chain_file, &key_file, ca_file.as_deref())
        });
        let config = config.map_err(|source| TlsError {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
        Ok(Self {
            config: Arc::new(config),
            asks_clients: client_ca.is_some(),
        })
    }

    /// Tells whether clients have to show a certificate.
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
        .map_err(|unfit| pem::named(key, unfit))?
        .read_to_end(&mut pem)?;
    let chain = pem::chain(certificate)?;
    let secret = pem::key_in(key, &pem)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match client_ca {
        Some(file) => {
            let roots = Arc::new(pem::roots(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            config.with_client_cert_verifier(verifier.build()?)
        }
        None => config.with_no_client_auth(),
    };
    Ok(config.with_single_cert(chain, secret)?)
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("files", &self.config)
            .field("asks_clients", &self.asks_clients)
            .finish()
    }
}
