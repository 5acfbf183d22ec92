//! The random name of a ledger directory, generated at its first use.

use std::io::{self, Read};
use std::time::SystemTime;

use super::home::{Home, PRIVATE};
use mcp_lifecycle_core::backend::random;

pub(super) const NAME: &str = "domain";
const LENGTH: usize = 32;

pub(super) fn of(home: &Home) -> io::Result<String> {
    match read(home)? {
        Some(found) => Ok(found),
        None => put(home, &random::id()?),
    }
}

pub(super) fn read(home: &Home) -> io::Result<Option<String>> {
    let file = match home.open_file(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LENGTH as u64 + 1).read_to_string(&mut text)?;
    if text.len() != LENGTH {
        let path = home.path().join(NAME);
        let problem = format!("{} is damaged; remove it", path.display());
        return Err(io::Error::other(problem));
    }
    Ok(Some(text))
}

/// Makes sure that the directory keeps this name and that the file is recent.
pub(super) fn keep(home: &Home, domain: &str) -> io::Result<()> {
    match home.open_file(NAME) {
        Ok(file) => file.set_modified(SystemTime::now()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => put(home, domain).map(drop),
        Err(error) => Err(error),
    }
}

/// Names the directory, unless another process was first; then returns that name. Atomic.
fn put(home: &Home, domain: &str) -> io::Result<String> {
    let nascent = format!("{NAME}.{}", random::id()?);
    let mut file = home.create_new(&nascent, PRIVATE)?;
    let written = super::write(&mut file, domain.as_bytes());
    let linked = written.and_then(|()| home.link(&nascent, NAME));
    home.remove(&nascent)?;
    match linked {
        Ok(()) => Ok(domain.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            read(home)?.ok_or_else(gone)
        }
        Err(error) => Err(error),
    }
}
