//! The settings of npm, and the project that it would look at first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha512};

use super::cached::{Record, Recorded};
use super::npx::Npm;
use super::{Refusal, require, text_of};
use crate::command::Command;
use crate::sys;

/// Settings that change nothing but a variable of the server, with their defaults.
const KNOWN: &str = "audit=true cafile= fund=true init-author-email= init-author-name= loglevel=notice \
    nodedir= omit-lockfile-registry-resolved=false package= package-lock=true \
    registry=https://registry.npmjs.org/ save-exact=false strict-ssl=true update-notifier=true yes=";

const REGISTRY: &str = "https://registry.npmjs.org/";

/// Settings that npm itself adds to the environment of what it starts.
const PASSED: &str = "cache global-prefix globalconfig init-module local-prefix node-gyp noproxy npm-version prefix \
    user-agent userconfig";

type Layer = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) cache: PathBuf,
    pub(super) prefix: PathBuf,
    pub(super) userconfig: PathBuf,
    pub(super) globalconfig: PathBuf,
    /// The variables by which npm passes them on.
    pub(super) exported: BTreeMap<String, String>,
    all: Layer,
}

impl Settings {
    /// Reads them as npm does: of itself, global, the user's, the project's, environment, options.
    pub(super) fn load(
        npm: &Npm,
        project: &Project,
        command: &Command,
        options: &[(&'static str, String)],
    ) -> Result<Self, Refusal> {
        let home = sys::variable(&command.env, "HOME").map(Path::new);
        let home = home.filter(|home| home.is_absolute());
        let home = home.ok_or(Refusal::Settings)?;
        let environment = of_environment(command)?;
        let userconfig = path_of(&environment, "userconfig", &home.join(".npmrc"))?;
        let mut all = of_file(&npm.root.join("npmrc"))?;
        let mut above = of_file(&userconfig)?;
        let project_file = project.root.join(".npmrc");
        if project_file != userconfig {
            above.extend(of_file(&project_file)?);
        }
        above.extend(environment.clone());
        let default = npm.node.ancestors().nth(2).ok_or(Refusal::Settings)?;
        let prefix = path_of(&above, "prefix", &path_of(&all, "prefix", default)?)?;
        let globalconfig = path_of(&environment, "globalconfig", &prefix.join("etc/npmrc"))?;
        let global = of_file(&globalconfig)?;
        let is_moved = global.contains_key("prefix");
        all.extend(global);
        all.extend(above);
        require(!is_moved && !all.contains_key("package"), Refusal::Settings)?;
        let mut exported = BTreeMap::new();
        let of_others = all
            .iter()
            .filter(|(key, _)| !environment.contains_key(*key));
        let of_others = of_others.map(|(key, value)| (key.as_str(), value));
        let of_options = options.iter().map(|(key, value)| (*key, value));
        for (key, value) in of_others.chain(of_options) {
            if default_of(key)?.is_some_and(|default| default != value) {
                let value = if value == "false" { "" } else { value };
                exported.insert(variable(key), value.to_owned());
            }
        }
        for key in environment.keys() {
            default_of(key)?;
        }
        let cache = path_of(&all, "cache", &home.join(".npm"))?;
        Ok(Self {
            cache,
            prefix,
            userconfig,
            globalconfig,
            exported,
            all,
        })
    }

    /// Returns the registry's last answer to npm about a package.
    pub(super) fn answer(&self, name: &str, fresh: &Range<SystemTime>) -> Result<Answer, Refusal> {
        let scope = name.split('/').next().unwrap_or_default();
        let of_scope = self.all.get(&format!("{scope}:registry"));
        let registry = of_scope.or_else(|| self.all.get("registry"));
        let registry = registry
            .map_or(REGISTRY, String::as_str)
            .trim_end_matches('/');
        let name = name.replace('/', "%2f");
        let key = format!("make-fetch-happen:request-cache:{registry}/{name}");
        let cache = self.cache.join("_cacache");
        let index = split(&cache.join("index-v5"), &Sha256::digest(&key));
        let index = text_of(&index, Refusal::Answer)?;
        let notes = index.lines().filter_map(|line| line.split_once('\t'));
        let mut notes = notes.filter_map(|(_, note)| serde_json::from_str::<Value>(note).ok());
        let note = notes.rfind(|note| note["key"] == key.as_str());
        let note = note.ok_or(Refusal::Answer)?;
        let time = note["metadata"]["time"].as_u64().map(Duration::from_millis);
        let time = time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        require(
            time.is_some_and(|time| fresh.contains(&time)),
            Refusal::Answer,
        )?;
        let digest = note["integrity"].as_str().unwrap_or_default();
        let digest = digest.strip_prefix("sha512-").unwrap_or_default();
        let digest = STANDARD.decode(digest).unwrap_or_default();
        require(digest.len() == 64, Refusal::Answer)?;
        let content = text_of(
            &split(&cache.join("content-v2/sha512"), &digest),
            Refusal::Answer,
        )?;
        require(Sha512::digest(&content)[..] == digest[..], Refusal::Answer)?;
        serde_json::from_str(&content).map_err(|_| Refusal::Answer)
    }
}

/// An answer of the registry about a package.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(rename = "dist-tags")]
    tags: BTreeMap<String, String>,
    versions: BTreeMap<String, Released>,
    #[serde(rename = "stagedVersions")]
    staged: Option<IgnoredAny>,
    #[serde(rename = "policyRestrictions")]
    restricted: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Released {
    deprecated: Option<IgnoredAny>,
}

impl Answer {
    /// Returns whether a version is that of a tag, and also what npm takes without a tag.
    pub(super) fn has(&self, tag: &str, version: &str, is_any: bool) -> bool {
        let released = self.versions.get(version);
        let is_plain = self.staged.is_none() && self.restricted.is_none();
        let is_plain = is_plain && released.is_some_and(|it| it.deprecated.is_none());
        self.tags.get(tag).is_some_and(|it| it == version) && (is_plain || !is_any)
    }
}

/// Returns the default of a setting; `None` if it is no variable of the server, or one already.
fn default_of(key: &str) -> Result<Option<&'static str>, Refusal> {
    if key.starts_with(['/', '_', '@']) || PASSED.split_whitespace().any(|it| it == key) {
        return Ok(None);
    }
    let mut known = KNOWN.split_whitespace().filter_map(|it| it.split_once('='));
    let known = known.find(|(known, _)| *known == key);
    Ok(Some(known.ok_or(Refusal::Settings)?.1))
}

fn path_of(layer: &Layer, key: &str, default: &Path) -> Result<PathBuf, Refusal> {
    let path = layer.get(key).map_or(default, Path::new);
    require(path.is_absolute(), Refusal::Settings)?;
    Ok(path.to_owned())
}

pub(super) fn variable(key: &str) -> String {
    format!("npm_config_{}", key.replace('-', "_"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the path of a digest in npm's cache.
pub(super) fn split(directory: &Path, digest: &[u8]) -> PathBuf {
    let hex = hex(digest);
    directory.join(&hex[..2]).join(&hex[2..4]).join(&hex[4..])
}

/// Reads the variables that are settings. npm ignores empty ones.
fn of_environment(command: &Command) -> Result<Layer, Refusal> {
    let mut layer = Layer::new();
    for (name, value) in command.env.iter().filter(|(_, value)| !value.is_empty()) {
        let name = name.to_string_lossy();
        let is_odd = ["PREFIX", "DESTDIR", "FORCE_COLOR", "Path"].contains(&&*name);
        let is_setting = name.to_ascii_lowercase().starts_with("npm_config_");
        let key = name.strip_prefix("npm_config_");
        require(!is_odd && is_setting == key.is_some(), Refusal::Settings)?;
        if let Some(key) = key {
            let value = value.to_str().ok_or(Refusal::Settings)?;
            let start = usize::from(key.starts_with('_'));
            let key = key[..start].to_owned() + &key[start..].replace('_', "-");
            layer.insert(key.to_ascii_lowercase(), value.to_owned());
        }
    }
    Ok(layer)
}

/// Reads a file of settings. One that is more than names with plain values is not understood.
fn of_file(path: &Path) -> Result<Layer, Refusal> {
    let text = text_of(path, Refusal::Settings)?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|it| !it.is_empty() && !it.starts_with([';', '#', '/', '_']));
    let read = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let is_plain = !line.contains(['"', '\'', '$', '\\', '[', ';', '#']);
        is_plain.then(|| (key.trim().to_owned(), value.trim().to_owned()))
    };
    lines
        .map(read)
        .collect::<Option<_>>()
        .ok_or(Refusal::Settings)
}

/// The nearest project, as npm finds it.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) root: PathBuf,
    /// The variables that describe it.
    pub(super) variables: BTreeMap<String, String>,
}

impl Project {
    /// Requires that neither a package of the project nor a program with the name of `word` is
    /// preferred to the cache.
    pub(super) fn of(cwd: &Path, package: &str, word: Option<&str>) -> Result<Self, Refusal> {
        let is_project =
            |it: &&Path| it.join("package.json").is_file() || it.join("node_modules").is_dir();
        let root = cwd.ancestors().find(is_project).unwrap_or(cwd);
        for path in root.ancestors() {
            let local = word.map(|word| path.join("node_modules/.bin").join(word));
            let text = text_of(&path.join("package.json"), Refusal::Preferred)?;
            let is_plain = !text.contains("\"workspaces\"");
            require(
                is_plain && !local.is_some_and(|it| it.exists()),
                Refusal::Preferred,
            )?;
        }
        let modules = root.join("node_modules");
        if modules.symlink_metadata().is_ok() {
            let inner = format!("node_modules/{package}");
            let is_it = |(path, it): (&String, &Recorded)| {
                path.ends_with(&inner) || it.name.as_deref() == Some(package)
            };
            let record = Record::read(&modules).ok_or(Refusal::Preferred)?;
            let has = record.packages.iter().any(is_it) || root.join(&inner).exists();
            require(
                !has && Record::covers(&modules, &modules),
                Refusal::Preferred,
            )?;
        }
        let mut variables = BTreeMap::new();
        let text = text_of(&root.join("package.json"), Refusal::Preferred)?;
        if !text.is_empty() {
            let found: Value = serde_json::from_str(&text).map_err(|_| Refusal::Preferred)?;
            let has_bin = found.get("bin").is_some() || found.get("directories").is_some();
            require(!has_bin && found["name"] != package, Refusal::Preferred)?;
            for key in ["name", "version", "config", "engines"] {
                if let Some(value) = found.get(key) {
                    describe(format!("npm_package_{key}"), value, &mut variables);
                }
            }
        }
        let root = root.to_owned();
        Ok(Self { root, variables })
    }
}

/// Adds a value of `package.json` as npm does.
fn describe(name: String, value: &Value, variables: &mut BTreeMap<String, String>) {
    let text = match value {
        Value::Object(items) => {
            for (key, item) in items {
                describe(format!("{name}_{key}"), item, variables);
            }
            return;
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                describe(format!("{name}_{index}"), item, variables);
            }
            return;
        }
        Value::Null | Value::Bool(false) => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    variables.insert(name, text);
}
