//! The thread that owns operations which must outlive their caller: creations in flight, attached
//! streams, removals. One per process, started with the first launch.

use mcp_lifecycle_core::backend::control::Control;

pub(crate) static CONTROL: Control = Control::new("mcp-docker");
