use serde::{Deserialize, Serialize};

use super::extension::Extensions;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    #[serde(default)]
    pub client_name: String,
    pub resume_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Extensions>,
}

/// Result of `initialize`. Early servers answer `{}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
    /// The extensions that were agreed on; absent from a plain peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Extensions>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvironmentInfo {
    pub executor_version: Option<String>,
    pub cwd: Option<String>,
    pub platform_os: Option<String>,
    /// The user's shell; codex's client insists on one.
    pub shell: Option<Shell>,
    pub user_home_dir: Option<String>,
    pub temp_dir: Option<String>,
    /// The abilities of codex's server beyond processes: none of them is ours.
    pub capabilities: Option<Capabilities>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// The kind: `bash`, `sh`.
    pub name: String,
    pub path: String,
}

/// The abilities of codex's server, all of them off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {}
