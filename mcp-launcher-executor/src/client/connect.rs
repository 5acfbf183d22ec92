use std::future::Future;

use mcp_lifecycle_core::launch::BoxError;

use super::child::CommandChild;
use super::config::{ExecServerConfig, Target};
use crate::ExecutorError;
use crate::error::reason;
use crate::link::{LineLink, Link};

pub(super) struct Connected {
    pub(super) link: Box<dyn Link>,
    child: Option<CommandChild>,
    #[cfg(feature = "websocket")]
    quick_ack: Option<super::quick_ack::QuickAck>,
}

impl Connected {
    /// Records whether the peer is our daemon, which needs no quick acknowledgement.
    pub(super) fn peer_is_ours(&self, ours: bool) {
        #[cfg(feature = "websocket")]
        if let Some(quick_ack) = &self.quick_ack {
            quick_ack.set(!ours);
        }
        #[cfg(not(feature = "websocket"))]
        let _ = ours;
    }

    pub(super) fn close(self) -> impl Future<Output = ()> + Send + 'static {
        let Self { link, child, .. } = self;
        drop(link);
        async move {
            if let Some(child) = child {
                child.leave().await;
            }
        }
    }

    /// Closes a lost link. Returns `reason`, or a future of the reason that its command reports.
    pub(super) fn part(
        self,
        reason: String,
    ) -> Result<impl Future<Output = String> + Send, String> {
        let Self { link, child, .. } = self;
        drop(link);
        let mut child = child.ok_or(reason)?;
        Ok(async move {
            let words = child.last_words().await;
            tokio::spawn(child.leave());
            words
        })
    }
}

pub(super) async fn connect(config: ExecServerConfig) -> Result<Connected, ExecutorError> {
    let failed = |source: BoxError| ExecutorError::Connect {
        peer: config.peer(),
        reason: reason(source),
    };
    if let Some(objection) = config.objection() {
        return Err(failed(objection.into()));
    }
    match tokio::time::timeout(config.connect_timeout, dial(&config)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(
            format!("no connection within {:?}", config.connect_timeout).into(),
        )),
    }
}

async fn dial(config: &ExecServerConfig) -> Result<Connected, BoxError> {
    match &config.target {
        #[cfg(feature = "websocket")]
        Target::WebSocket {
            url,
            token,
            certificates,
        } => {
            let (link, quick_ack) =
                super::dial::websocket(url, token.as_deref(), certificates, config.max_frame)
                    .await?;
            Ok(Connected {
                link,
                child: None,
                quick_ack,
            })
        }
        Target::Command { program, args } => {
            let (child, stdout, stdin) = CommandChild::start(program, args)?;
            let link = LineLink::new(stdout, stdin, config.max_frame);
            Ok(Connected {
                link: Box::new(link),
                child: Some(child),
                #[cfg(feature = "websocket")]
                quick_ack: None,
            })
        }
    }
}
