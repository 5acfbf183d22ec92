//! The labels that say whose a container is.
//!
//! Never a name, an image or a pid: a container is ours when it carries the
//! instance of a lease that we can judge (see [`lease`](crate::lease)).

use std::collections::HashMap;

use crate::lease::Lease;

/// All keys begin with it.
pub(crate) const PREFIX: &str = "dev.mcp-lifecycle.";
/// The instance of the host's lease: who owns the container.
pub(crate) const INSTANCE: &str = "dev.mcp-lifecycle.instance";
/// The directory in which that lease can be found, by its random name.
pub(crate) const DOMAIN: &str = "dev.mcp-lifecycle.domain";
/// The machine of the host, which may not be the machine of the daemon.
pub(crate) const MACHINE: &str = "dev.mcp-lifecycle.machine";
/// The boot of that machine.
pub(crate) const BOOT: &str = "dev.mcp-lifecycle.boot";
/// One launch of one server.
pub(crate) const LAUNCH: &str = "dev.mcp-lifecycle.launch";
/// The name of the server in its specification: for people.
pub(crate) const SERVER: &str = "dev.mcp-lifecycle.server";
/// The pid of the host: for people, never to be signalled. A living process of
/// this number is a reason to leave a container alone, and none to end one.
pub(crate) const HOST_PID: &str = "dev.mcp-lifecycle.host-pid";
/// The container's [`Role`].
pub(crate) const ROLE: &str = "dev.mcp-lifecycle.role";
/// The fate of the container when its server ends: [`END`] or [`KEEP`].
pub(crate) const ON_END: &str = "dev.mcp-lifecycle.on-end";

/// All of them.
pub(crate) const ALL: [&str; 9] = [
    INSTANCE, DOMAIN, MACHINE, BOOT, LAUNCH, SERVER, HOST_PID, ROLE, ON_END,
];

/// It ends with its server.
pub(crate) const END: &str = "end";
/// It stays, and is reported.
pub(crate) const KEEP: &str = "keep";

/// It is the server.
pub(crate) const ROLE_SERVER: &str = "server";
/// The server started it.
pub(crate) const ROLE_NESTED: &str = "nested";

/// The role of a container for its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the server.
    Server,
    /// The server started it.
    Nested,
}

/// The labels that every container of one launch carries.
pub(crate) fn of_launch(
    lease: &Lease,
    launch: &str,
    server: &str,
    role: Role,
) -> HashMap<String, String> {
    let owner = lease.owner();
    let role = match role {
        Role::Server => ROLE_SERVER,
        Role::Nested => ROLE_NESTED,
    };
    let labels = [
        (INSTANCE, lease.instance()),
        (DOMAIN, &owner.domain),
        (MACHINE, &owner.machine),
        (BOOT, &owner.boot),
        (LAUNCH, launch),
        (SERVER, server),
        (HOST_PID, &std::process::id().to_string()),
        (ROLE, role),
        (ON_END, END),
    ];
    labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// A container's name: for people, and unique, so that it is known before the
/// daemon has given an id.
pub(crate) fn container_name(server: &str, launch: &str) -> String {
    /// Leaves room for more in the 63 characters that a host name may have.
    const LONGEST: usize = 40;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let server: String = server
        .chars()
        .take(LONGEST)
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    let launch = launch.get(..12).unwrap_or(launch);
    format!("mcp-{server}-{launch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_fit_for_the_daemon() {
        let name = container_name("my server/ü", "0123456789abcdef");
        assert_eq!(name, "mcp-my-server---0123456789ab");
        assert!(container_name(&"x".repeat(500), "0").len() < 63);
    }
}
