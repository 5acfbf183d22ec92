//! The objects that are asked for, and what is said of them.

use serde::Deserialize;

/// The kinds of objects that a launcher asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Lease,
    Event,
}

impl Kind {
    /// The group and version of the API that has it.
    pub(super) fn api(self) -> &'static str {
        match self {
            Self::Lease => "/apis/coordination.k8s.io/v1",
            Self::Pod | Self::Secret | Self::ConfigMap | Self::Event => "/api/v1",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Lease => "leases",
            Self::Event => "events",
        }
    }
}

/// Result of a list.
#[derive(Deserialize)]
pub(crate) struct Listed<T> {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Vec<T>,
}

/// Position of a list among all changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    /// A watch that begins here tells what has happened since.
    pub(crate) resource_version: String,
    /// Where the next page begins.
    #[serde(rename = "continue")]
    pub(super) rest: Option<String>,
}

/// Order to delete an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deletion<'a> {
    pub(crate) name: &'a str,
    /// Another object of that name is left alone.
    pub(crate) uid: Option<&'a str>,
    /// One that was changed since is left alone.
    pub(crate) version: Option<&'a str>,
    /// In seconds. 0 only for what has ended: it takes away the object and ends nothing.
    pub(crate) grace: Option<u32>,
}
