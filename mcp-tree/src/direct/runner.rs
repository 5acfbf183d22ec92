//! The runners, and how the recorder gets in the place of their packages.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::{Surroundings, directory_of, prune, write};
use super::recorder::{PENDING, SCRIPT_SHELL, UV_ROLE};
use crate::command::Command;
use crate::sys;

/// Options of uv that do not change which package is meant, and what its environment is.
const UV_FLAGS: &str =
    "-q --isolated --native-tls --no-config --no-progress --offline --quiet --system-certs";

const UV_VALUED: &str = "-i -p -w --default-index --exclude-newer --extra-index-url --from --index \
    --index-strategy --index-url --prerelease --python --with";

pub(super) enum Runner {
    /// npm executes a package by a shell of its settings.
    Npm,
    /// uv executes any program in the environment of a package.
    Uv(Tool),
}

/// The tool that uv starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tool {
    /// The number of the words before its name.
    pub(super) at: usize,
    /// The name of its program.
    pub(super) program: String,
    is_named: bool,
}

impl Runner {
    pub(super) fn of(program: &OsStr, args: &[OsString]) -> Option<Self> {
        let name = Path::new(program).file_name()?.to_str()?;
        let words: Vec<_> = args.iter().map(|it| it.to_str()).collect();
        match (name, &words[..]) {
            ("npx", _) | ("npm", [Some("exec" | "x"), ..]) => Some(Self::Npm),
            ("uvx", words) => Tool::parse(words, 0).map(Self::Uv),
            ("uv", [Some("tool"), Some("run"), words @ ..]) => Tool::parse(words, 2).map(Self::Uv),
            _ => None,
        }
    }

    /// Changes a command so that its start is recorded in `file`.
    pub(super) fn record(
        &self,
        command: &mut Command,
        recorder: &Path,
        file: &Path,
        age: Duration,
    ) -> Option<()> {
        let files = self.settings(command)?;
        if !self.can_be_recorded(command, &files) || !prune(file.parent()?, age).ok()? {
            return None;
        }
        let pending = file.with_extension("first");
        write(&pending, &Surroundings::of(command, files)?).ok()?;
        match self {
            Self::Npm => {
                command.env.insert(SCRIPT_SHELL.into(), recorder.into());
            }
            Self::Uv(tool) => tool.record(command, recorder),
        }
        command.env.insert(PENDING.into(), pending.into());
        Some(())
    }

    fn can_be_recorded(&self, command: &Command, files: &[PathBuf]) -> bool {
        match self {
            Self::Npm => {
                let is_shell = |name: &OsString| name.eq_ignore_ascii_case(SCRIPT_SHELL);
                let mut texts = files
                    .iter()
                    .filter(|it| it.ends_with("npmrc") || it.ends_with(".npmrc"));
                let has_shell = |it: &PathBuf| {
                    fs::read(it)
                        .is_ok_and(|text| String::from_utf8_lossy(&text).contains("script-shell"))
                };
                !command.env.keys().any(is_shell) && !texts.any(has_shell)
            }
            // The file's variables may be secrets.
            Self::Uv(_) => sys::variable(&command.env, "UV_ENV_FILE").is_none(),
        }
    }

    /// Returns the files and directories that may change what the runner starts.
    fn settings(&self, command: &Command) -> Option<Vec<PathBuf>> {
        let directory = directory_of(command)?;
        let home = PathBuf::from(sys::variable(&command.env, "HOME")?);
        let program = command.program.canonicalize().ok()?;
        let of_project = match self {
            Self::Npm => {
                ".npmrc package.json node_modules node_modules/.bin node_modules/.package-lock.json"
            }
            Self::Uv(_) => "uv.toml pyproject.toml .python-version",
        };
        let names = of_project.split(' ');
        let mut files: Vec<_> = names
            .flat_map(|name| directory.ancestors().map(move |it| it.join(name)))
            .collect();
        let under = |name: &str, default: &str| {
            let named = sys::variable(&command.env, name).map(PathBuf::from);
            named.unwrap_or_else(|| home.join(default))
        };
        match self {
            Self::Npm => {
                let root = program.ancestors().nth(2);
                files.extend(root.map(|it| it.join("npmrc")));
                let prefix = command.program.ancestors().nth(2);
                files.extend(prefix.map(|it| it.join("etc/npmrc")));
                files.extend([home.join(".npmrc"), "/etc/npmrc".into()]);
            }
            Self::Uv(_) => {
                let settings = under("XDG_CONFIG_HOME", ".config").join("uv");
                let tools = under("XDG_DATA_HOME", ".local/share").join("uv/tools");
                let tools = sys::variable(&command.env, "UV_TOOL_DIR").map_or(tools, PathBuf::from);
                files.extend([settings.join("uv.toml"), settings.join(".python-version")]);
                files.extend(["/etc/uv/uv.toml".into(), tools]);
            }
        }
        files.push(program);
        Some(files)
    }
}

impl Tool {
    /// Finds the tool in the words of `uvx`, which begin after `skipped` ones.
    fn parse(words: &[Option<&str>], skipped: usize) -> Option<Self> {
        let has = |list: &str, word| list.split_whitespace().any(|it| it == word);
        let mut package = None;
        let mut words = words.iter().copied().enumerate();
        loop {
            let (at, word) = words.next()?;
            let word = word?;
            let option = word.split_once('=');
            let (option, value) = match option.filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value)),
                None => (word, None),
            };
            if has(UV_VALUED, option) {
                let value = value.or_else(|| words.next()?.1)?;
                match option {
                    "--from" if package.is_none() => package = Some(value),
                    // A directory, or an address, may change at any time.
                    "--from" | "--with" | "-w" if value.contains('/') => return None,
                    "--from" => return None,
                    _ => {}
                }
            } else if word.starts_with('-') {
                has(UV_FLAGS, word).then_some(())?;
            } else {
                let program = program_of(package.unwrap_or(word))?;
                let is_named = package.is_some();
                let program = if is_named { word } else { program };
                let is_plain = !program.contains('/');
                return is_plain.then(|| Self {
                    at: skipped + at,
                    program: program.to_owned(),
                    is_named,
                });
            }
        }
    }

    fn record(&self, command: &mut Command, recorder: &Path) {
        let (before, after) = command.args.split_at(self.at);
        let count = after.len() - 1;
        let mut args = before.to_vec();
        if !self.is_named {
            args.extend(["--from".into(), after[0].clone()]);
        }
        args.extend([recorder.into(), UV_ROLE.into(), self.program.clone().into()]);
        args.extend([count.to_string().into(), command.program.clone().into()]);
        args.append(&mut command.args);
        command.args = args;
    }
}

/// Returns the program that uv takes for a package of an index; `None` for anything else.
fn program_of(package: &str) -> Option<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = package.find(|c| !is_of_name(c)).unwrap_or(package.len());
    let (name, rest) = package.split_at(end);
    let is_python = ["python", "pypy", "cpython", "graalpy"]
        .iter()
        .any(|it| name.starts_with(it));
    let is_of_index = !rest.contains(['/', ':', ';']) && !name.ends_with(".py");
    (!name.is_empty() && !is_python && is_of_index).then_some(name)
}
