//! The engine's address in the docker CLI's configuration.
//!
//! `config.json` names the current context. Its directories are `contexts/meta/DIGEST` and
//! `contexts/tls/DIGEST`; the name is searched for, which avoids computing the digest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Endpoint, EndpointError};

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
