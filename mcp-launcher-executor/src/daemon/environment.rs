//! What a process sees of the daemon's environment. Pure.

use std::collections::BTreeMap;

use crate::protocol::process::{EnvPolicy, Inherit};

/// What programs need to run at all.
const CORE: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// What looks like a secret, and is left out unless the client insists.
const EXCLUDED: &[&str] = &["*KEY*", "*SECRET*", "*TOKEN*"];

/// Variables of the daemon that no process ever sees.
const OWN: &[&str] = &["MCP_EXECUTOR_TOKEN"];

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
        let excluded = |name: &str| {
            let default = !policy.ignore_default_excludes;
            (default && EXCLUDED.iter().any(|pattern| matches(pattern, name)))
                || policy.exclude.iter().any(|pattern| matches(pattern, name))
                || OWN.contains(&name)
        };
        env.extend(
            host.into_iter()
                .filter(|(name, _)| inherited(name) && !excluded(name)),
        );
        env.extend(policy.set.clone());
        if !policy.include_only.is_empty() {
            env.retain(|name, _| policy.include_only.iter().any(|p| matches(p, name)));
        }
    }
    env.extend(literal.clone());
    env
}

/// Shell wildcards `*` and `?`, without regard to case.
fn matches(pattern: &str, name: &str) -> bool {
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (pattern, name) = (fold(pattern), fold(name));
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
        assert!(matches("*a*a*a*b", "aaaaaaaab") && !matches(&"*a".repeat(30), "b"));
        assert!(matches("*", "") && !matches("?", "") && matches("a*", "A"));
    }
}
