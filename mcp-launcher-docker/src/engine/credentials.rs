//! Credentials of registries, as `docker login` has stored them.

use std::path::Path;
use std::time::Duration;

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use docker_credential::DockerCredential::{IdentityToken, UsernamePassword};
use docker_credential::{CredentialRetrievalError as Problem, get_credential_from_reader};
use hyper::header::HeaderValue;
use mcp_lifecycle_core::backend::program;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::endpoint::{Surroundings, resolve};

const HUB: &str = "https://index.docker.io/v1/";

/// The user name of an identity token.
const TOKEN: &str = "<token>";

/// Returns the credentials for the registry of an image, from the docker CLI's configuration or the
/// helper program that it names, which is killed with what it started at the limit, or when this
/// future is dropped. An error quotes no secret.
pub(super) async fn of(image: &str, limit: Duration) -> Result<Option<DockerCredentials>, String> {
    let Some(directory) = Surroundings::of_this_process().config_directory() else {
        return Ok(None);
    };
    let late = |_| format!("no credential helper answers within {limit:?}");
    let found = timeout(limit, stored(&directory, registry(image)));
    found.await.map_err(late)?
}

async fn stored(directory: &Path, registry: &str) -> Result<Option<DockerCredentials>, String> {
    let mut config = resolve::config(directory).map_err(|error| error.to_string())?;
    // Nothing could end a helper that `docker_credential` runs.
    let mut take = |name| config.get_mut(name).map(Value::take).unwrap_or_default();
    let (helpers, store) = (take("credHelpers"), take("credsStore"));
    let found = match &helpers[registry] {
        Value::String(_) => Err(Problem::NoCredentialConfigured),
        _ => get_credential_from_reader(config.to_string().as_bytes(), registry),
    };
    let helper = helpers[registry].as_str().or(store.as_str());
    let found = match (found, helper) {
        (Ok(IdentityToken(token)), _) => Some((TOKEN.to_owned(), token)),
        (Ok(UsernamePassword(user, password)), _) => Some((user, password)),
        (Err(Problem::NoCredentialConfigured), Some(helper)) => ask(helper, registry).await?,
        (Err(Problem::NoCredentialConfigured), None) => None,
        (Err(problem), _) => return Err(problem.to_string()),
    };
    let Some((user, secret)) = found else {
        return Ok(None);
    };
    let mut credentials = DockerCredentials::default();
    match &*user {
        TOKEN => credentials.identitytoken = Some(secret),
        _ => (credentials.username, credentials.password) = (Some(user), Some(secret)),
    }
    credentials.serveraddress = Some(registry.to_owned());
    Ok(Some(credentials))
}

async fn ask(helper: &str, registry: &str) -> Result<Option<(String, String)>, String> {
    let program = format!("docker-credential-{helper}");
    let mut command = Command::new(&program);
    command.arg("get");
    let answer = program::ask(command, registry.as_bytes()).await;
    let (status, said) = answer.map_err(|error| format!("{program}: {error}"))?;
    let text = String::from_utf8_lossy(&said);
    let found = match status.success() {
        true => serde_json::from_str(&text).unwrap_or(Value::Null),
        false if text.contains("credentials not found") => return Ok(None),
        false => Value::Null,
    };
    let part = |name| Some(found[name].as_str()?.to_owned());
    let found = part("Username").zip(part("Secret"));
    found.map(Some).ok_or_else(|| format!("{program} failed"))
}

/// Returns the registry of an image, by the docker CLI's rule.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some(("docker.io" | "index.docker.io", _)) | None => HUB,
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        Some(_) => HUB,
    }
}

