//! The part of the daemon's environment that a process sees. Pure.

use std::collections::BTreeMap;

use crate::protocol::process::{EnvPolicy, Inherit, StartParams};

/// Variables that programs need to run at all.
const CORE: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Names that look like a secret, and are left out unless the client insists.
const EXCLUDED: &[&str] = &["*KEY*", "*SECRET*", "*TOKEN*"];

/// Variables of the daemon that no process ever sees.
const OWN: &[&str] = &[
    "MCP_EXECUTOR_TOKEN",
    // Of the daemon's service manager: a server speaks for itself only.
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Bounds on what a client may ask for, beside the numbers that the parser has.
const MOST_PATTERN_BYTES: usize = 2048;
const MOST_SET: usize = 128;
const LONGEST_NAME: usize = 256;

/// From this many comparisons on, [`resolve`] is work for a thread of its own.
const EXPENSIVE: usize = 1 << 20;

/// Refuses what costs more than any program needs, in words for its client.
pub(super) fn check(params: &StartParams) -> Result<(), String> {
    let too_many = |what: &str, count: usize, most: usize| match count > most {
        true => Err(format!("{count} {what}, of at most {most}")),
        false => Ok(()),
    };
    let Some(policy) = &params.env_policy else {
        return Ok(());
    };
    too_many("variables in envPolicy.set", policy.set.len(), MOST_SET)?;
    let patterns = || policy.exclude.iter().chain(&policy.include_only);
    let bytes = patterns().map(String::len).sum();
    too_many("bytes of patterns in envPolicy", bytes, MOST_PATTERN_BYTES)?;
    let longest = policy.set.keys().map(String::len).max().unwrap_or(0);
    too_many("bytes in a name in envPolicy.set", longest, LONGEST_NAME)
}

/// Whether [`resolve`] takes so long that others would notice.
pub(super) fn is_expensive(policy: Option<&EnvPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    let patterns = policy.exclude.iter().chain(&policy.include_only);
    let bytes: usize = patterns.map(|pattern| pattern.len() + 1).sum();
    let names: usize = policy.set.keys().map(String::len).sum();
    bytes * (names + LONGEST_NAME) > EXPENSIVE
}

/// The environment of a process.
pub(super) fn resolve(
    policy: Option<&EnvPolicy>,
    literal: &BTreeMap<String, String>,
    host: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    if let Some(policy) = policy {
        let inherited = |name: &str| match policy.inherit {
            Inherit::All => true,
            Inherit::Core => CORE.contains(&name),
            Inherit::None => false,
        };
        let default = match policy.ignore_default_excludes {
            true => &[][..],
            false => EXCLUDED,
        };
        let excluded = Patterns::new(default.iter().copied().chain(texts(&policy.exclude)));
        env.extend(host.into_iter().filter(|(name, _)| {
            inherited(name) && !excluded.match_any(name) && !OWN.contains(&name.as_str())
        }));
        env.extend(policy.set.clone());
        if !policy.include_only.is_empty() {
            let included = Patterns::new(texts(&policy.include_only));
            env.retain(|name, _| included.match_any(name));
        }
    }
    env.extend(literal.clone());
    env
}

fn texts(patterns: &[String]) -> impl Iterator<Item = &str> {
    patterns.iter().map(String::as_str)
}

/// Shell wildcards `*` and `?`, without regard to case.
struct Patterns(Vec<Vec<char>>);

impl Patterns {
    fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        Self(patterns.map(fold).collect())
    }

    fn match_any(&self, name: &str) -> bool {
        let name = fold(name);
        self.0.iter().any(|pattern| matches(pattern, &name))
    }
}

fn fold(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when the last star has to take one more.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(policy: Option<EnvPolicy>) -> Vec<String> {
        let host = [("PATH", "/bin"), ("API_KEY", "s"), ("Editor", "vi")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        let literal = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        resolve(policy.as_ref(), &literal, host)
            .into_keys()
            .collect()
    }

    #[test]
    fn the_policy_decides_and_literals_stay() {
        assert_eq!(names(None), ["A"]);
        let all = EnvPolicy::default();
        assert_eq!(names(Some(all.clone())), ["A", "Editor", "PATH"]);
        let keep = EnvPolicy {
            ignore_default_excludes: true,
            exclude: vec!["ed*".to_owned()],
            ..all.clone()
        };
        assert_eq!(names(Some(keep)), ["A", "API_KEY", "PATH"]);
        let core = EnvPolicy {
            inherit: Inherit::Core,
            ..all.clone()
        };
        assert_eq!(names(Some(core)), ["A", "PATH"]);
        let only = EnvPolicy {
            include_only: vec!["P?TH".to_owned()],
            ..all
        };
        assert_eq!(names(Some(only)), ["A", "PATH"]);
    }

    #[test]
    fn wildcards_match_without_exploding() {
        let matches =
            |pattern: &str, name: &str| Patterns::new([pattern].into_iter()).match_any(name);
        assert!(matches("*a*a*a*b", "aaaaaaaab") && !matches(&"*a".repeat(30), "b"));
        assert!(matches("*", "") && !matches("?", "") && matches("a*", "A"));
    }
}
