//! The recorder: what a runner starts in the place of a package, once.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_guardian::identity;
use mcp_lifecycle_core::launch::quote;

use super::key::{is_of_session, mark_of};
use super::record::{Record, Surroundings, identities, read, write};
use crate::resolve::resolve;

/// The variable that names the file of the [`Surroundings`].
pub(super) const PENDING: &str = "MCP_LIFECYCLE_RECORD";
/// The setting of npm for the shell that executes packages and the scripts of an install.
pub(super) const SCRIPT_SHELL: &str = "npm_config_script_shell";
/// The longest first line that names an interpreter.
const SHEBANG_MAX: u64 = 256;
/// First arguments: of a shell's, by npm; of what that shell starts; of what uv starts.
const SHELL_ROLE: &str = "-c";
const NPM_ROLE: &str = "--direct-of-npm";
pub(super) const UV_ROLE: &str = "--direct-of-uv";

/// Becomes the package, after it was recorded, if this process was started in its place. Returns the
/// failure to execute it, or `None` if it was not.
pub fn run() -> Option<io::Error> {
    let pending = PathBuf::from(env::var_os(PENDING)?);
    let args: Vec<_> = env::args_os().skip(1).collect();
    let [role, words @ ..] = &args[..] else {
        return None;
    };
    match (role.to_str()?, words) {
        (SHELL_ROLE, [script]) => Some(as_shell(script)),
        (NPM_ROLE, [program, arguments @ ..]) => Some(of_npm(&pending, program, arguments)),
        (UV_ROLE, [program, count, runner, line @ ..]) => {
            let count = count.to_str().and_then(|it| it.parse().ok());
            let first = count.and_then(|count| line.len().checked_sub(count))?;
            Some(of_uv(&pending, program, &line[first..], runner, line))
        }
        _ => None,
    }
}

/// Executes a script of npm: the package with the recorder before it, or that of an install.
fn as_shell(script: &OsStr) -> io::Error {
    let is_package = env::var_os("npm_lifecycle_event").is_some_and(|it| it == "npx");
    let is_package = is_package && env::var_os("npm_config_call").is_none();
    let this = env::current_exe().ok().filter(|_| is_package);
    let Some(this) = this.as_ref().and_then(|it| it.to_str()) else {
        return executed(Command::new("sh").arg("-c").arg(script));
    };
    let mut whole = OsString::from(format!("{} {NPM_ROLE} ", quote(this)));
    whole.push(script);
    Command::new("sh").arg("-c").arg(whole).exec()
}

fn of_npm(pending: &Path, program: &OsStr, arguments: &[OsString]) -> io::Error {
    // By a shell, as for npm, which would stay beside it without `exec`.
    let script = format!("exec {} \"$@\"", quote(program));
    let words = ["sh", "-c", &script, "sh"].map(str::to_owned);
    let env: BTreeMap<_, _> = env::vars_os().collect();
    let entry = resolve(program, &env, Path::new(".")).ok();
    let shell = resolve(OsStr::new("sh"), &env, Path::new("."));
    let shell = shell.unwrap_or_else(|_| "/bin/sh".into());
    if let Some(entry) = entry.filter(|_| env::var_os("npm_config_call").is_none()) {
        let _ = record(pending, &entry, &shell, &words, arguments);
    }
    executed(Command::new(shell).args(&words[1..]).args(arguments))
}

fn of_uv(
    pending: &Path,
    program: &OsStr,
    arguments: &[OsString],
    runner: &OsStr,
    line: &[OsString],
) -> io::Error {
    let path = env::var_os("PATH").unwrap_or_default();
    let entry = env::split_paths(&path).next().map(|it| it.join(program));
    let Some(entry) = entry.filter(|it| it.exists()) else {
        // uv explains which programs the package has.
        return executed(Command::new(runner).args(line));
    };
    if let Some(name) = program.to_str() {
        let _ = record(pending, &entry, &entry, &[name.to_owned()], arguments);
    }
    executed(Command::new(entry).arg0(program).args(arguments))
}

fn executed(command: &mut Command) -> io::Error {
    command.env_remove(PENDING).env_remove(SCRIPT_SHELL).exec()
}

