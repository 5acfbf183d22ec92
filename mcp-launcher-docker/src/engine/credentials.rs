//! Credentials of a registry: as the docker CLI stores them, or Podman, or a helper
//! program of theirs.

mod helper;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::{BollardRequest, Docker};
use docker_credential::{CredentialRetrievalError as Problem, DockerCredential};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::warn;

use super::EngineError;

/// The longest time a helper may take: it may ask a person to unlock something.
const LIMIT: Duration = Duration::from_secs(60);

/// So many look at a time. A file that never ends to be opened keeps its place.
static PLACES: Semaphore = Semaphore::const_new(8);

/// The name under which the CLI stores what opens Docker Hub.
const HUB: &str = "https://index.docker.io/v1/";

/// Podman's name for it, and its file.
const PODMANS_HUB: &str = "docker.io";
const PODMANS: &str = "containers/auth.json";

/// As much of a file is read: more than anybody's configuration.
const LONGEST: u64 = 1 << 20;

/// The stored credentials of a registry.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) credentials: Option<DockerCredentials>,
    /// The files that could not be read, and why: the credentials may be in one of these.
    pub(super) unread: Vec<String>,
}

/// The credentials for the registry of this image, looked for so long.
pub(super) async fn of(image: &str, limit: Duration) -> Result<Stored, EngineError> {
    let registry = registry(image);
    let limit = limit.min(LIMIT);
    let failed = |problem: String| EngineError::Credentials {
        registry: registry.to_owned(),
        problem,
    };
    let Ok(looked) = timeout(limit, look(registry, files())).await else {
        let late = format!("its credential helper has not answered within {limit:?}");
        return Err(failed(late));
    };
    let stored = looked.map_err(failed)?;
    if !stored.unread.is_empty() {
        let problem = stored.unread.join("; ");
        warn!(
            registry,
            problem, "credentials of a registry cannot be read"
        );
    }
    Ok(stored)
}

/// A file with credentials.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// The name that Docker Hub has in it.
    hub: &'static str,
}

/// The files in which the docker CLI stores credentials, and after it Podman.
fn files() -> Vec<File> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = |below: &str| variable("HOME").map(|home| home.join(below));
    let docker = variable("DOCKER_CONFIG").or_else(|| home(".docker"));
    let podman = match variable("REGISTRY_AUTH_FILE") {
        Some(named) => vec![Some(named)],
        None => vec![
            variable("XDG_RUNTIME_DIR").map(|at| at.join(PODMANS)),
            home(".config").map(|at| at.join(PODMANS)),
            docker.as_ref().map(|at| at.join(PODMANS)),
        ],
    };
    let file = |hub| move |path| File { path, hub };
    let docker = docker.map(|at| at.join("config.json"));
    let docker = docker.into_iter().map(file(HUB));
    let podman = podman.into_iter().flatten().map(file(PODMANS_HUB));
    docker.chain(podman).collect()
}

/// The first credentials in these files. A helper program that fails is an error.
async fn look(registry: &str, files: Vec<File>) -> Result<Stored, String> {
    let place = PLACES.acquire().await.map_err(|error| error.to_string())?;
    // One that is a pipe is waited for without a limit.
    let read = spawn_blocking(move || {
        let read = |file: File| (read(&file.path), file);
        (files.into_iter().map(read).collect::<Vec<_>>(), place)
    });
    let (files, _place) = read.await.map_err(|error| error.to_string())?;
    let mut stored = Stored::default();
    for (content, File { path, hub }) in files {
        let name = match registry {
            HUB => hub,
            other => other,
        };
        let content = match content {
            Ok(content) => content,
            Err(error) if is_absent(&error) => continue,
            Err(error) => {
                let problem = format!("{} cannot be read: {error}", path.display());
                stored.unread.push(problem);
                continue;
            }
        };
        let found = match entry(&content, name) {
            Ok(Entry::Credentials(found)) => Some(found),
            Ok(Entry::Helper(program)) => helper::ask(&program, name).await?,
            Err(Problem::NoCredentialConfigured) => None,
            Err(Problem::ConfigReadError) => {
                let why = malformed(&content);
                stored.unread.push(format!("{} is {why}", path.display()));
                None
            }
            Err(problem) => return Err(format!("{problem}, as {} has it", path.display())),
        };
        if let Some(found) = found {
            stored.credentials = Some(given(found, registry));
            break;
        }
    }
    Ok(stored)
}

/// The entry of a file for a registry.
enum Entry {
    Credentials(DockerCredential),
    /// The program that has them.
    Helper(String),
}

/// Reads a file as `docker_credential` does, which would wait for a helper without a
/// limit: helpers are taken out of what it is given.
fn entry(content: &[u8], name: &str) -> Result<Entry, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Helpers {
        cred_helpers: Option<std::collections::HashMap<String, String>>,
        creds_store: Option<String>,
    }

    let unread = |_| Problem::ConfigReadError;
    let helpers: Helpers = serde_json::from_slice(content).map_err(unread)?;
    let program = |helper: String| Entry::Helper(format!("docker-credential-{helper}"));
    let own = helpers.cred_helpers.and_then(|mut all| all.remove(name));
    if let Some(helper) = own.filter(|helper| !helper.is_empty()) {
        return Ok(program(helper));
    }
    let mut rest: serde_json::Map<_, _> = serde_json::from_slice(content).map_err(unread)?;
    rest.retain(|key, _| key == "auths");
    let rest = serde_json::to_vec(&rest).map_err(unread)?;
    match docker_credential::get_credential_from_reader(&rest[..], name) {
        Ok(found) => Ok(Entry::Credentials(found)),
        Err(Problem::NoCredentialConfigured) => {
            let store = helpers.creds_store.filter(|store| !store.is_empty());
            store.map(program).ok_or(Problem::NoCredentialConfigured)
        }
        Err(problem) => Err(problem),
    }
}

/// The content of a file, as far as it is a configuration's.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LONGEST).read_to_end(&mut content)?;
    Ok(content)
}

/// Tells a file that is not there, also because its directory is none.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// The problem with a file, and its place: none of its words, which may be secrets.
fn malformed(content: &[u8]) -> String {
    match serde_json::from_slice::<serde::de::IgnoredAny>(content) {
        Ok(_) => "not a configuration of docker's".to_owned(),
        Err(error) => format!("no JSON (line {} column {})", error.line(), error.column()),
    }
}

fn given(found: DockerCredential, registry: &str) -> DockerCredentials {
    let serveraddress = Some(registry.to_owned());
    match found {
        DockerCredential::UsernamePassword(username, password) => DockerCredentials {
            username: Some(username),
            password: Some(password),
            serveraddress,
            ..DockerCredentials::default()
        },
        DockerCredential::IdentityToken(token) => DockerCredentials {
            identitytoken: Some(token),
            serveraddress,
            ..DockerCredentials::default()
        },
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
