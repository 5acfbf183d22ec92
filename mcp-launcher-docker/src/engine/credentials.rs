//! Credentials of a registry: as the docker CLI stores them, or Podman, or a helper
//! program of theirs.

use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::{BollardRequest, Docker};
use docker_credential::{CredentialRetrievalError as Problem, DockerCredential};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::EngineError;

/// How long a helper may take: it may ask a person to unlock something.
const LIMIT: Duration = Duration::from_secs(60);

/// So many helpers at a time. One that hangs keeps its place.
static PLACES: Semaphore = Semaphore::const_new(8);

/// The name under which the CLI stores what opens Docker Hub.
const HUB: &str = "https://index.docker.io/v1/";

/// Credentials for the registry of this image; `None` where nothing is stored.
pub(super) async fn of(image: &str) -> Result<Option<DockerCredentials>, EngineError> {
    let registry = registry(image);
    let failed = |problem: &str| EngineError::Credentials {
        registry: registry.to_owned(),
        problem: problem.to_owned(),
    };
    let late = || failed("no answer within a minute");
    let place = timeout(LIMIT, PLACES.acquire()).await;
    let place = place.ok().and_then(Result::ok).ok_or_else(late)?;
    let (sender, found) = oneshot::channel();
    let name = registry.to_owned();
    // A thread of its own: a helper is waited for without a limit.
    std::thread::Builder::new()
        .name("mcp-docker-auth".to_owned())
        .spawn(move || {
            let _place = place;
            // Or nobody waits any more.
            let _ = sender.send(look(&name));
        })?;
    match timeout(LIMIT, found).await {
        Ok(Ok(found)) => found.map_err(|problem| failed(&problem)),
        Ok(Err(_)) | Err(_) => Err(late()),
    }
}

fn look(registry: &str) -> Result<Option<DockerCredentials>, String> {
    let found = match docker_credential::get_credential(registry) {
        // Podman's name for it.
        Err(problem) if is_nothing(&problem) => match registry {
            HUB => docker_credential::get_podman_credential("docker.io"),
            other => docker_credential::get_podman_credential(other),
        },
        found => found,
    };
    let serveraddress = Some(registry.to_owned());
    match found {
        Ok(DockerCredential::UsernamePassword(username, password)) => Ok(Some(DockerCredentials {
            username: Some(username),
            password: Some(password),
            serveraddress,
            ..DockerCredentials::default()
        })),
        Ok(DockerCredential::IdentityToken(token)) => Ok(Some(DockerCredentials {
            identitytoken: Some(token),
            serveraddress,
            ..DockerCredentials::default()
        })),
        Err(problem) if is_nothing(&problem) => Ok(None),
        // What it printed may be a secret.
        Err(Problem::HelperFailure { helper, .. }) => Err(format!("`{helper}` failed")),
        Err(problem) => Err(problem.to_string()),
    }
}

/// Tells the absence of credentials, or of a readable configuration, from a helper that failed.
fn is_nothing(problem: &Problem) -> bool {
    match problem {
        Problem::NoCredentialConfigured | Problem::ConfigNotFound | Problem::ConfigReadError => {
            true
        }
        // The words that all helpers have in common.
        Problem::HelperFailure { stdout, .. } => stdout.contains("credentials not found"),
        _ => false,
    }
}

/// The registry that an image is pulled from, by the rule of the docker CLI.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some(("docker.io" | "index.docker.io", _)) => HUB,
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => HUB,
    }
}

/// The client with the header that the engine reads: bollard writes it in another
/// alphabet, and the engine then takes some passwords for none.
pub(super) fn readable(docker: Docker) -> Docker {
    docker.with_request_modifier(|mut request: BollardRequest| {
        if let Some(value) = request.headers_mut().get_mut("x-registry-auth") {
            let text = value.as_bytes().iter().map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                &other => other,
            });
            let text: Vec<u8> = text.collect();
            if let Ok(mut readable) = hyper::header::HeaderValue::from_bytes(&text) {
                readable.set_sensitive(true);
                *value = readable;
            }
        }
        request
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_the_first_part_if_it_looks_like_a_host() {
        for (image, expected) in [
            ("alpine", HUB),
            ("me/alpine:1", HUB),
            ("docker.io/library/alpine", HUB),
            ("localhost/a", "localhost"),
            ("localhost:5000/a", "localhost:5000"),
            ("ghcr.io/a/b@sha256:00", "ghcr.io"),
        ] {
            assert_eq!(registry(image), expected, "{image}");
        }
    }
}
