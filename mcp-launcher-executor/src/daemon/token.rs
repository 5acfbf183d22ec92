//! [`Token`]: the shared secret that opens the daemon.

use std::fmt;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;
use thiserror::Error;

/// A bearer token. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Token(Vec<u8>);

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
    /// Too short to be a secret.
    #[error("the token has {0} characters; use at least {MINIMUM} random ones")]
    TooShort(
        /// How many it has.
        usize,
    ),
}

/// Shorter ones could be guessed over the network.
const MINIMUM: usize = 16;

impl Token {
    /// From text; space around it is ignored.
    ///
    /// # Errors
    ///
    /// [`TokenError::TooShort`].
    pub fn new(secret: &str) -> Result<Self, TokenError> {
        let secret = secret.trim();
        if secret.len() < MINIMUM {
            return Err(TokenError::TooShort(secret.len()));
        }
        Ok(Self(secret.as_bytes().to_vec()))
    }

    /// From a file that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`TokenError`] names the file and what to do.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Of the open file, so that it cannot be replaced in between.
            let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                let path = path.to_owned();
                return Err(TokenError::Exposed { path, mode });
            }
        }
        Self::new(&std::io::read_to_string(file).map_err(failed)?)
    }

    /// Whether this header carries the token; takes as long whatever it says.
    pub(super) fn opens(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked(7))
        else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(self.0.ct_eq(given.trim_ascii()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
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
        Token::from_file(file.path()).unwrap();
    }
}
