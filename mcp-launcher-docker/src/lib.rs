//! Launches stdio MCP servers as containers through the Docker Engine API.
