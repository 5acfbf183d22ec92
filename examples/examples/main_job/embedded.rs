//! A small MCP server, so that the example needs nothing but itself.

use std::process::ExitCode;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use serde_json::json;

/// Serves on standard input and output until the client leaves.
pub(crate) async fn serve() -> ExitCode {
    let service = match Embedded
        .serve((tokio::io::stdin(), tokio::io::stdout()))
        .await
    {
        Ok(service) => service,
        Err(error) => {
            eprintln!("embedded server: {error}");
            return ExitCode::FAILURE;
        }
    };
    match service.waiting().await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("embedded server: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Embedded;

impl ServerHandler for Embedded {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("embedded", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let echo = Tool::new("echo", "Returns its message", schema);
        Ok(ListToolsResult::with_all_items(vec![echo]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let message = request.arguments.as_ref().and_then(|a| a.get("message"));
        match message.and_then(|message| message.as_str()) {
            Some(message) => Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into()),
            None => Err(ErrorData::invalid_params("`message` is missing", None)),
        }
    }
}
