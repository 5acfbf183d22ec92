//! A helper program that keeps credentials: `docker-credential-NAME get`.

use std::process::Stdio;

use docker_credential::DockerCredential;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The longest answer that is read, in bytes: more than anybody's token.
const LONGEST: u64 = 1 << 20;

/// The words that all helpers have in common for the absence of credentials.
const NOTHING: &str = "credentials not found";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// A running helper.
///
/// # Drop
///
/// Kills its process group. What has left that is not found.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let group = nix::unistd::Pid::from_raw(group);
            if is_child(group) {
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

/// Returns whether this is a child of ours that nobody has waited for: a host may ignore SIGCHLD
/// or wait for all, and then the number may be anybody's.
#[cfg(unix)]
fn is_child(pid: nix::unistd::Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid), look).is_ok()
}

/// Asks a helper for what opens a registry; `None` where it has nothing. What it prints
/// may be a secret and is in no error.
///
/// A helper that does not answer is waited for without a limit. It ends with the future.
pub(super) async fn ask(program: &str, registry: &str) -> Result<Option<DockerCredential>, String> {
    let failed = |error: std::io::Error| format!("`{program}` cannot be asked: {error}");
    let mut command = Command::new(program);
    command.arg("get").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    #[cfg(unix)]
    command.process_group(0);
    let mut helper = Helper(command.spawn().map_err(failed)?);
    if let Some(mut stdin) = helper.0.stdin.take() {
        // One that reads nothing may answer all the same.
        let _ = stdin.write_all(registry.as_bytes()).await;
    }
    let mut said = Vec::new();
    if let Some(stdout) = helper.0.stdout.take() {
        let mut stdout = stdout.take(LONGEST);
        stdout.read_to_end(&mut said).await.map_err(failed)?;
    }
    let status = helper.0.wait().await.map_err(failed)?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        return match said.contains(NOTHING) {
            true => Ok(None),
            false => Err(format!("`{program}` failed")),
        };
    }
    let answer = serde_json::from_slice(&said);
    let Answer { username, secret } =
        answer.map_err(|_| format!("`{program}` answered with no credentials"))?;
    Ok(Some(match username.as_str() {
        "<token>" => DockerCredential::IdentityToken(secret),
        _ => DockerCredential::UsernamePassword(username, secret),
    }))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_number_that_somebody_else_waited_for_is_not_killed() {
        let child = Command::new("true").spawn().unwrap();
        let pid = nix::unistd::Pid::from_raw(child.id().unwrap().try_into().unwrap());
        assert!(is_child(pid));
        nix::sys::wait::waitpid(pid, None).unwrap();
        assert!(child.id().is_some(), "the handle does not know");
        assert!(!is_child(pid));
    }
}
