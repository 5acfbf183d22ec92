//! A connection to an engine behind ssh, as the docker CLI makes it: by its own
//! `docker system dial-stdio` over there.

use std::io;
use std::process::Stdio;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Starts ssh, which is killed when its handle is dropped.
pub(super) fn connect(url: &str) -> io::Result<(Child, ChildStdout, ChildStdin)> {
    let mut child = Command::new("ssh")
        .args(arguments(url))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    match (child.stdout.take(), child.stdin.take()) {
        (Some(stdout), Some(stdin)) => Ok((child, stdout, stdin)),
        _ => Err(io::Error::other("ssh has no standard streams")),
    }
}

/// For `ssh://[USER@]HOST[:PORT]`.
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
    // A connection that died without a word ends after three of these.
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
