//! `npx` and `npm exec`, as npm 10 and 11 do it (their `libnpmexec`).

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha512};

use super::cached::{Copy, Manifest};
use super::settings::{Project, Settings, hex};
use super::{Entry, Refusal, begins, environment, require};
use crate::command::Command;
use crate::resolve::resolve;

/// Names that a shell, by which npm starts an entry, takes for its own.
const BUILTINS: &str = "alias bg bind break builtin caller cd chdir command compgen complete compopt \
    continue declare dirs disown echo enable eval exec exit export false fc fg getopts hash help \
    history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return \
    set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait";

/// The words of a command line, by their meaning.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The options as settings: name and value.
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) words: Vec<OsString>,
}

impl Line {
    pub(super) fn parse(args: &[OsString], is_npx: bool) -> Result<Self, Refusal> {
        let mut line = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let text = arg.to_str().ok_or(Refusal::Words)?;
            let setting = match text {
                "-y" | "--yes" => ("yes", "true"),
                "-q" | "--quiet" => ("loglevel", "warn"),
                "-s" | "--silent" => ("loglevel", "silent"),
                "--" => {
                    line.words.extend(args.cloned());
                    break;
                }
                // For `npm exec`, `-p` is another option.
                _ if text == "--package" || is_npx && text == "-p" => {
                    let value = args.next().and_then(|it| it.to_str());
                    ("package", value.ok_or(Refusal::Words)?)
                }
                _ if text.starts_with('-') => {
                    let value = text.strip_prefix("--package=");
                    ("package", value.ok_or(Refusal::Words)?)
                }
                _ => {
                    line.words.push(arg.clone());
                    if is_npx {
                        line.words.extend(args.cloned());
                        break;
                    }
                    continue;
                }
            };
            let is_second = setting.0 == "package" && line.package().is_some();
            require(!is_second, Refusal::Words)?;
            line.settings.push((setting.0, setting.1.to_owned()));
        }
        Ok(line)
    }

    fn package(&self) -> Option<&str> {
        let mut settings = self.settings.iter();
        let package = settings.find(|(name, _)| *name == "package");
        package.map(|(_, value)| value.as_str())
    }
}

/// A package of a registry, and the wanted version.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) name: &'a str,
    pub(super) wanted: Wanted<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    Version(&'a str),
    Tag(&'a str),
    /// That of the tag `latest`, unless it is deprecated.
    Any,
}

impl<'a> Spec<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let at = text.get(1..)?.find('@').map_or(text.len(), |at| at + 1);
        let (name, wanted) = text.split_at(at);
        let is_plain = |part: &str| {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
            !part.is_empty() && !part.starts_with(['.', '_']) && part.chars().all(is_plain)
        };
        let mut parts = name.strip_prefix('@').unwrap_or(name).splitn(2, '/');
        let is_scoped = name.contains('/');
        let is_name = is_scoped == name.starts_with('@') && parts.all(is_plain);
        let wanted = match wanted.strip_prefix('@') {
            None => Wanted::Any,
            Some(version) if is_version(version) => Wanted::Version(version),
            // Anything else may be a range, such as `x`.
            Some(tag) if tag.len() > 1 && tag.chars().all(|c| c.is_ascii_lowercase()) => {
                Wanted::Tag(tag)
            }
            Some(_) => return None,
        };
        is_name.then_some(Self { name, wanted })
    }
}

fn is_version(text: &str) -> bool {
    let (numbers, pre) = text.split_once('-').unwrap_or((text, "0"));
    let is_number = |it: &str| {
        it.parse::<u32>()
            .is_ok_and(|number| number.to_string() == it)
    };
    let is_pre = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_triple = numbers.split('.').count() == 3 && numbers.split('.').all(is_number);
    is_triple && !pre.is_empty() && pre.chars().all(is_pre)
}

pub(super) fn find(
    command: &Command,
    args: &[OsString],
    is_npx: bool,
    fresh: &Range<SystemTime>,
) -> Result<Entry, Refusal> {
    let line = Line::parse(args, is_npx)?;
    let (word, rest) = line.words.split_first().ok_or(Refusal::Words)?;
    let word = word.to_str().ok_or(Refusal::Words)?;
    let raw = line.package().unwrap_or(word);
    let is_named = line.package().is_some();
    let spec = Spec::parse(raw).ok_or(Refusal::Words)?;
    let cwd = command.cwd.as_deref().unwrap_or(Path::new("."));
    let cwd = cwd.canonicalize().map_err(|_| Refusal::Words)?;
    let npm = Npm::behind(command, &cwd, if is_npx { "npx" } else { "npm" })?;
    let project = Project::of(&cwd, spec.name, (!is_named).then_some(word))?;
    let settings = Settings::load(&npm, &project, command, &line.settings)?;
    let global = settings.prefix.join("lib/node_modules").join(spec.name);
    let is_global = global.exists() || settings.prefix.join("bin").join(word).exists();
    require(!is_global, Refusal::Preferred)?;

    let key = hex(&Sha512::digest(raw)[..8]);
    let directory = settings.cache.join("_npx").join(key);
    let copy = Copy::open(&directory, spec.name, raw)?;
    let tag = match spec.wanted {
        Wanted::Version(version) => {
            require(copy.package.version == version, Refusal::Copy)?;
            None
        }
        Wanted::Tag(tag) => Some(tag),
        Wanted::Any => Some("latest"),
    };
    if let Some(tag) = tag {
        let answer = settings.answer(spec.name, fresh)?;
        let is_any = spec.wanted == Wanted::Any;
        require(
            answer.has(tag, &copy.package.version, is_any),
            Refusal::Answer,
        )?;
    }
    let bin = match is_named {
        true => Some(word.to_owned()),
        false => copy.package.entry(),
    };
    let bin = bin.filter(|bin| !BUILTINS.split_whitespace().any(|it| it == bin));
    let bin = bin.filter(|bin| !bin.contains(['/', '\'']));
    let bin = bin.ok_or(Refusal::Entry)?;
    Ok(Entry {
        program: copy.program(&bin, is_named)?,
        env: environment::of(&npm, &settings, &project, command, &cwd, &directory, &bin)?,
        arg0: bin.into(),
        args: rest.to_vec(),
    })
}

/// The npm that a command stands for, and the node that executes it.
#[derive(Debug)]
pub(super) struct Npm {
    pub(super) root: PathBuf,
    pub(super) node: PathBuf,
    pub(super) version: String,
}

impl Npm {
    /// Finds npm itself. A version manager may have put another program in its place.
    fn behind(command: &Command, cwd: &Path, name: &str) -> Result<Self, Refusal> {
        let program = command.program.canonicalize();
        let program = program.map_err(|_| Refusal::Runner)?;
        let is_npm = program.ends_with(format!("npm/bin/{name}-cli.js"));
        require(
            is_npm && begins(&program, b"#!/usr/bin/env node\n"),
            Refusal::Runner,
        )?;
        let root = program.ancestors().nth(2).ok_or(Refusal::Runner)?;
        let npm = Manifest::read(root)?;
        let is_known = ["10.", "11."].iter().any(|it| npm.version.starts_with(it));
        let node = resolve(OsStr::new("node"), &command.env, cwd);
        let node = node.ok().and_then(|node| node.canonicalize().ok());
        let node = node.ok_or(Refusal::Runner)?;
        let is_node = node.ends_with("node") && !begins(&node, b"#!");
        require(npm.name == "npm" && is_known && is_node, Refusal::Runner)?;
        let (root, version) = (root.to_owned(), npm.version);
        Ok(Self {
            root,
            node,
            version,
        })
    }
}
