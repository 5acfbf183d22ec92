use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use super::SpecError;
use super::error::reject_nul;
use crate::launch::macros::debug_fields;

/// The variables that a server inherits besides the named ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InheritEnv {
    /// A short list of variables that programs need and that hold no secrets, as in the MCP SDKs:
    /// `HOME LOGNAME PATH SHELL TERM USER`, and the locale, time zone and temporary directory. On
    /// Windows the SDKs' list: system and user directories, `PATHEXT` and the like.
    #[default]
    #[serde(rename = "default")]
    AllowList,
    /// Everything the host has.
    All,
    /// Nothing.
    Nothing,
}

const ALLOWED: &str = if cfg!(windows) {
    "APPDATA COMSPEC HOME HOMEDRIVE HOMEPATH LANG LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE \
     PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP TZ USERNAME USERPROFILE WINDIR"
} else {
    "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
};

/// Windows ignores the case of names.
fn is_same(a: &OsStr, b: &OsStr) -> bool {
    match cfg!(windows) {
        true => a.eq_ignore_ascii_case(b),
        false => a == b,
    }
}

/// The environment of a server: inherited variables, then those passed by name, then literal
/// values; the last one wins. `Debug` shows names only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EnvPolicy {
    pub(super) inherit: InheritEnv,
    pub(super) pass: BTreeSet<OsString>,
    pub(super) set: BTreeMap<OsString, OsString>,
}

impl EnvPolicy {
    /// Returns the variables to inherit.
    pub fn inherited(&self) -> InheritEnv {
        self.inherit
    }

    /// Returns the names that are passed from the host.
    pub fn passed(&self) -> impl Iterator<Item = &OsStr> {
        self.pass.iter().map(OsString::as_os_str)
    }

    /// Returns the variables with literal values.
    pub fn literals(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.set.iter().map(|(n, v)| (n.as_os_str(), v.as_os_str()))
    }

    /// Builds the server's environment from the host's environment `host`.
    ///
    /// Omits inherited values that start with `()`: they are exported shell functions, which the
    /// SDKs refuse, too.
    pub fn resolve(
        &self,
        host: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let is_passed = |name: &OsStr| self.pass.iter().any(|passed| is_same(passed, name));
        let is_set = |name: &OsStr| self.set.keys().any(|set| is_same(set, name));
        let mut resolved: BTreeMap<_, _> = host
            .into_iter()
            .filter(|(name, _)| !is_set(name))
            .filter(|(name, value)| is_passed(name) || self.inherits(name, value))
            .collect();
        resolved.extend(self.set.iter().map(|(n, v)| (n.clone(), v.clone())));
        resolved
    }

    fn inherits(&self, name: &OsStr, value: &OsStr) -> bool {
        match self.inherit {
            InheritEnv::All => true,
            InheritEnv::Nothing => false,
            InheritEnv::AllowList => {
                let mut allowed = ALLOWED.split(' ');
                allowed.any(|allowed| is_same(name, allowed.as_ref()))
                    && !value.as_encoded_bytes().starts_with(b"()")
            }
        }
    }

    pub(super) fn validate(&self) -> Result<(), SpecError> {
        for name in self.pass.iter().chain(self.set.keys()) {
            let bytes = name.as_encoded_bytes();
            if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
                return Err(SpecError::InvalidEnvName {
                    name: name.to_string_lossy().into_owned(),
                });
            }
        }
        self.set
            .values()
            .try_for_each(|value| reject_nul("the value of an environment variable", value))
    }
}

debug_fields!(
    EnvPolicy,
    it {
        inherit: &it.inherit,
        pass: &it.pass,
        set: &it.set.keys().collect::<Vec<_>>()
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<(OsString, OsString)> {
        [
            ("PATH", "/bin"),
            ("HOME", "/home/me"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("SHELL", "() { evil; }"),
        ]
        .map(|(n, v)| (n.into(), v.into()))
        .into()
    }

    fn names(env: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        env.keys().filter_map(|n| n.to_str()).collect()
    }

    #[cfg(windows)]
    #[test]
    fn case_makes_no_other_variable() {
        let host = [("Path", "inherited"), ("Token", "passed")].map(|(n, v)| (n.into(), v.into()));
        let mut policy = EnvPolicy::default();
        policy.pass.insert("TOKEN".into());
        assert_eq!(names(&policy.resolve(host.clone())), ["Path", "Token"]);
        policy.set.insert("PATH".into(), "literal".into());
        let env = policy.resolve(host);
        assert_eq!(names(&env), ["PATH", "Token"]);
        assert_eq!(env[OsStr::new("PATH")], "literal");
    }

    #[test]
    fn secrets_of_the_host_stay_with_the_host() {
        let env = EnvPolicy::default().resolve(host());
        assert_eq!(names(&env), ["HOME", "PATH"]);
    }

    #[test]
    fn named_variables_pass_and_literals_win() {
        let mut policy = EnvPolicy::default();
        policy.pass.insert("AWS_SECRET_ACCESS_KEY".into());
        policy.pass.insert("NOT_SET".into());
        policy.set.insert("HOME".into(), "/elsewhere".into());
        let env = policy.resolve(host());
        assert_eq!(names(&env), ["AWS_SECRET_ACCESS_KEY", "HOME", "PATH"]);
        assert_eq!(env[OsStr::new("HOME")], "/elsewhere");
    }

    #[test]
    fn all_and_nothing_mean_what_they_say() {
        let resolved = |inherit| {
            let policy = EnvPolicy {
                inherit,
                ..EnvPolicy::default()
            };
            policy.resolve(host())
        };
        assert_eq!(resolved(InheritEnv::All).len(), 4);
        assert!(resolved(InheritEnv::Nothing).is_empty());
    }
}
