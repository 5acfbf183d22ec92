use std::borrow::Cow;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{ClientConfig, ClientResult, ProtocolVersion, ServerNotification, ServerRequest};
use rmcp::service::{DynService, NotificationContext, RequestContext, RoleClient, Service};

use super::handshake::LEGACY_VERSION;
use crate::terminate::callback::{guarded, guarded_async};

/// The application's handler. A panic in it becomes an error response. Its default protocol version
/// has no `initialize`: then rmcp sends the newest legacy version.
#[derive(Clone)]
pub(super) struct SharedHandler {
    server: Arc<str>,
    handler: Arc<dyn DynService<RoleClient>>,
}

const WHAT: &str = "the client's handler";

impl SharedHandler {
    pub(super) fn new(server: &str, handler: Arc<dyn DynService<RoleClient>>) -> Self {
        let server = server.into();
        Self { server, handler }
    }
}

impl Service<RoleClient> for SharedHandler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let answer = async { self.handler.handle_request(request, context).await };
        let answer = guarded_async(WHAT, &self.server, answer).await;
        answer.unwrap_or_else(|_| Err(ErrorData::internal_error("the handler panicked", None)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        let handled = async {
            self.handler
                .handle_notification(notification, context)
                .await
        };
        let handled = guarded_async(WHAT, &self.server, handled).await;
        handled.unwrap_or(Ok(()))
    }

    fn get_info(&self) -> ClientConfig {
        let info = guarded(WHAT, &self.server, || self.handler.get_info());
        let mut info = info.unwrap_or_default();
        if !info.protocol_version.has_initialize() {
            info.protocol_version = LEGACY_VERSION;
        }
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let versions = || self.handler.supported_protocol_versions();
        let versions = guarded(WHAT, &self.server, versions);
        versions.unwrap_or(Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS))
    }
}
