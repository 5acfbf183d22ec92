//! A connection to an engine over ssh, made like the docker CLI's: by `docker system dial-stdio` on
//! the remote side.

use std::io;

use mcp_lifecycle_core::backend::program::{LastWords, Program};
use mcp_lifecycle_core::lock::Lock;

use tokio::io::join;
use tokio::process::Command;
use tokio_util::io::InspectReader;

#[derive(Debug)]
pub(crate) struct Ssh {
    url: String,
    /// The words of the latest ssh.
    words: Lock<Option<LastWords>>,
}

impl Ssh {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            words: Lock::default(),
        }
    }

    /// Starts an ssh. Dropping its streams kills it.
    pub(super) fn connect(&self) -> io::Result<impl super::Stream + use<>> {
        let mut command = Command::new("ssh");
        command.args(arguments(&self.url));
        let (program, stdout, stdin, words) = Program::connect(command)?;
        *self.words.lock() = Some(words);
        let stdout = InspectReader::new(stdout, move |_: &[u8]| {
            let _ = &program;
        });
        Ok(join(stdout, stdin))
    }

    pub(super) async fn last_words(&self) -> Option<String> {
        let mut words = self.words.lock().clone()?;
        Some(format!("ssh: {}", words.hear().await?))
    }
}

fn arguments(url: &str) -> Vec<String> {
    let rest = url.trim_start_matches("ssh://");
    let rest = rest.split('/').next().unwrap_or(rest);
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, rest),
    };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, Some(port)),
        _ => (host, None),
    };
    let host = host.trim_matches(['[', ']']);
    // A dead connection ends after three of these intervals.
    let options = ["BatchMode=yes", "ServerAliveInterval=15"];
    let mut all = vec!["-T".to_owned()];
    all.extend(options.map(|option| format!("-o{option}")));
    for (flag, value) in [("-l", user), ("-p", port)] {
        all.extend(
            value
                .into_iter()
                .flat_map(|value| [flag.to_owned(), value.to_owned()]),
        );
    }
    all.push("--".to_owned());
    all.push(host.to_owned());
    all.extend(["docker", "system", "dial-stdio"].map(str::to_owned));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_address_are_arguments() {
        let words = |url| arguments(url)[3..].join(" ");
        assert_eq!(words("ssh://h"), "-- h docker system dial-stdio");
        assert_eq!(
            words("ssh://me@h:2222/x"),
            "-l me -p 2222 -- h docker system dial-stdio"
        );
        assert_eq!(
            words("ssh://[::1]:22"),
            "-p 22 -- ::1 docker system dial-stdio"
        );
        assert_eq!(words("ssh://-oX=y"), "-- -oX=y docker system dial-stdio");
    }
}
