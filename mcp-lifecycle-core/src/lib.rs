//! Traits, termination ladder and lifecycle-aware client for stdio MCP servers.
