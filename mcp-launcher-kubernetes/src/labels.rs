use std::collections::BTreeMap;

/// The launcher that owns it: 32 hexadecimal digits.
pub(crate) const INSTANCE: &str = "dev.mcp-lifecycle.instance";
/// One launch of one server: 32 hexadecimal digits.
pub(crate) const LAUNCH: &str = "dev.mcp-lifecycle.launch";
/// The name of the server, as far as a label can hold it: for people.
pub(crate) const SERVER: &str = "dev.mcp-lifecycle.server";
pub(crate) const ROLE: &str = "dev.mcp-lifecycle.role";
pub(crate) const ROLE_SERVER: &str = "server";
pub(crate) const ROLE_HOST: &str = "host";

/// The finalizer that keeps a pod's object until its end is proven.
pub(crate) const FINALIZER: &str = "dev.mcp-lifecycle/proof";

pub(crate) fn of_launch(instance: &str, launch: &str, server: &str) -> BTreeMap<String, String> {
    owned([
        (INSTANCE, instance),
        (LAUNCH, launch),
        (SERVER, &fit(server, '_')),
        (ROLE, ROLE_SERVER),
    ])
}

pub(crate) fn of_host(instance: &str) -> BTreeMap<String, String> {
    owned([(INSTANCE, instance), (ROLE, ROLE_HOST)])
}

fn owned<const N: usize>(labels: [(&str, &str); N]) -> BTreeMap<String, String> {
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    labels.into()
}

pub(crate) fn lease_name(instance: &str) -> String {
    format!("mcp-host-{}", instance.get(..16).unwrap_or(instance))
}

pub(crate) fn of_role(role: &str) -> String {
    format!("{INSTANCE},{ROLE}={role}")
}

pub(crate) fn of_instance(instance: &str) -> String {
    format!("{INSTANCE}={instance},{ROLE}={ROLE_SERVER}")
}

/// Returns a readable, unique name: attaching is by name.
pub(crate) fn pod_name(server: &str, launch: &str) -> String {
    let server = fit(&server.to_ascii_lowercase().replace(['_', '.'], "-"), '-');
    let launch = launch.get(..16).unwrap_or(launch);
    match server.is_empty() {
        true => format!("mcp-{launch}"),
        false => format!("mcp-{server}-{launch}"),
    }
}

fn fit(name: &str, other: char) -> String {
    /// Leaves room for the rest of a pod's name in 63 characters.
    const LONGEST: usize = 40;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name
        .chars()
        .take(LONGEST)
        .map(|c| if allowed(c) { c } else { other })
        .collect();
    name.trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_fit_for_the_api() {
        let launch = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            pod_name("My server/ü", launch),
            "mcp-my-server-0123456789abcdef"
        );
        assert_eq!(pod_name("ü", launch), "mcp-0123456789abcdef");
        assert!(pod_name(&"x".repeat(500), launch).len() <= 63);
        assert_eq!(fit("a b_", '_'), "a_b");
        assert_eq!(of_launch("i", launch, "-time-")[SERVER], "time");
    }
}
