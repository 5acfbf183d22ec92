//! The client under test of the official conformance suite: does what a scenario asks of a client, by
//! `LifecycleClient` over stdio. The server is `forward.mjs`, which forwards to the suite's HTTP.

use std::env;
use std::error::Error;
use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerSpec};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, Tool,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).ok_or("usage: client URL")?;
    let forwarder = env::var("MCP_CONFORMANCE_FORWARDER")?;
    let spec = ServerSpec::builder("suite", env::var("MCP_CONFORMANCE_NODE")?);
    let spec = spec.args([forwarder, url]).build()?;
    let config = ServerConfig::new(Arc::new(LocalLauncher::new()), spec);
    let client = LifecycleClient::builder(config).handler(Accepts);
    let client = client.start().await?;
    let done = act(&client, &env::var("MCP_CONFORMANCE_SCENARIO")?).await;
    let report = client.shutdown().await?;
    eprintln!("{report}");
    done
}

async fn act(client: &LifecycleClient, scenario: &str) -> Result<()> {
    let tools = client.list_all_tools().await?;
    match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {}
        "tools_call" => call(client, "add_numbers", json!({"a": 2, "b": 3})).await?,
        "elicitation-sep1034-client-defaults" => {
            call(client, "test_client_elicitation_defaults", json!({})).await?;
        }
        "json-schema-2020-12-preservation" => {
            let schema = schema_of(&tools, "json_schema_2020_12_tool")?;
            call(client, "json_schema_echo", json!({ "schema": schema })).await?;
        }
        "sep-2322-client-request-state" => {
            // Both at once: neither may carry what belongs to the other.
            tokio::try_join!(
                call(client, "test_mrtr_echo_state", json!({})),
                call(client, "test_mrtr_unrelated", json!({})),
            )?;
            call(client, "test_mrtr_no_state", json!({})).await?;
            call(client, "test_mrtr_no_result_type", json!({})).await?;
        }
        other => return Err(format!("this client knows no scenario `{other}`").into()),
    }
    Ok(())
}

async fn call(client: &LifecycleClient, tool: &'static str, arguments: Value) -> Result<()> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let answer = client.call_tool(params).await?;
    match answer.is_error {
        Some(true) => Err(format!("{tool}: {:?}", answer.content).into()),
        _ => Ok(()),
    }
}

fn schema_of<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Map<String, Value>> {
    let tool = tools.iter().find(|tool| tool.name == name);
    Ok(&tool.ok_or("the tool is not listed")?.input_schema)
}

/// An application that accepts each form: with its defaults, and `true` where there is none.
#[derive(Clone)]
struct Accepts;

impl rmcp::ClientHandler for Accepts {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(Default::default());
        capabilities.roots = Some(Default::default());
        capabilities.sampling = Some(Default::default());
        let name = Implementation::new("mcp-lifecycle", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, name)
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> std::result::Result<ElicitResult, ErrorData> {
        let asked = serde_json::to_value(asked).unwrap_or_default();
        let fields = asked["requestedSchema"]["properties"].as_object();
        let content: Map<_, _> = fields
            .into_iter()
            .flatten()
            .map(|(name, field)| {
                (
                    name.clone(),
                    field.get("default").cloned().unwrap_or(true.into()),
                )
            })
            .collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content.into()))
    }
}
