//! Options of servers in containers and pods.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::{invalid, missing, set_at};
use crate::launch::SpecError;

/// The image pull policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PullPolicy {
    /// Pull if the engine or the node does not have it.
    #[default]
    Missing,
    /// Pull before every launch.
    Always,
    /// Never pull: a missing image is an error.
    Never,
}

/// Fields that cannot be set, and why.
pub type Ours = &'static [(&'static str, &'static str)];

/// Reasons for which a field cannot be set.
pub const OPTION: &str = "the launcher's option of that name sets it";
pub const SPEC: &str = "the server's specification sets it";
pub const LIFECYCLE: &str = "the server's lifecycle rests on it";

/// Rejects the fields that a launcher sets itself.
pub fn refuse(option: &str, fields: &Map<String, Value>, ours: Ours) -> Result<(), SpecError> {
    match ours.iter().find(|(path, _)| set_at(fields, path).is_some()) {
        Some((path, why)) => Err(invalid(
            option,
            format!("`{path}` cannot be set here: {why}"),
        )),
        None => Ok(()),
    }
}

/// Reads an API's type. `asked` is the part of `whole` that may have fields that the API does not:
/// it would drop them silently.
pub fn known<T: Serialize + DeserializeOwned>(
    option: &str,
    asked: &Value,
    whole: Value,
) -> Result<T, SpecError> {
    let failed = |error: serde_json::Error| invalid(option, error.to_string());
    let typed: T = serde_json::from_value(whole).map_err(failed)?;
    let kept = serde_json::to_value(&typed).map_err(failed)?;
    match missing(asked, &kept, "") {
        Some(path) => Err(invalid(option, format!("the API has no `{path}`"))),
        None => Ok(typed),
    }
}

/// Rejects labels that are reserved for the launchers.
pub fn unreserved<'a>(mut keys: impl Iterator<Item = &'a String>) -> Result<(), SpecError> {
    match keys.find(|key| key.starts_with("dev.mcp-lifecycle.")) {
        Some(key) => Err(invalid(
            "labels",
            format!("`{key}`: labels that begin with dev.mcp-lifecycle. are set by the launcher"),
        )),
        None => Ok(()),
    }
}

/// Default grace of a server under a supervised init, in milliseconds.
pub const INIT_GRACE_MS: u32 = 5000;

/// Defines the options of servers in containers or pods: those that both have, and more. `$raw` has
/// fields in the format of the API. The module has to have `body::check`.
#[doc(hidden)]
#[macro_export]
macro_rules! server_options {
    ($(#[$doc:meta])* $of:ident($init:ty, $raw:ident) { $($name:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[must_use = "options do nothing until they are applied"]
        pub struct $of {
            image: Option<String>,
            pull: Option<$crate::backend::options::PullPolicy>,
            pub(crate) init: Option<$init>,
            init_grace_ms: Option<u32>,
            #[serde(alias = "read_only")]
            read_only_root: bool,
            cap_add: Vec<String>,
            labels: std::collections::BTreeMap<String, String>,
            $raw: serde_json::Map<String, serde_json::Value>,
            $($name: $type,)*
            /// The first error of the setters.
            #[serde(skip)]
            problem: Option<$crate::launch::SpecError>,
        }

        impl $of {
            /// Returns the defaults with this image.
            pub fn new(image: impl Into<String>) -> Self {
                Self { image: Some(image.into()), ..Self::default() }
            }

            /// Sets these options in a specification. Invalid options are an error of its
            /// [`build`]($crate::launch::ServerSpecBuilder::build).
            pub fn apply(
                &self,
                spec: $crate::launch::ServerSpecBuilder,
            ) -> $crate::launch::ServerSpecBuilder {
                let problem = self.problem.clone();
                match problem.map_or_else(|| body::check(self), Err) {
                    Ok(()) => spec.options(self),
                    Err(error) => spec.reject(error),
                }
            }

            /// Begins the specification of a server that runs the image's entry point with these
            /// options.
            pub fn server(&self, name: impl Into<String>) -> $crate::launch::ServerSpecBuilder {
                self.apply($crate::launch::ServerSpec::builder_without_command(name))
            }

            /// Begins the specification of a server that runs this program of the image.
            pub fn command(
                &self,
                name: impl Into<String>,
                program: impl Into<std::ffi::OsString>,
            ) -> $crate::launch::ServerSpecBuilder {
                self.apply($crate::launch::ServerSpec::builder(name, program))
            }

            pub(crate) fn of(
                spec: &$crate::launch::ServerSpec,
            ) -> Result<Self, $crate::launch::SpecError> {
                spec.read_options()
            }

            fn merge(&mut self, fields: impl serde::Serialize) {
                match serde_json::to_value(fields) {
                    Ok(serde_json::Value::Object(fields)) => {
                        $crate::backend::fields::over(&mut self.$raw, fields);
                    }
                    Ok(_) => self.reject(stringify!($raw), "is not an object"),
                    Err(error) => self.reject(stringify!($raw), error.to_string()),
                }
            }

            fn reject(&mut self, name: &str, problem: impl Into<String>) {
                let problem = $crate::backend::fields::invalid(name, problem);
                self.problem.get_or_insert(problem);
            }
        }

        $crate::setters! { $of:
            /// Sets the image.
            image(image: impl Into<String>) |it| it.image = Some(image.into());
            /// Sets when the image is pulled, instead of the launcher's or the cluster's policy.
            pull(policy: $crate::backend::options::PullPolicy) |it| it.pull = Some(policy);
            /// Sets process 1, instead of the launcher's default.
            init(init: $init) |it| it.init = Some(init);
            /// Sets the grace of a supervised server, from the end of its input to SIGTERM, and
            /// again to SIGKILL; in whole milliseconds, 5 s by default. Should not be shorter than
            /// the graces of the client's policy, which it would cut short.
            init_grace(grace: std::time::Duration) |it| it.init_grace_ms = Some(u32::try_from(grace.as_millis()).unwrap_or(u32::MAX));
            /// Makes the root file system read-only.
            read_only_root(read_only: bool) |it| it.read_only_root = read_only;
            /// Gives a capability back, named without `CAP_`: all are dropped.
            cap_add(capability: impl Into<String>) |it| it.cap_add.push(capability.into());
            /// Adds a label. Those of this crate are reserved.
            label(key: impl Into<String>, value: impl Into<String>) |it| it.labels.insert(key.into(), value.into());
        }
    };
}
