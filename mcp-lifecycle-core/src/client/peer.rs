//! [`LifecyclePeer`]: the calls of a client, cheap to clone, owning nothing.

use std::fmt;
use std::sync::Arc;

use rmcp::Peer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientRequest, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResult, Prompt, ReadResourceRequestParams, ReadResourceResult,
    Resource, ResourceTemplate, ServerPeerInfo, ServerResult, Tool,
};
use rmcp::service::{RoleClient, ServiceError};

use super::call::{self, Called};
use super::elicitation;
use super::error::call::CallError;
use super::options::CallOptions;
use super::session::Session;

/// Writes the calls that rmcp has a method for.
macro_rules! calls {
    ($($(#[$doc:meta])+ $name:ident($($params:ident: $type:ty)?) -> $answer:ty, $method:literal;)+) => {$(
        $(#[$doc])+
        ///
        /// # Errors
        ///
        /// [`CallError`].
        ///
        /// # Cancel safety
        ///
        /// As [`guard`](Self::guard).
        pub async fn $name(&self $(, $params: $type)?) -> Result<$answer, CallError> {
            let call = self.rmcp()?.$name($($params)?);
            call::guard(&self.session, Called::Method($method), call, &self.options).await
        }
    )+};
}

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

    /// The server's description of itself in the handshake.
    pub fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.rmcp().ok().and_then(Peer::peer_info)
    }

    /// Returns whether the server is ready for calls, as far as is known here.
    pub fn is_ready(&self) -> bool {
        self.session.state.borrow().is_ready()
    }

    /// The number of requests that wait for an answer.
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

    /// Calls a tool with these options.
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

    calls! {
        /// Lists all tools of the server, page by page.
        list_all_tools() -> Vec<Tool>, "tools/list";
        /// Lists all resources of the server, page by page.
        list_all_resources() -> Vec<Resource>, "resources/list";
        /// Lists all templates of resources, page by page.
        list_all_resource_templates() -> Vec<ResourceTemplate>, "resources/templates/list";
        /// Reads a resource.
        read_resource(params: ReadResourceRequestParams) -> ReadResourceResult, "resources/read";
        /// Lists all prompts of the server, page by page.
        list_all_prompts() -> Vec<Prompt>, "prompts/list";
        /// Gets a prompt with its arguments filled in.
        get_prompt(params: GetPromptRequestParams) -> GetPromptResult, "prompts/get";
        /// Completes an argument of a prompt or of a template.
        complete(params: CompleteRequestParams) -> CompleteResult, "completion/complete";
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
        let method = request.method().to_owned();
        call::request(&self.session, Called::Method(&method), request, options).await
    }

    /// Runs any future of rmcp's [`Peer`] under this peer's protection: it ends
    /// at once, with the reason, when the server or the client does, and within
    /// the time of the peer's options.
    ///
    /// ```no_run
    /// # async fn example(peer: mcp_lifecycle_core::LifecyclePeer)
    /// # -> Result<(), mcp_lifecycle_core::client::CallError> {
    /// let skills = peer.guard(peer.rmcp()?.list_all_skills()).await?;
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
        call::guard(&self.session, Called::Unknown, call, &self.options).await
    }

    /// rmcp's own peer, for everything that has no method here. Use it through
    /// [`guard`](Self::guard): by itself it has no timeout, and learns of the
    /// server's death late.
    ///
    /// # Errors
    ///
    /// [`CallErrorKind::Ending`](super::CallErrorKind::Ending) before the handshake is
    /// complete.
    pub fn rmcp(&self) -> Result<&Peer<RoleClient>, CallError> {
        match self.session.rmcp.get() {
            Some(running) => Ok(running.peer()),
            None => Err(Called::Unknown.failed(&self.session, self.session.not_connected())),
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
