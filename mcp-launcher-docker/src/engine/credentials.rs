//! Credentials of registries, as `docker login` has stored them.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;
use std::time::Duration;

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use docker_credential::CredentialRetrievalError as Problem;
use docker_credential::DockerCredential::{IdentityToken, UsernamePassword};
use hyper::header::HeaderValue;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::endpoint::Surroundings;

const HUB: &str = "https://index.docker.io/v1/";

/// Returns the credentials for the registry of an image, from the docker CLI's configuration or the
/// helper program that it names. One that exceeds the limit keeps a thread of the blocking pool. An
/// error quotes no secret.
pub(super) async fn of(image: &str, limit: Duration) -> Result<Option<DockerCredentials>, String> {
    let Some(directory) = Surroundings::of_this_process().config_directory() else {
        return Ok(None);
    };
    let registry = registry(image).to_owned();
    let read = spawn_blocking(move || stored(&directory, registry));
    match timeout(limit, read).await {
        Ok(read) => read.map_err(|error| error.to_string())?,
        Err(_) => Err(format!("no credential helper answers within {limit:?}")),
    }
}

fn stored(directory: &Path, registry: String) -> Result<Option<DockerCredentials>, String> {
    let file = match File::open(directory.join("config.json")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => BufReader::new(file.map_err(|error| error.to_string())?),
    };
    let mut credentials = DockerCredentials::default();
    match docker_credential::get_credential_from_reader(file, &registry) {
        Ok(IdentityToken(token)) => credentials.identitytoken = Some(token),
        Ok(UsernamePassword(user, password)) => {
            (credentials.username, credentials.password) = (Some(user), Some(password));
        }
        Err(Problem::NoCredentialConfigured) => return Ok(None),
        Err(Problem::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            return Ok(None);
        }
        Err(Problem::HelperFailure { helper, .. }) => return Err(format!("{helper} failed")),
        Err(problem) => return Err(problem.to_string()),
    }
    credentials.serveraddress = Some(registry);
    Ok(Some(credentials))
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::*;
    use crate::fake::within;

    const SECRET: &str = "hunter2";

    fn read(config: &str) -> Result<Option<DockerCredentials>, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("config.json"), config).unwrap();
        stored(directory.path(), "reg.io".to_owned())
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
        assert_eq!(stored(Path::new("/nowhere"), "reg.io".to_owned()), Ok(None));
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

        // It ends with this process, which holds the other end.
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut held = fs::File::options();
        let _held = held.read(true).write(true).open(at("fifo")).unwrap();
        let (begun, hangs) = (Instant::now(), format!("exec cat {}", at("fifo").display()));
        let error = answer(&hangs, Duration::from_millis(200)).unwrap_err();
        assert!(error.contains("within 200ms"), "{error}");
        assert!(begun.elapsed() < long, "{error}");
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
