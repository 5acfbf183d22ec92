//! A helper program that keeps credentials: `docker-credential-NAME get`.

use docker_credential::DockerCredential;
use mcp_lifecycle_host::helper;
use serde::Deserialize;
use tokio::process::Command;

/// The words that all helpers have in common for the absence of credentials.
const NOTHING: &str = "credentials not found";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks a helper for what opens a registry; `None` where it has nothing. What it prints
/// may be a secret and is in no error.
///
/// A helper that does not answer is waited for without a limit. It ends with the future.
pub(super) async fn ask(program: &str, registry: &str) -> Result<Option<DockerCredential>, String> {
    let mut command = Command::new(program);
    command.arg("get");
    let answer = helper::ask(command, registry.as_bytes()).await;
    let answer = answer.map_err(|error| format!("`{program}` cannot be asked: {error}"))?;
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.said);
        return match said.contains(NOTHING) {
            true => Ok(None),
            false => Err(format!("`{program}` failed")),
        };
    }
    let answer = serde_json::from_slice(&answer.said);
    let Answer { username, secret } =
        answer.map_err(|_| format!("`{program}` answered with no credentials"))?;
    Ok(Some(match username.as_str() {
        "<token>" => DockerCredential::IdentityToken(secret),
        _ => DockerCredential::UsernamePassword(username, secret),
    }))
}
