//! The environment that npm gives to what it starts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Refusal;
use super::npx::Npm;
use super::settings::{Project, Settings, variable};
use crate::command::Command;
use crate::sys;

pub(super) fn of(
    npm: &Npm,
    settings: &Settings,
    project: &Project,
    command: &Command,
    cwd: &Path,
    copy: &Path,
    bin: &str,
) -> Result<BTreeMap<OsString, OsString>, Refusal> {
    let given = |name: &str| sys::variable(&command.env, name).filter(|it| !it.is_empty());
    let path = given("PATH").ok_or(Refusal::Settings)?;
    let home = given("HOME").map(PathBuf::from).unwrap_or_default();
    let editor = given("EDITOR").or_else(|| given("VISUAL"));
    let modules = npm.root.join("node_modules");
    let mut env = BTreeMap::<OsString, OsString>::new();
    let mut set = |name: &str, value: OsString| env.insert(name.into(), value);

    for (name, value) in settings.exported.iter().chain(&project.variables) {
        set(name, value.into());
    }
    let agent = format!(
        "npm/{} node/? {} {} workspaces/false",
        npm.version,
        if cfg!(target_os = "macos") {
            "darwin"
        } else {
            std::env::consts::OS
        },
        match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        },
    );
    // A host that npm has started has these in its environment.
    for (key, value) in [
        ("cache", settings.cache.clone().into_os_string()),
        ("globalconfig", settings.globalconfig.clone().into()),
        ("init-module", home.join(".npm-init.js").into()),
        ("node-gyp", modules.join("node-gyp/bin/node-gyp.js").into()),
        ("noproxy", OsString::new()),
        ("npm-version", npm.version.clone().into()),
        ("prefix", settings.prefix.clone().into()),
        ("user-agent", agent.into()),
        ("userconfig", settings.userconfig.clone().into()),
    ] {
        let name = variable(key);
        if given(&name).is_none() {
            set(&name, value);
        }
    }
    set("npm_config_global_prefix", settings.prefix.clone().into());
    set("npm_config_local_prefix", project.root.clone().into());
    set("npm_command", "exec".into());
    set("npm_execpath", npm.root.join("bin/npm-cli.js").into());
    set("npm_lifecycle_event", "npx".into());
    set("npm_lifecycle_script", format!("'{bin}'").into());
    set("npm_node_execpath", npm.node.clone().into());
    set("npm_package_json", cwd.join("package.json").into());
    set("COLOR", "0".into());
    set("EDITOR", editor.map_or("vi".into(), OsString::from));
    set("INIT_CWD", cwd.into());
    set("NODE", npm.node.clone().into());
    let pwd = given("PWD").map(Path::new).filter(|pwd| pwd.is_absolute());
    // The shell sets it where it is wrong.
    if pwd.and_then(|pwd| pwd.canonicalize().ok()).as_deref() != Some(cwd) {
        set("PWD", cwd.into());
    }
    let gyp = modules.join("@npmcli/run-script/lib/node-gyp-bin");
    let mut directories = vec![copy.join("node_modules/.bin")];
    directories.extend(cwd.ancestors().map(|it| it.join("node_modules/.bin")));
    directories.push(gyp);
    let added = std::env::join_paths(directories);
    let mut whole = added.map_err(|_| Refusal::Settings)?;
    whole.push(":");
    whole.push(path);
    set("PATH", whole);
    Ok(env)
}
