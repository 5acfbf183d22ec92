//! [`TlsIdentity`]: the certificate that the daemon shows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_lifecycle_core::error::BoxError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// A certificate chain and its key.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) acceptor: TlsAcceptor,
}

/// The certificate or its key is of no use.
#[derive(Debug, Error)]
#[error("certificate {} or key {} cannot be used", certificate.display(), key.display())]
pub struct TlsError {
    certificate: PathBuf,
    key: PathBuf,
    #[source]
    source: BoxError,
}

impl TlsIdentity {
    /// From PEM files.
    ///
    /// # Errors
    ///
    /// [`TlsError`] names the files; its source says what is wrong.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        load(certificate, key).map_err(|source| TlsError {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })
    }
}

fn load(certificate: &Path, key: &Path) -> Result<TlsIdentity, BoxError> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsIdentity {
        acceptor: TlsAcceptor::from(Arc::new(config)),
    })
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}
