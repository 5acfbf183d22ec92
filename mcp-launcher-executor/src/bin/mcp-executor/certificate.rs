//! `mcp-executor certificate`: a self-signed certificate for a first try.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::BoxError;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::ServerName;

/// Writes `cert.pem` and `key.pem` for these names; what to do with them.
///
/// Neither may be there: it may be in use.
pub(crate) fn make(hosts: Vec<String>, directory: &Path) -> Result<String, BoxError> {
    for host in &hosts {
        ServerName::try_from(host.as_str())
            .map_err(|_| format!("`{host}` is neither a host's name nor an IP address"))?;
    }
    let first = hosts.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(hosts)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "mcp-executor");
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let (certificate_file, key_file) = (directory.join("cert.pem"), directory.join("key.pem"));
    let made = write(&key_file, 0o600, &key.serialize_pem())?;
    write(&certificate_file, 0o644, &certificate.pem())?.keep();
    made.keep();
    let (certificate_file, key_file) = (certificate_file.display(), key_file.display());
    Ok(format!(
        "{certificate_file}: the certificate; copy it to clients, which trust it by `trust`\n\
         {key_file}: its key; it stays here\n\n\
         mcp-executor --listen wss://0.0.0.0:7443 --token-file token --tls-cert {certificate_file} --tls-key {key_file}\n\
         and for clients: wss://{first}:7443\n"
    ))
}

/// A file that was written, which is removed again unless it is kept.
struct Written(Option<PathBuf>);

impl Written {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn write(path: &Path, mode: u32, text: &str) -> Result<Written, BoxError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!(
            "{} exists already; move it away, or choose another --directory",
            path.display()
        ),
        _ => format!("{} cannot be written: {error}", path.display()),
    };
    // Exclusively: no link is followed.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut file = options.open(path).map_err(failed)?;
    let written = Written(Some(path.to_owned()));
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(written)
}