/// Writes the header with credentials in the alphabet that the engine reads, which is not bollard's.
pub(super) fn readable(mut request: BollardRequest) -> BollardRequest {
    if let Some(header) = request.headers_mut().get_mut("x-registry-auth") {
        let text = header.to_str().unwrap_or_default();
        let text = text.replace('+', "-").replace('/', "_");
        *header = HeaderValue::from_str(&text).unwrap_or_else(|_| header.clone());
        header.set_sensitive(true);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::within;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const SECRET: &str = "hunter2";

    fn read(config: &str) -> Result<Option<DockerCredentials>, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("config.json"), config).unwrap();
        within("it is read", stored(directory.path(), "reg.io"))
    }

    #[test]
    fn stored_credentials_are_found_by_their_registry() {
        let config =
            |registry| format!(r#"{{"auths": {{"{registry}": {{"auth": "dTpodW50ZXIy"}}}}}}"#);
        let found = read(&config("reg.io")).unwrap().unwrap();
        assert_eq!(found.username.as_deref(), Some("u"));
        assert_eq!(found.password.as_deref(), Some(SECRET));
        assert_eq!(found.serveraddress.as_deref(), Some("reg.io"));
        assert_eq!(read(&config("other.io")), Ok(None));
        let token = r#"{"auths": {"reg.io": {"identitytoken": "hunter2"}}}"#;
        let found = read(token).unwrap().unwrap();
        assert_eq!(found.identitytoken.as_deref(), Some(SECRET));
        let absent = stored(Path::new("/nowhere"), "reg.io");
        assert_eq!(within("it is read", absent), Ok(None));
    }

    #[test]
    fn unreadable_credentials_are_not_quoted() {
        for config in [
            r#"{"auths": {"reg.io": {"auth": hunter2}}}"#,
            r#"{"auths": {"reg.io": {"auth": "hunter2"}}}"#,
            r#"{"auths": ["hunter2"]}"#,
        ] {
            let error = read(config).unwrap_err();
            assert!(!error.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn a_credential_helper_is_run_and_bounded() {
        const ME: &str = "engine::credentials::tests::a_credential_helper_is_run_and_bounded";
        let own = tempfile::tempdir().unwrap();
        let path = own.path().display();
        let variables = format!("export DOCKER_CONFIG={path} PATH={path}:$PATH");
        if !crate::alone::is_alone(ME, &variables) {
            return;
        }
        let own = std::env::var_os("DOCKER_CONFIG").unwrap();
        let at = |name: &str| Path::new(&own).join(name);
        let config = r#"{"auths": {"reg.io": {}}, "credsStore": "test"}"#;
        fs::write(at("config.json"), config).unwrap();
        let answer = |script: &str, limit| {
            fs::write(at("new"), format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(at("new"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(at("new"), at("docker-credential-test")).unwrap();
            let found = crate::control::CONTROL.run(async move { of("reg.io/a", limit).await });
            within("it is bounded", found).map_err(|error| error.to_string())
        };
        let long = Duration::from_secs(30);
        let named =
            r#"test "$1 $(cat)" = "get reg.io" && echo '{"Username":"u","Secret":"hunter2"}'"#;
        let found = answer(named, long).unwrap().unwrap();
        assert_eq!(found.password.as_deref(), Some(SECRET));
        let none = "cat >/dev/null; echo credentials not found in native keychain; exit 1";
        assert_eq!(answer(none, long), Ok(None));
        let error = answer("cat >/dev/null; echo hunter2; exit 1", long).unwrap_err();
        assert_eq!(error, "docker-credential-test failed");

        // A helper that hangs is killed with what it started, which holds the other end.
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let fifo = at("fifo");
        let (sender, ended) = std::sync::mpsc::channel();
        let held = fifo.clone();
        std::thread::spawn(move || sender.send(fs::read(held).is_ok()));
        let hangs = format!("exec 9>{}; sleep 300 & sleep 300", fifo.display());
        let error = answer(&hangs, Duration::from_secs(2)).unwrap_err();
        assert!(error.contains("within 2s"), "{error}");
        assert_eq!(ended.recv_timeout(long), Ok(true), "the helper lives");
    }

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
