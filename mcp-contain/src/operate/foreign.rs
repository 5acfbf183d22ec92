//! Servers left by hosts without containment: found by a guess, listed, and ended only on request.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use mcp_tree::inventory::{self, StopReport, Unclaimed};

use crate::containers;
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{name, out, units};

const WATCHED: Duration = Duration::from_secs(1);

/// Default minimum age to be ended, as in the help of `--older`.
pub(crate) const OLD: Duration = Duration::from_secs(600);

/// Selects processes and how they are ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Guess {
    /// With --foreign: end those that are not spared
    #[arg(long, requires = "foreign")]
    pub(crate) yes: bool,
    /// With --foreign: spare processes younger than this
    #[arg(long, requires = "foreign", value_name = "TIME", default_value = "10m", value_parser = crate::options::time)]
    older: Duration,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, requires = "foreign", value_name = "TIME", default_value = "2s", value_parser = crate::options::time)]
    grace: Duration,
    /// With --foreign: only these, by name or pid, as `doctor` shows them
    #[arg(requires = "foreign", value_name = "NAME|PID")]
    which: Vec<String>,
}

pub(crate) fn look() -> Result<Vec<(String, Unclaimed)>, Failure> {
    let unclaimed = inventory::unclaimed();
    let unclaimed = unclaimed
        .map_err(|error| Failure::plain(format_args!("processes cannot be listed: {error}")))?;
    let own = std::process::id();
    let named = unclaimed.into_iter().filter_map(|it| {
        // An ancestor of this program is in use.
        let is_above = it.descendants.iter().any(|below| below.pid == own);
        let words = it.process.command_line();
        let is_ours = words.get(1).is_some_and(|word| *word == containers::ROLE);
        (!is_above && !is_ours && is_a_server(&words))
            .then(|| (name::of(&words, &it.process.name), it))
    });
    Ok(named.collect())
}

pub(crate) fn memory(it: &Unclaimed) -> u64 {
    let all = std::iter::once(&it.process).chain(&it.descendants);
    all.filter_map(|process| process.memory).sum()
}

/// Lists them, or ends those that are not spared. The exit code is 1 if ending one failed.
pub(crate) fn run(options: &Guess, is_meant: bool) -> Result<ExitCode, Failure> {
    let mut before = look()?;
    before.retain(|(name, it)| options.names(name, it));
    if !before.is_empty() {
        thread::sleep(WATCHED);
    }
    let now = look()?;
    let mut is_clean = true;
    for (name, was) in &before {
        let is = now.iter().find(|(_, is)| is.process.is_same(&was.process));
        let spared = spared(was, is.map(|(_, is)| is), options.older);
        let ended = match is {
            Some((_, is)) if is_meant && spared.is_none() => {
                Some(inventory::stop_unclaimed(is, options.grace))
            }
            _ => None,
        };
        is_clean &= ended
            .as_ref()
            .is_none_or(|ended| ended.as_ref().is_ok_and(StopReport::is_gone));
        out::line(one_line(&verdict(name, was, spared, ended)));
    }
    if before.is_empty() {
        out::line(
            "Nothing looks like a server that a program without mcp-contain has left behind.",
        );
    } else if !is_meant {
        out::line(
            "Nothing was ended. If all that would be ended may end, say it again with --yes.",
        );
    }
    Ok(ExitCode::from(u8::from(!is_clean)))
}

impl Guess {
    fn names(&self, name: &str, it: &Unclaimed) -> bool {
        let pid = it.process.pid.to_string();
        self.which.is_empty()
            || self
                .which
                .iter()
                .any(|which| *which == name || *which == pid)
    }
}

/// Returns why it is spared, from two observations.
fn spared(was: &Unclaimed, is: Option<&Unclaimed>, older: Duration) -> Option<String> {
    let Some(is) = is else {
        return Some("it is in use now, or has ended".to_owned());
    };
    let work =
        |it: &Unclaimed| it.descendants.iter().map(|it| it.cpu).sum::<Duration>() + it.process.cpu;
    match () {
        () if is.process.age < older => Some(format!(
            "it is younger than {}",
            humantime::format_duration(older)
        )),
        () if work(is) > work(was) => Some("it is at work".to_owned()),
        () if is.descendants.len() != was.descendants.len() => {
            Some("its processes change, as those of a server in use do".to_owned())
        }
        () => None,
    }
}

fn verdict(
    name: &str,
    was: &Unclaimed,
    spared: Option<String>,
    ended: Option<std::io::Result<StopReport>>,
) -> String {
    let (pid, below) = (was.process.pid, was.descendants.len());
    let age = units::time(was.process.age);
    let more = match below {
        0 => String::new(),
        _ => format!(
            " with {} below it",
            units::count(below, "process", "processes")
        ),
    };
    let what = format!("{name} (pid {pid}{more}, for {age})");
    match (spared, ended) {
        (Some(why), _) => format!("{what}: spared, because {why}"),
        (None, None) => format!("{what}: would be ended"),
        (None, Some(Err(error))) => format!("{what}: not ended: {error}"),
        (None, Some(Ok(report))) if report.is_gone() => {
            format!("{what}: everything that was seen has ended")
        }
        (None, Some(Ok(report))) => {
            let survivors = report.survivors.iter();
            let survivors: Vec<_> = survivors.map(|it| it.pid.to_string()).collect();
            let unknown = report.unknown.as_deref().unwrap_or_default();
            format!("{what}: still there: {} {unknown}", survivors.join(", "))
        }
    }
}

fn is_a_server(words: &[String]) -> bool {
    let is_mcp = |word: &String| {
        let word = word.to_lowercase();
        let mut parts = own_part(&word).split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| part == "mcp" || part == "modelcontextprotocol")
    };
    // Values of options can be anything.
    words
        .iter()
        .take_while(|word| !word.starts_with("--"))
        .take(4)
        .any(is_mcp)
}

/// Returns the part of an argument that names the program or the package, without directories.
fn own_part(word: &str) -> &str {
    match word.rsplit_once("node_modules/") {
        Some((_, package)) => package,
        None if word.starts_with('@') => word,
        None => word.rsplit('/').next().unwrap_or(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_server() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in [
            "node /x/node_modules/.bin/mcp-server-time",
            "npm exec @modelcontextprotocol/server-everything stdio",
            "python3 -m mcp_server_fetch",
            "/opt/github-mcp-server stdio",
            "node /x/node_modules/@modelcontextprotocol/server-time/dist/index.js",
        ] {
            assert!(is_a_server(&words(line)), "{line}");
        }
        for line in [
            "vim mcpserver.rs",
            "cargo test --package mcp-contain",
            "sleep 1000",
            "node /home/me/mcp/server.js",
            "/home/me/.mcp/bin/python train.py",
            "node /home/me/mcp/node_modules/vite/bin/vite.js",
            "grep -r x --include mcp",
        ] {
            assert!(!is_a_server(&words(line)), "{line}");
        }
    }
}
