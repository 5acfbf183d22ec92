use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{DynService, RoleClient};

use crate::client::ServerObserver;
use crate::fleet::slots::settings::Limits;
use crate::launch::macros::debug_fields;

pub(crate) struct Settings {
    pub(crate) owner: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) drain: Duration,
    pub(crate) observer: Option<Arc<dyn ServerObserver>>,
    pub(crate) handlers: Option<Handlers>,
}

impl Settings {
    pub(crate) fn new(owner: String, max_live: usize, drain: Duration) -> Self {
        Self {
            owner: Arc::from(owner),
            limits: Limits {
                max_live,
                max_starting: 16,
            },
            drain,
            observer: None,
            handlers: None,
        }
    }
}

debug_fields!(
    Settings,
    it {
        owner: &it.owner,
        limits: &it.limits,
        drain: &it.drain
    }
);

pub(crate) type Handlers = Box<dyn Fn(&str, &str) -> Arc<dyn DynService<RoleClient>> + Send + Sync>;
