use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Endpoint, EndpointError};

/// The variables and paths that determine the engine, of this process, of a server, or of a test.
/// Not `Debug`: it holds the values of the environment.
#[derive(Clone)]
pub(crate) struct Surroundings {
    env: BTreeMap<OsString, OsString>,
    /// Prefix of sockets' absolute paths; empty outside tests.
    root: PathBuf,
}

impl Surroundings {
    pub(crate) fn of_this_process() -> Self {
        Self::with_env(std::env::vars_os())
    }

    pub(crate) fn with_env(env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            env: env.into_iter().collect(),
            root: PathBuf::from("/"),
        }
    }

    pub(crate) fn resolve(&self) -> Result<Endpoint, EndpointError> {
        if let Some(host) = self.text("DOCKER_HOST") {
            return Ok(self.with_tls(Endpoint::from_url(&host)?));
        }
        if let Some(directory) = self.config_directory() {
            let name = match self.text("DOCKER_CONTEXT") {
                Some(name) => Some(name),
                None => current(&directory)?,
            };
            if let Some(name) = name.filter(|name| name != "default") {
                return endpoint(&directory, &name);
            }
        }
        let candidates = self.candidates();
        match candidates.iter().find(|path| path.exists()) {
            Some(path) => Ok(Endpoint::Unix(path.clone())),
            None => Err(EndpointError::NotFound(candidates)),
        }
    }

    fn candidates(&self) -> Vec<PathBuf> {
        let runtime = self.path("XDG_RUNTIME_DIR");
        let mut paths = vec![self.root.join("var/run/docker.sock")];
        paths.extend(runtime.iter().map(|dir| dir.join("docker.sock")));
        paths.extend(runtime.iter().map(|dir| dir.join("podman/podman.sock")));
        paths.push(self.root.join("run/podman/podman.sock"));
        paths
    }

    fn with_tls(&self, endpoint: Endpoint) -> Endpoint {
        let verify = self.text("DOCKER_TLS_VERIFY").is_some();
        match endpoint {
            Endpoint::Tcp(address) if verify => self.tls(address),
            Endpoint::Tls { address, .. } => self.tls(address),
            other => other,
        }
    }

    fn tls(&self, address: String) -> Endpoint {
        let certificates = self.certificates();
        Endpoint::Tls {
            address,
            certificates,
        }
    }

    pub(super) fn certificates(&self) -> PathBuf {
        let certificates = self.path("DOCKER_CERT_PATH");
        certificates
            .or_else(|| self.config_directory())
            .unwrap_or_default()
    }

    pub(crate) fn config_directory(&self) -> Option<PathBuf> {
        let home = || self.path("HOME").map(|home| home.join(".docker"));
        self.path("DOCKER_CONFIG").or_else(home)
    }

    fn text(&self, name: &str) -> Option<String> {
        let value = self.env.get(OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let value = self.env.get(OsStr::new(name))?;
        (!value.is_empty()).then(|| Path::new(value).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }

        fn resolve(&self, env: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
            let home = [(OsString::from("HOME"), self.0.path().join("home").into())];
            let env = env.iter().map(|(n, v)| (n.into(), v.into()));
            let mut surroundings = Surroundings::with_env(home.into_iter().chain(env));
            surroundings.root = self.0.path().to_owned();
            surroundings.resolve()
        }

        fn with_context(self, name: &str, host: &str) -> Self {
            let meta = serde_json::json!({
                "Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}},
            });
            self.file(
                "home/.docker/contexts/meta/abc/meta.json",
                &meta.to_string(),
            );
            self
        }
    }

    #[test]
    fn the_environment_beats_the_context_and_the_context_the_socket() {
        let machine = Machine::new().with_context("lab", "unix:///lab.sock");
        machine.file("home/.docker/config.json", r#"{"currentContext":"lab"}"#);
        machine.file("var/run/docker.sock", "");
        let lab = Endpoint::Unix("/lab.sock".into());
        assert_eq!(machine.resolve(&[]).unwrap(), lab);
        assert_eq!(
            machine
                .resolve(&[("DOCKER_HOST", "unix:///x"), ("DOCKER_CONTEXT", "lab")])
                .unwrap(),
            Endpoint::Unix("/x".into())
        );
        let default = machine.resolve(&[("DOCKER_CONTEXT", "default")]);
        assert!(matches!(
            default.unwrap(),
            Endpoint::Unix(path) if path.ends_with("var/run/docker.sock")
        ));
        assert!(matches!(
            machine.resolve(&[("DOCKER_CONTEXT", "none")]),
            Err(EndpointError::NoContext(name)) if name == "none"
        ));
    }

    #[test]
    fn without_docker_podman_is_found() {
        let machine = Machine::new();
        let socket = machine.file("run/podman/podman.sock", "");
        assert_eq!(machine.resolve(&[]).unwrap(), Endpoint::Unix(socket));
        let empty = Machine::new().resolve(&[]).unwrap_err().to_string();
        assert!(empty.contains("podman.sock"), "{empty}");
    }

    #[test]
    fn certificates_come_from_the_environment_or_the_context() {
        let machine = Machine::new().with_context("far", "tcp://far:2376");
        let env = [("DOCKER_HOST", "tcp://h:1"), ("DOCKER_TLS_VERIFY", "1")];
        assert!(matches!(
            machine.resolve(&env).unwrap(),
            Endpoint::Tls { address, certificates }
                if address == "h:1" && certificates.ends_with("home/.docker")
        ));
        let far = [("DOCKER_CONTEXT", "far")];
        assert_eq!(
            machine.resolve(&far).unwrap(),
            Endpoint::Tcp("far:2376".into())
        );
        machine.file("home/.docker/contexts/tls/abc/docker/ca.pem", "");
        assert!(matches!(
            machine.resolve(&far).unwrap(),
            Endpoint::Tls { .. }
        ));
    }

    #[test]
    fn a_broken_configuration_is_named() {
        let machine = Machine::new();
        machine.file("home/.docker/config.json", "{");
        let error = machine.resolve(&[]).unwrap_err().to_string();
        assert!(error.contains("config.json"), "{error}");
        assert!(matches!(
            machine.resolve(&[("DOCKER_HOST", "localhost")]),
            Err(EndpointError::Scheme(_))
        ));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    name: String,
    #[serde(default)]
    endpoints: Endpoints,
}

#[derive(Deserialize, Default)]
struct Endpoints {
    docker: Option<DockerEndpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerEndpoint {
    host: String,
}

/// Returns the contents of `config.json`.
pub(crate) fn config(directory: &Path) -> Result<Value, EndpointError> {
    let path = directory.join("config.json");
    match read(&path)? {
        Some(text) => parse(&path, &text),
        None => Ok(json!({})),
    }
}

pub(super) fn current(directory: &Path) -> Result<Option<String>, EndpointError> {
    let config = config(directory)?;
    let name = config["currentContext"].as_str();
    Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
}

pub(super) fn endpoint(directory: &Path, name: &str) -> Result<Endpoint, EndpointError> {
    let missing = || EndpointError::NoContext(name.to_owned());
    let metas = fs::read_dir(directory.join("contexts/meta")).map_err(|_| missing())?;
    for entry in metas.flatten() {
        let path = entry.path().join("meta.json");
        let Some(text) = read(&path)? else { continue };
        let meta: Meta = parse(&path, &text)?;
        if meta.name != name {
            continue;
        }
        let host = meta.endpoints.docker.ok_or_else(missing)?.host;
        let tls = directory.join("contexts/tls").join(entry.file_name());
        let certificates = tls.join("docker");
        return Ok(match Endpoint::from_url(&host)? {
            Endpoint::Tcp(address) | Endpoint::Tls { address, .. } if certificates.is_dir() => {
                Endpoint::Tls {
                    address,
                    certificates,
                }
            }
            other => other,
        });
    }
    Err(missing())
}

fn read(path: &PathBuf) -> Result<Option<String>, EndpointError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn parse<'a, T: Deserialize<'a>>(path: &Path, text: &'a str) -> Result<T, EndpointError> {
    serde_json::from_str(text).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> EndpointError {
    EndpointError::Configuration {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}
