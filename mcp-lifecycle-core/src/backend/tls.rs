//! TLS with certificates and keys of PEM files, with errors that name the file.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::launch::BoxError;

/// Makes a client's configuration, with its own certificate and key, if any.
pub fn client(roots: RootCertStore, own: Option<(&Path, &Path)>) -> Result<ClientConfig, BoxError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some((certificate, file)) = own else {
        return Ok(config.with_no_client_auth());
    };
    let chain = chain(certificate, &read(certificate)?)?;
    let config = config.with_client_auth_cert(chain, key(file, &read(file)?)?);
    config.map_err(|error| named(certificate, error))
}

pub fn chain(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| named(file, error))?;
    match chain.is_empty() {
        true => Err(named(file, "there is no certificate in it")),
        false => Ok(chain),
    }
}

pub fn key(file: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, BoxError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => named(file, "there is no private key in it"),
        error => named(file, error),
    })
}

pub fn roots(file: &Path, pem: &[u8]) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(file, pem)? {
        roots.add(certificate).map_err(|error| named(file, error))?;
    }
    Ok(roots)
}

pub fn read(file: &Path) -> Result<Vec<u8>, BoxError> {
    std::fs::read(file).map_err(|error| named(file, error))
}

pub fn named(file: &Path, problem: impl Display) -> BoxError {
    format!("{}: {problem}", file.display()).into()
}
