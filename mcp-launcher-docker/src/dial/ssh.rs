//! A connection to an engine over ssh, made like the docker CLI's: by `docker system dial-stdio` on
//! the remote side.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;

use tokio::io::{AsyncReadExt, join};
use tokio::process::{ChildStderr, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::io::InspectReader;

const KEPT: usize = 1024;

/// Longest wait for its last stderr output after the connection ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Ssh {
    url: String,
    /// Last stderr output of the latest ssh, once it has ended.
    words: Lock<watch::Receiver<Option<String>>>,
}

impl Ssh {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            words: Lock::new(watch::channel(None).1),
        }
    }

    /// Starts an ssh in its own process group, beyond terminal signals. Dropping its streams kills it.
    pub(super) fn connect(&self) -> io::Result<impl super::Stream + use<>> {
        let mut child = Command::new("ssh")
            .process_group(0)
            .args(arguments(&self.url))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdout, stdin) = (child.stdout.take(), child.stdin.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = (stdout, stdin, child.stderr.take()) else {
            return Err(io::Error::other("ssh has no standard streams"));
        };
        let (sender, words) = watch::channel(None);
        drop(tokio::spawn(listen(stderr, sender)));
        *self.words.lock() = words;
        // The reader owns the child.
        let stdout = InspectReader::new(stdout, move |_: &[u8]| {
            let _ = &child;
        });
        Ok(join(stdout, stdin))
    }

    /// Waits briefly for the end of the latest ssh and returns its stderr output.
    pub(super) async fn last_words(&self) -> Option<String> {
        let mut words = self.words.lock().clone();
        let said = timeout(LAST_WORDS, words.wait_for(Option::is_some)).await;
        let said = said.ok()?.ok()?.clone()?;
        (!said.is_empty()).then(|| format!("ssh: {said}"))
    }
}

async fn listen(mut stderr: ChildStderr, words: watch::Sender<Option<String>>) {
    let (mut said, mut some) = (Vec::new(), [0; KEPT]);
    while let Ok(1..) = stderr.read(&mut some).await.inspect(|&n| {
        said.extend_from_slice(&some[..n]);
        let excess = said.len().saturating_sub(KEPT);
        said.drain(..excess);
    }) {}
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    words.send_replace(Some(lines.join("; ")));
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
