//! Computes the environment of a process from the daemon's. Pure.

use std::collections::BTreeMap;

use wildmatch::WildMatch;

use crate::protocol::process::{EnvPolicy, Inherit, StartParams};

const CORE: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Names of likely secrets, which are left out unless the client insists.
const EXCLUDED: &[&str] = &["*KEY*", "*SECRET*", "*TOKEN*"];

const OWN: &[&str] = &[
    "MCP_EXECUTOR_TOKEN",
    // For the daemon's service manager, which must not hear from servers.
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Rejects requests with a cost beyond any program's needs.
pub(super) fn check(params: &StartParams) -> Result<(), String> {
    let too_many = |what: &str, count: usize, most: usize| match count > most {
        true => Err(format!("{count} {what}, of at most {most}")),
        false => Ok(()),
    };
    let Some(policy) = &params.env_policy else {
        return Ok(());
    };
    too_many("variables in envPolicy.set", policy.set.len(), 128)?;
    let patterns = || policy.exclude.iter().chain(&policy.include_only);
    let bytes = patterns().map(String::len).sum();
    too_many("bytes of patterns in envPolicy", bytes, 2048)?;
    let names = policy.set.keys().map(String::len).sum();
    too_many("bytes of names in envPolicy.set", names, 4096)
}

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
        let excluded = patterns(default.iter().copied().chain(texts(&policy.exclude)));
        env.extend(host.into_iter().filter(|(name, _)| {
            inherited(name) && !any(&excluded, name) && !OWN.contains(&name.as_str())
        }));
        env.extend(policy.set.clone());
        if !policy.include_only.is_empty() {
            let included = patterns(texts(&policy.include_only));
            env.retain(|name, _| any(&included, name));
        }
    }
    env.extend(literal.clone());
    env
}

fn texts(patterns: &[String]) -> impl Iterator<Item = &str> {
    patterns.iter().map(String::as_str)
}

fn patterns<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<WildMatch> {
    texts.map(WildMatch::new_case_insensitive).collect()
}

fn any(patterns: &[WildMatch], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
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
        let matches = |pattern: &str, name: &str| any(&patterns([pattern].into_iter()), name);
        assert!(matches("*a*a*a*b", "aaaaaaaab") && !matches(&"*a".repeat(30), "b"));
        assert!(matches("*", "") && !matches("?", "") && matches("a*", "A"));
    }
}
