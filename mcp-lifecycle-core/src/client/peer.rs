//! [`LifecyclePeer`]: the calls of a client, cheap to clone, owning nothing.

use std::fmt;
use std::sync::Arc;

use rmcp::Peer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientRequest, ServerPeerInfo, ServerResult, Tool,
};
use rmcp::service::{RoleClient, ServiceError};

use super::call::CallOptions;
use super::error::call::CallError;
use super::session::Session;
use super::{call, elicitation};

/// Makes calls to a server that somebody else owns.
///
/// Clones are cheap. A peer keeps no server alive: once the owner shuts down or
/// is dropped, every call fails at once with the reason.
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

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.session.server
    }

    /// Returns this peer with different default call options.
    #[must_use]
    pub fn with_call_options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// What the server said of itself in the handshake.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.rmcp().ok().and_then(Peer::peer_info)
    }

    /// Whether the server is ready for calls, as far as is known here.
    pub fn is_ready(&self) -> bool {
        self.session.state.borrow().is_ready()
    }

    /// How many requests wait for an answer.
    pub fn in_flight(&self) -> usize {
        self.session.wire.in_flight()
    }

    /// Calls a tool, with the options of this peer.
    ///
    /// A server of the modern era may ask for input in between; the client's
    /// handler answers it.
    ///
    /// # Errors
    ///
    /// [`CallError`]. A tool that fails says so in its result, not here.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future tells the server to give the call up
    /// (`notifications/cancelled`), after the call itself was sent.
    pub async fn call_tool(
        &self,
        params: CallToolRequestParams,
    ) -> Result<CallToolResult, CallError> {
        self.call_tool_with(params, &self.options).await
    }

    /// Calls a tool with options of its own.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn call_tool_with(
        &self,
        params: CallToolRequestParams,
        options: &CallOptions,
    ) -> Result<CallToolResult, CallError> {
        elicitation::call_tool(&self.session, params, options).await
    }

    /// All tools of the server, page by page.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a request in flight is cancelled.
    pub async fn list_all_tools(&self) -> Result<Vec<Tool>, CallError> {
        self.guard(self.rmcp()?.list_all_tools()).await
    }

    /// Sends any request and returns the raw result.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn request(
        &self,
        request: ClientRequest,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        call::request(&self.session, request, options).await
    }

    /// Runs any future of rmcp's [`Peer`] under this peer's protection: it ends
    /// at once, with the reason, when the server or the client does, and within
    /// the time of the peer's options.
    ///
    /// ```no_run
    /// # async fn example(peer: mcp_lifecycle_core::LifecyclePeer)
    /// # -> Result<(), mcp_lifecycle_core::client::CallError> {
    /// let resources = peer.guard(peer.rmcp()?.list_all_resources()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError`].
    ///
    /// # Cancel safety
    ///
    /// As the future that is given.
    pub async fn guard<T>(
        &self,
        call: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, CallError> {
        call::guard(&self.session, call, &self.options).await
    }

    /// rmcp's own peer, for everything that has no method here. Use it through
    /// [`guard`](Self::guard): by itself it has no timeout, and learns of the
    /// server's death late.
    ///
    /// # Errors
    ///
    /// [`CallError::Ending`] before the handshake is complete.
    pub fn rmcp(&self) -> Result<&Peer<RoleClient>, CallError> {
        match self.session.rmcp.get() {
            Some(running) => Ok(running.peer()),
            None => Err(self.session.not_connected()),
        }
    }
}

impl fmt::Debug for LifecyclePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecyclePeer")
            .field("server", &self.session.server)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
