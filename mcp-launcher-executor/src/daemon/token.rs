//! [`Token`]: the shared secret that opens the daemon.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subtle::ConstantTimeEq;
use thiserror::Error;

use super::private::{Unfit, open_secret};
use super::reload::Reloading;

/// A bearer token. `Debug` shows nothing of it.
///
/// One that was read from a file is read again when the file has changed: the
/// earlier one then opens nothing more, and what it has opened goes on.
#[derive(Clone)]
pub struct Token {
    name: Arc<str>,
    secret: Secret,
}

#[derive(Clone)]
enum Secret {
    Given(Vec<u8>),
    InFile(Arc<Reloading<Vec<u8>>>),
}

/// A token could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("token file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others on this machine can read it.
    #[error(
        "token file {} can be read by others (mode {mode:03o}); run `chmod 600` on it",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another user knows it.
    #[error("token file {} belongs to user {uid}, neither this one nor root", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// The token is too short to be a secret.
    #[error("the token has {0} characters; use at least {MINIMUM} random ones")]
    TooShort(
        /// How many it has.
        usize,
    ),
    /// It has a character that no HTTP header can carry.
    #[error(
        "the token has a line break or another control character in it; no client can send that"
    )]
    Unsendable,
}

/// Shorter ones could be guessed over the network.
const MINIMUM: usize = 16;

impl Token {
    /// Takes the token from text; space around it is ignored.
    ///
    /// # Errors
    ///
    /// [`TokenError::TooShort`] or [`TokenError::Unsendable`].
    pub fn new(secret: &str) -> Result<Self, TokenError> {
        Ok(Self {
            name: "token".into(),
            secret: Secret::Given(check(secret)?),
        })
    }

    /// Takes the token from a file that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`TokenError`] names the file and what to do.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        // Once for an error of its own type; later ones are logged.
        read(path)?;
        let file = path.to_owned();
        let secret = Reloading::new(vec![file.clone()], move || Ok(read(&file)?));
        let secret = secret.map_err(|error| TokenError::Read {
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })?;
        Ok(Self {
            name: path.to_string_lossy().into(),
            secret: Secret::InFile(Arc::new(secret)),
        })
    }

    /// Gives it another name than that of its file. The name is no secret: the log and
    /// the metrics have it. Tokens of one name are one share.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether this header carries the token; takes as long whatever it says.
    fn opens(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked(7))
        else {
            return false;
        };
        let opens = |secret: &[u8]| bool::from(secret.ct_eq(given.trim_ascii()));
        scheme.eq_ignore_ascii_case(b"bearer ")
            && match &self.secret {
                Secret::Given(secret) => opens(secret),
                Secret::InFile(secret) => opens(&secret.current()),
            }
    }
}

/// Which of the tokens this header carries; takes as long whatever it says.
pub(super) fn shown<'a>(tokens: &'a [Token], authorization: Option<&[u8]>) -> Option<&'a Token> {
    // Every one is asked.
    let ask = |found, token: &'a Token| match token.opens(authorization) {
        true => Some(token),
        false => found,
    };
    tokens.iter().fold(None, ask)
}

fn check(secret: &str) -> Result<Vec<u8>, TokenError> {
    let secret = secret.trim();
    if secret.len() < MINIMUM {
        return Err(TokenError::TooShort(secret.len()));
    }
    if secret.chars().any(char::is_control) {
        return Err(TokenError::Unsendable);
    }
    Ok(secret.as_bytes().to_vec())
}

fn read(path: &Path) -> Result<Vec<u8>, TokenError> {
    let failed = |source| TokenError::Read {
        path: path.to_owned(),
        source,
    };
    let file = open_secret(path).map_err(|unfit| {
        let path = path.to_owned();
        match unfit {
            Unfit::Io(source) => TokenError::Read { path, source },
            Unfit::Exposed(mode) => TokenError::Exposed { path, mode },
            Unfit::Foreign(uid) => TokenError::Foreign { path, uid },
        }
    })?;
    check(&std::io::read_to_string(file).map_err(failed)?)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ***)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_opens() {
        let token = Token::new("0123456789abcdef\n").unwrap();
        assert!(token.opens(Some(b"Bearer 0123456789abcdef")));
        assert!(token.opens(Some(b"bearer  0123456789abcdef ")));
        for bad in [
            &b""[..],
            b"Bearer",
            b"Bearer ",
            b"Basic 0123456789abcdef",
            b"Bearer 0123456789abcdeg",
        ] {
            assert!(!token.opens(Some(bad)));
        }
        assert!(!token.opens(None));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef").unwrap();
        let mode = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode));
        mode(0o640).unwrap();
        let error = Token::from_file(file.path()).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        mode(0o600).unwrap();
        let token = Token::from_file(file.path()).unwrap();
        std::fs::write(file.path(), "a-newer-token-than-that").unwrap();
        assert!(!token.opens(Some(b"Bearer 0123456789abcdef")));
        assert!(token.opens(Some(b"Bearer a-newer-token-than-that")));
    }

    #[test]
    fn a_file_that_is_none_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [&*path, directory.path()] {
            let error = Token::from_file(path).unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("not a regular file"), "{error}: {source}");
        }
    }

    /// A file's owner can read it.
    #[test]
    fn a_file_of_another_user_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef").unwrap();
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not tried: only root can read it all the same");
            return;
        }
        std::os::unix::fs::chown(file.path(), Some(65534), None).unwrap();
        let error = Token::from_file(file.path()).unwrap_err();
        assert!(
            error.to_string().contains("belongs to user 65534"),
            "{error}"
        );
    }

    #[test]
    fn a_token_that_no_client_can_send_is_refused() {
        let error = Token::new("0123456789\nabcdef").unwrap_err();
        assert!(matches!(error, TokenError::Unsendable), "{error}");
    }
}
