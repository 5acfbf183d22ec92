use std::ffi::OsStr;
use std::fmt;

use super::ServerSpec;

/// Prints a server's command, quoted for a shell, with likely secrets masked.
///
/// Masked are the value of `--token=…` and the like, the argument after `--token` and the like, and
/// the password inside a URL. This is a heuristic: a secret belongs into the environment, which is
/// never printed.
#[derive(Debug, Clone, Copy)]
pub struct DisplayCommand<'a> {
    spec: &'a ServerSpec,
}

const BLANK: &str = "***";

const SECRET_WORDS: &str = "token secret password passwd api-key apikey api_key credential auth";

impl ServerSpec {
    /// Returns the command as typed in a shell, with likely secrets masked.
    pub fn display_command(&self) -> DisplayCommand<'_> {
        DisplayCommand { spec: self }
    }
}

impl fmt::Display for DisplayCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spec.program() {
            Some(program) => f.write_str(&quote(program))?,
            None => write!(f, "<default command of {}>", self.spec.name())?,
        }
        let mut blank_next = false;
        for arg in self.spec.args() {
            let text = arg.to_string_lossy();
            let shown = if std::mem::take(&mut blank_next) {
                BLANK.to_owned()
            } else {
                match text.split_once('=') {
                    Some((name, _)) if is_secret(name) => format!("{name}={BLANK}"),
                    Some(_) => quote(blank_url(&text)),
                    None => {
                        blank_next = text.starts_with('-') && is_secret(&text);
                        quote(blank_url(&text))
                    }
                }
            };
            write!(f, " {shown}")?;
        }
        Ok(())
    }
}

fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    SECRET_WORDS.split(' ').any(|word| option.contains(word))
}

fn blank_url(text: &str) -> String {
    let blanked = || {
        let (scheme, rest) = text.split_once("://")?;
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (user_info, _) = rest[..authority_end].rsplit_once('@')?;
        let (user, _) = user_info.split_once(':')?;
        Some(format!(
            "{scheme}://{user}:{BLANK}{}",
            &rest[user_info.len()..]
        ))
    };
    blanked().unwrap_or_else(|| text.to_owned())
}

/// Quotes a word for a shell, if it has to be.
pub fn quote(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> String {
        let spec = ServerSpec::builder("s", "srv").args(args).build().unwrap();
        spec.display_command().to_string()
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(shown(&["-c", "a b", "it's"]), r"srv -c 'a b' 'it'\''s'");
        assert_eq!(shown(&[""]), "srv ''");
    }

    #[test]
    fn what_looks_like_a_secret_is_blanked() {
        assert_eq!(shown(&["--token", "abc", "x"]), "srv --token *** x");
        assert_eq!(shown(&["--api-key=abc"]), "srv --api-key=***");
        assert_eq!(
            shown(&["postgres://me:pw@host/db"]),
            "srv 'postgres://me:***@host/db'"
        );
    }
}
