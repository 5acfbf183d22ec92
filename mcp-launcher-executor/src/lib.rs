//! Launches stdio MCP servers on another machine through an executor.
