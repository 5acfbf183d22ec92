use std::sync::Arc;

use rmcp::Peer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientRequest, ServerPeerInfo, ServerResult, Tool,
};
use rmcp::service::{RoleClient, ServiceError};

use super::call::{self, Called};
use super::session::Session;
use super::{CallError, CallOptions, elicitation};
use crate::launch::macros::debug_fields;

/// Makes calls to a server without owning it.
///
/// Clones are cheap and keep no server alive: once the owner shuts down or is dropped, every call
/// fails at once with the reason.
#[derive(Clone)]
pub struct LifecyclePeer {
    session: Arc<Session>,
    options: CallOptions,
}

impl LifecyclePeer {
    pub(super) fn new(session: Arc<Session>, options: CallOptions) -> Self {
        Self { session, options }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the server's name.
    pub fn server(&self) -> &str {
        &self.session.observed.server
    }

    /// Returns this peer with different default call options.
    #[must_use]
    pub fn call_options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the server's description from the handshake.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.rmcp().ok().and_then(Peer::peer_info)
    }

    /// Returns whether the server is ready for calls.
    pub fn is_ready(&self) -> bool {
        self.session.state.borrow().is_ready()
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.session.wire.in_flight()
    }

    /// Calls a tool, with the options of this peer. A modern server may request input in between;
    /// the client's handler answers. A tool reports its own failure in its result.
    ///
    /// # Errors
    ///
    /// [`CallError`]: no usable answer in time, the server ended or answered with an error, or its
    /// queue is full. The call may have been carried out; it is never repeated.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call on the server (`notifications/cancelled`).
    pub async fn call_tool(
        &self,
        params: CallToolRequestParams,
    ) -> Result<CallToolResult, CallError> {
        self.call_tool_with(params, &self.options).await
    }

    /// Does the same as [`call_tool`](Self::call_tool), with these options.
    pub async fn call_tool_with(
        &self,
        params: CallToolRequestParams,
        options: &CallOptions,
    ) -> Result<CallToolResult, CallError> {
        elicitation::call_tool(&self.session, params, options).await
    }

    /// Lists all tools of the server, page by page.
    ///
    /// # Errors
    ///
    /// Errors and cancel safety are those of [`guard`](Self::guard).
    pub async fn list_all_tools(&self) -> Result<Vec<Tool>, CallError> {
        let (call, called) = (self.rmcp()?.list_all_tools(), Called::Method("tools/list"));
        call::guard(&self.session, called, call, &self.options, None).await
    }

    /// Sends any request and returns the raw result.
    ///
    /// # Errors
    ///
    /// Errors and cancel safety are those of [`call_tool`](Self::call_tool).
    pub async fn request(
        &self,
        request: ClientRequest,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        let method = request.method().to_owned();
        call::request(&self.session, Called::Method(&method), request, options).await
    }

    /// Runs any future of rmcp's [`Peer`] with the limits of this peer: it fails at once, with the
    /// reason, when the server or the client ends, and has the time of the peer's options.
    ///
    /// ```no_run
    /// # async fn example(peer: mcp_lifecycle_core::LifecyclePeer)
    /// # -> Result<(), mcp_lifecycle_core::client::CallError> {
    /// let prompts = peer.guard(peer.rmcp()?.list_all_prompts()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError`]: that of the future, or the end of the server, the client or the time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if the given future is.
    pub async fn guard<T>(
        &self,
        call: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, CallError> {
        call::guard(&self.session, Called::Unknown, call, &self.options, None).await
    }

    /// Returns rmcp's own peer, for everything that has no method here. Use it through
    /// [`guard`](Self::guard): by itself it has no timeout and notices the server's death late.
    ///
    /// # Errors
    ///
    /// [`CallErrorKind::Ending`](super::CallErrorKind::Ending) before the handshake is complete.
    pub fn rmcp(&self) -> Result<&Peer<RoleClient>, CallError> {
        match self.session.rmcp.get() {
            Some(running) => Ok(running.peer()),
            None => Err(Called::Unknown.failed(&self.session, self.session.not_connected())),
        }
    }
}

debug_fields!(
    LifecyclePeer,
    it {
        server: &it.session.observed.server,
        in_flight: &it.in_flight()
    }
);
