//! The application's handler, shared between rmcp's loop and our own calls.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{ClientConfig, ClientResult, ProtocolVersion, ServerNotification, ServerRequest};
use rmcp::service::{DynService, NotificationContext, RequestContext, RoleClient, Service};

use super::era::LEGACY_VERSION;

/// Forwards to the application's handler.
///
/// rmcp sends the handler's protocol version in `initialize`; its default is a
/// version that has no `initialize`, so we put the newest legacy one there.
pub(super) struct SharedHandler(pub(super) Arc<dyn DynService<RoleClient>>);

impl Service<RoleClient> for SharedHandler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        self.0.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = self.0.get_info();
        if !info.protocol_version.has_initialize() {
            info.protocol_version = LEGACY_VERSION;
        }
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}
