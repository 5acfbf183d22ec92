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
    match missing(asked, &kept) {
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

/// Generates chained setters: a name, its values, and what it does to `it`.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($of:ident$(<$param:ident>)?: $($(#[$doc:meta])* $name:ident($($value:ident: $type:ty),*) |$it:ident| $set:expr;)*) => {
        impl$(<$param>)? $of$(<$param>)? {
            $($(#[$doc])*
            pub fn $name(mut self, $($value: $type),*) -> Self {
                let $it = &mut self;
                $set;
                self
            })*
        }
    };
}
