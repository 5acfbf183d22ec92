//! One JSON-RPC message as the fixture sees it.

use serde_json::Value;

/// The key by which a request of the modern era states its revision.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// A request or a notification from the client.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// `None` for a notification.
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl Message {
    /// `None` when the line is not a request and not a notification.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        Some(Self {
            method: value.get("method")?.as_str()?.to_owned(),
            id: value.get("id").cloned(),
            params: value["params"].take(),
        })
    }

    /// The revision that this request states: it belongs to the modern era.
    pub(crate) fn modern_version(&self) -> Option<&str> {
        self.params.get("_meta")?.get(VERSION_KEY)?.as_str()
    }

    /// Returns whether it opens the conversation.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    /// Returns whether it is the last message of the handshake: the fixture may begin
    /// to misbehave once it is answered.
    pub(crate) fn ends_handshake(&self) -> bool {
        matches!(
            self.method.as_str(),
            "notifications/initialized" | "server/discover"
        )
    }

    /// The tool to call, if this is a call.
    pub(crate) fn tool(&self) -> Option<&str> {
        (self.method == "tools/call").then(|| self.params["name"].as_str())?
    }

    /// An argument of the tool call.
    pub(crate) fn argument(&self, name: &str) -> &Value {
        &self.params["arguments"][name]
    }

    /// A number among the arguments of the tool call; 0 when it is missing.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.argument(name).as_u64().unwrap_or(0)
    }

    /// The id as a word, for events.
    pub(crate) fn id_text(&self) -> String {
        self.id.as_ref().map(Value::to_string).unwrap_or_default()
    }
}
