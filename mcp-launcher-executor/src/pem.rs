//! Certificates and keys from PEM files, with errors that name the file.

use std::fmt::Display;
use std::path::Path;

use mcp_lifecycle_core::launch::BoxError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificates of a file, of which there is at least one.
pub(crate) fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    chain_in(file, &read(file)?)
}

/// The certificates in what was read of a file.
pub(crate) fn chain_in(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| named(file, error))?;
    match chain.is_empty() {
        true => Err(named(file, "there is no certificate in it")),
        false => Ok(chain),
    }
}

/// The private key in a file.
pub(crate) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, BoxError> {
    key_in(file, &read(file)?)
}

/// The private key in what was read of a file.
pub(crate) fn key_in(file: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, BoxError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => named(file, "there is no private key in it"),
        error => named(file, error),
    })
}

/// The certificates of a file as those that others are signed by.
pub(crate) fn roots(file: &Path) -> Result<RootCertStore, BoxError> {
    roots_in(file, &read(file)?)
}

/// As [`roots`], in what was read of a file.
pub(crate) fn roots_in(file: &Path, pem: &[u8]) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain_in(file, pem)? {
        roots.add(certificate).map_err(|error| named(file, error))?;
    }
    Ok(roots)
}

fn read(file: &Path) -> Result<Vec<u8>, BoxError> {
    std::fs::read(file).map_err(|error| named(file, error))
}

/// An error that names a file and its problem.
pub(crate) fn named(file: &Path, problem: impl Display) -> BoxError {
    format!("{}: {problem}", file.display()).into()
}
