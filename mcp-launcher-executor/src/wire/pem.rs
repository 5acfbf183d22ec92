//! Certificates and keys from PEM files, with errors that name the file.

use std::fmt::Display;
use std::path::Path;

use mcp_lifecycle_core::launch::BoxError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    chain_in(file, &read(file)?)
}

pub fn chain_in(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| named(file, error))?;
    match chain.is_empty() {
        true => Err(named(file, "there is no certificate in it")),
        false => Ok(chain),
    }
}

pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>, BoxError> {
    key_in(file, &read(file)?)
}

pub fn key_in(file: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, BoxError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => named(file, "there is no private key in it"),
        error => named(file, error),
    })
}

pub fn roots(file: &Path) -> Result<RootCertStore, BoxError> {
    roots_in(file, &read(file)?)
}

pub fn roots_in(file: &Path, pem: &[u8]) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain_in(file, pem)? {
        roots.add(certificate).map_err(|error| named(file, error))?;
    }
    Ok(roots)
}

fn read(file: &Path) -> Result<Vec<u8>, BoxError> {
    std::fs::read(file).map_err(|error| named(file, error))
}

pub fn named(file: &Path, problem: impl Display) -> BoxError {
    format!("{}: {problem}", file.display()).into()
}
