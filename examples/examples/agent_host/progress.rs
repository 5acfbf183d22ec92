//! Progress on the terminal.

use mcp_lifecycle_core::ServerEvent;
use mcp_lifecycle_core::client::ServerEventKind;

pub(crate) fn print(event: &ServerEvent) {
    let mark = match event.kind {
        ServerEventKind::Ready { .. } => "+",
        ServerEventKind::Failed { .. } | ServerEventKind::Unproven { .. } => "!",
        ServerEventKind::Ended { .. } => "-",
        _ => " ",
    };
    println!(
        "{mark} {:<16} {:<14} {}",
        event.owner, event.server, event.kind
    );
}
