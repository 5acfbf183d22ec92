use std::path::Path;
use std::sync::Arc;

use mcp_lifecycle_core::backend::tls::named;
use mcp_lifecycle_core::launch::BoxError;
use subtle::ConstantTimeEq;

use super::private::open_secret;
use super::reload::Reloading;

/// A bearer token. `Debug` shows nothing of it.
///
/// A token file is reloaded when it has changed: the earlier token is then refused, but existing
/// connections continue.
#[derive(Clone)]
pub struct Token {
    name: Arc<str>,
    secret: Arc<Reloading<Vec<u8>>>,
}

/// Minimum length: shorter ones could be guessed over the network.
const MINIMUM: usize = 16;

impl Token {
    /// Takes the token from text; surrounding space is ignored. Fails if it is too short, or no
    /// header can carry it.
    pub fn new(secret: &str) -> Result<Self, BoxError> {
        let secret = check(secret)?;
        let secret = Reloading::new(Vec::new(), move || Ok(secret.clone()))?;
        Ok(Self {
            name: "token".into(),
            secret: Arc::new(secret),
        })
    }

    /// Takes the token from a file that only its owner can read. The file's path is the name of the
    /// token: it occurs in the log and the metrics, and tokens of one name share a quota.
    pub fn from_file(path: &Path) -> Result<Self, BoxError> {
        let file = path.to_owned();
        let secret = Reloading::new(vec![file.clone()], move || read(&file))?;
        Ok(Self {
            name: path.to_string_lossy().into(),
            secret: Arc::new(secret),
        })
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn opens(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked(7))
        else {
            return false;
        };
        let secret = self.secret.current();
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(secret.ct_eq(given.trim_ascii()))
    }
}

/// Returns the token in this header, in constant time.
pub(super) fn shown<'a>(tokens: &'a [Token], authorization: Option<&[u8]>) -> Option<&'a Token> {
    // Compares all of them.
    let ask = |found, token: &'a Token| match token.opens(authorization) {
        true => Some(token),
        false => found,
    };
    tokens.iter().fold(None, ask)
}

fn check(secret: &str) -> Result<Vec<u8>, BoxError> {
    let secret = secret.trim();
    let length = secret.len();
    if length < MINIMUM {
        let text = format!("the token has {length} characters; use at least {MINIMUM} random ones");
        return Err(text.into());
    }
    if secret.chars().any(char::is_control) {
        let text = "the token has a line break or another control character in it; \
                    no client can send that";
        return Err(text.into());
    }
    Ok(secret.as_bytes().to_vec())
}

fn read(path: &Path) -> Result<Vec<u8>, BoxError> {
    let text = open_secret(path).and_then(std::io::read_to_string);
    check(&text.map_err(|error| named(path, error))?)
}

mcp_lifecycle_core::debug_fields! { Token, it { name: &it.name } }

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
            let error = Token::from_file(path).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
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
        let error = Token::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("belongs to user 65534"), "{error}");
    }

    #[test]
    fn a_token_that_no_client_can_send_is_refused() {
        let error = Token::new("0123456789\nabcdef").unwrap_err().to_string();
        assert!(error.contains("control character"), "{error}");
    }
}
