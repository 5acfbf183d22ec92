//! The random name of a directory of leases, made up at its first use.

use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

use super::home::Home;
use mcp_lifecycle_host::random;

pub(super) const NAME: &str = "domain";
const LENGTH: usize = 32;

/// Reads the name, or makes one up.
pub(super) fn of(home: &Home) -> io::Result<String> {
    match read(home)? {
        Some(found) => Ok(found),
        None => put(home, &random::id()?),
    }
}

/// Reads the name, if there is one.
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

/// Makes sure that the directory still has this name, and that the file is not old.
pub(super) fn keep(home: &Home, domain: &str) -> io::Result<()> {
    match home.open_file(NAME) {
        Ok(file) => file.set_modified(SystemTime::now()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => put(home, domain).map(drop),
        Err(error) => Err(error),
    }
}

/// Gives the directory this name, unless somebody else was first, who then is
/// right. Whole or not at all.
fn put(home: &Home, domain: &str) -> io::Result<String> {
    let nascent = format!("{NAME}.{}", random::id()?);
    let mut file = home.create_new(&nascent, 0o600)?;
    let linked = file
        .write_all(domain.as_bytes())
        .and_then(|()| home.link(&nascent, NAME));
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

/// Removes what a host left that was killed before its file had its name.
pub(super) fn tidy(home: &Home, name: &str) {
    const AGE: Duration = Duration::from_secs(60);
    let is_nascent = name.starts_with("domain.") || name.ends_with(".new");
    let is_old = || {
        let modified = home.open_file(name)?.metadata()?.modified()?;
        let age = SystemTime::now().duration_since(modified);
        io::Result::Ok(age.is_ok_and(|age| age > AGE))
    };
    if is_nascent && is_old().unwrap_or(false) {
        // Or another host does.
        let _ = home.remove(name);
    }
}
