use serde::Deserialize;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Lease,
    Event,
}

impl Kind {
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

#[derive(Deserialize)]
pub(crate) struct Listed<T> {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    /// A watch from here on reports everything that happened since.
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) rest: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deletion<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
    /// In seconds. Zero only for a pod that has ended: it removes the object and ends nothing.
    pub(crate) grace: Option<u32>,
}
