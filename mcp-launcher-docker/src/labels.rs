//! The labels that name a container's hosts.
//!
//! A container is ours only if it carries the instance of a ledger that we can judge (see
//! [`ledger`](crate::ledger)). Names, images and pids do not count.
//!
//! Each host has its own set, under `dev.mcp-lifecycle.INSTANCE.`. So a container of nested hosts
//! carries a set for each, independent of the others.

use std::collections::{BTreeMap, HashMap};

use crate::engine::{Engine, EngineError, Found, Result};
use crate::ledger::Ledger;
use crate::machine;

pub(crate) const PREFIX: &str = "dev.mcp-lifecycle.";
/// The server's name in the outermost host, for people; on each container of any host.
pub(crate) const NAME: &str = "dev.mcp-lifecycle.server";

pub(crate) const DOMAIN: &str = "domain";
/// The host's machine, which may not be the daemon's.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const BOOT: &str = "boot";
pub(crate) const LAUNCH: &str = "launch";
pub(crate) const SERVER: &str = "server";
/// The host's pid, for people; never signalled. A living process with this pid is a reason to spare
/// a container, but none to end one.
pub(crate) const HOST_PID: &str = "host-pid";
pub(crate) const ROLE: &str = "role";
/// The fate of the container at its server's end: [`END`] or [`KEEP`].
pub(crate) const ON_END: &str = "on-end";

pub(crate) const END: &str = "end";
pub(crate) const KEEP: &str = "keep";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    /// The server itself, which an init in its container ends when the host is gone.
    Supervised,
    Nested,
}

impl Role {
    pub(crate) const fn value(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Supervised => "supervised",
            Self::Nested => "nested",
        }
    }
}

pub(crate) fn key(instance: &str, field: &str) -> String {
    format!("{PREFIX}{instance}.{field}")
}

#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) instance: String,
    pub(crate) launch: String,
    pub(crate) all: HashMap<String, String>,
}

impl Mark {
    pub(crate) fn new(ledger: &Ledger, launch: &str, server: &str, role: Role) -> Self {
        let (machine, boot) = (machine::id(), machine::boot());
        let (instance, pid) = (&ledger.instance, std::process::id().to_string());
        let fields = [
            (DOMAIN, ledger.domain.as_str()),
            (MACHINE, &machine),
            (BOOT, &boot),
            (LAUNCH, launch),
            (SERVER, server),
            (HOST_PID, &pid),
            (ROLE, role.value()),
            (ON_END, END),
        ];
        let own = fields.map(|(field, value)| (key(instance, field), value.to_owned()));
        let name = (NAME.to_owned(), server.to_owned());
        Self {
            instance: instance.to_owned(),
            launch: launch.to_owned(),
            all: own.into_iter().chain([name]).collect(),
        }
    }

    pub(crate) fn with_fate(&self, ends: bool) -> HashMap<String, String> {
        let fate = if ends { END } else { KEEP };
        let mut all = self.all.clone();
        all.insert(key(&self.instance, ON_END), fate.to_owned());
        all
    }

    pub(crate) fn filter(&self) -> String {
        format!("{}={}", key(&self.instance, LAUNCH), self.launch)
    }

    pub(crate) fn ends(&self, labels: &HashMap<String, String>) -> bool {
        let fate = labels.get(&key(&self.instance, ON_END));
        fate.is_some_and(|fate| fate == END)
    }
}

#[cfg(test)]
pub(crate) fn test_mark() -> Mark {
    let fields = [(LAUNCH, "L"), (SERVER, "s"), (ON_END, END)];
    let own = fields.map(|(field, value)| (key("I", field), value.to_owned()));
    let name = (NAME.to_owned(), "s".to_owned());
    Mark {
        instance: "I".to_owned(),
        launch: "L".to_owned(),
        all: own.into_iter().chain([name]).collect(),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Host<'a> {
    pub(crate) instance: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Host<'a> {
    pub(crate) fn get(&self, field: &str) -> Option<&'a str> {
        self.fields.get(field).copied()
    }
}

/// Returns the hosts of a container. A set with an empty launch was cleared in an image.
pub(crate) fn hosts(labels: &HashMap<String, String>) -> Vec<Host<'_>> {
    let mut hosts = BTreeMap::<&str, BTreeMap<&str, &str>>::new();
    for (key, value) in labels {
        let own = key
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('.'));
        if let Some((instance, field)) = own {
            hosts.entry(instance).or_default().insert(field, value);
        }
    }
    let hosts = hosts.into_iter();
    let hosts = hosts.map(|(instance, fields)| Host { instance, fields });
    hosts
        .filter(|host| host.get(LAUNCH).is_some_and(|launch| !launch.is_empty()))
        .collect()
}

pub(crate) fn container_name(server: &str, launch: &str) -> String {
    /// Leaves room in the 63 characters of a host name.
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

/// The origin of a container's labels: an image that was committed from a container has its labels,
/// and every container run from it inherits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Own,
    /// Inherited from its image: the container is a third party's.
    Image,
    /// Its image is gone and cannot be compared.
    Unknown,
}

/// Compares with the image, unless the name proves that we created the container as a server: names
/// are not inherited.
pub(crate) async fn origin_of(engine: &Engine, found: &Found, host: &Host<'_>) -> Result<Origin> {
    let (Some(launch), Some(server)) = (host.get(LAUNCH), host.get(SERVER)) else {
        return Ok(Origin::Unknown);
    };
    let role = host.get(ROLE);
    let is_server = role.is_some_and(|role| role != Role::Nested.value());
    if is_server && found.name == container_name(server, launch) {
        return Ok(Origin::Own);
    }
    match engine.image_facts(&found.image).await {
        Ok(image)
            if image
                .labels
                .get(&key(host.instance, LAUNCH))
                .map(String::as_str)
                == Some(launch) =>
        {
            Ok(Origin::Image)
        }
        Ok(_) => Ok(Origin::Own),
        Err(EngineError::Absent(_)) => Ok(Origin::Unknown),
        Err(error) => Err(error),
    }
}
