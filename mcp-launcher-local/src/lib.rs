//! Launches stdio MCP servers as processes on this machine and never loses one.