/// Records that `program` is executed for the `entry` of a package. `None` if that cannot be
/// repeated with certainty.
fn record(
    pending: &Path,
    entry: &Path,
    program: &Path,
    words: &[String],
    arguments: &[OsString],
) -> Option<()> {
    let given: Surroundings = read(pending)?;
    let _ = fs::remove_file(pending);
    let marks: Vec<_> = arguments.iter().map(|it| mark_of(it)).collect();
    let is_same = given.words.ends_with(&marks) && env::current_dir().ok()? == given.directory;
    let (set, removed) = changes(env::vars_os().collect(), &given.env).filter(|_| is_same)?;
    let mut files = given.files;
    files.extend(identities(witnesses(entry, &set)?));
    let record = Record {
        program: program.to_owned(),
        words: words.to_vec(),
        arguments: arguments.len(),
        set,
        removed,
        files,
    };
    write(&pending.with_extension(""), &record).ok()
}

/// Returns the variables that the runner has set and removed. `None` if one may be a secret.
pub(super) fn changes(
    env: BTreeMap<OsString, OsString>,
    given: &BTreeMap<String, String>,
) -> Option<(BTreeMap<String, String>, BTreeSet<String>)> {
    let ours = [PENDING, SCRIPT_SHELL, identity::VARIABLE, identity::KEEP];
    let is_other = |name: &OsStr| is_of_session(name) || ours.iter().any(|it| name == *it);
    let removed = given.keys().filter(|it| !env.contains_key(OsStr::new(it)));
    let removed = removed.filter(|it| !is_other(OsStr::new(it)));
    let removed = removed.cloned().collect();
    let is_given = |(name, value): (&OsString, &OsString)| {
        let known = name.to_str().and_then(|name| given.get(name));
        known.is_some_and(|known| *known == mark_of(value))
    };
    let (kept, set): (Vec<_>, Vec<_>) = env.iter().partition(|it| is_given(*it));
    let set = set.into_iter().filter(|(name, _)| !is_other(name));
    let set =
        set.map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    let set: BTreeMap<_, _> = set.collect::<Option<_>>()?;
    let is_secret = |(name, value): (&String, &String)| {
        let name = name.to_ascii_lowercase();
        let is_named = ["token", "password", "secret", "_auth", "_key"]
            .iter()
            .any(|it| name.contains(it));
        let is_login = value
            .split_once("://")
            .is_some_and(|(_, rest)| rest.contains('@'));
        // A value that a setting has taken from the environment.
        let mut words = kept.iter().filter_map(|(_, it)| it.to_str());
        is_named
            || is_login
            || words.any(|it| it.len() >= 16 && !it.contains('/') && value.contains(it))
    };
    (!set.iter().any(is_secret)).then_some((set, removed))
}

/// Returns the files and directories that a start rests on.
fn witnesses(entry: &Path, set: &BTreeMap<String, String>) -> Option<Vec<PathBuf>> {
    let bin = entry.parent()?;
    let around = bin.parent()?;
    let mut files = vec![entry.to_owned(), bin.to_owned(), bin.join("python")];
    files.extend(["pyvenv.cfg", ".package-lock.json"].map(|it| around.join(it)));
    let values = set
        .values()
        .filter(|it| it.starts_with('/') && !it.contains(':'));
    files.extend(values.map(PathBuf::from).filter(|it| !it.is_dir()));
    let prefix = set.get("npm_config_prefix").map(Path::new);
    files.extend(
        prefix
            .into_iter()
            .flat_map(|it| [it.join("bin"), it.join("lib/node_modules")]),
    );
    let mut text = Vec::new();
    File::open(entry)
        .ok()?
        .take(SHEBANG_MAX)
        .read_to_end(&mut text)
        .ok()?;
    let first = text.split(|byte| *byte == b'\n').next()?;
    let interpreter = first
        .strip_prefix(b"#!")
        .and_then(|it| std::str::from_utf8(it).ok());
    let interpreter = interpreter.and_then(|it| it.split_whitespace().next());
    files.extend(interpreter.map(PathBuf::from));
    Some(files)
}
