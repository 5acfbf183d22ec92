//! A test in a process of its own: what it changes is the whole process's.

use std::process::Command;

const ALONE: &str = "MCP_DOCKER_TEST_ALONE";

/// Returns `true` in a process of the test's own. Elsewhere it runs the test again in
/// one, after these commands of a shell, and expects it to pass.
pub(crate) fn is_alone(test: &str, commands: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let again = Command::new("sh")
        .arg("-c")
        .arg(format!(
            r#"{commands}; exec "$0" --exact {test} --nocapture --test-threads=1"#
        ))
        .arg(std::env::current_exe().unwrap())
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = [again.stdout, again.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        again.status.success() && said.contains("1 passed"),
        "{said}"
    );
    false
}

/// Opens files until no more can be.
pub(crate) fn fill_descriptors() -> Vec<std::fs::File> {
    let open = || std::fs::File::open("/dev/null").ok();
    std::iter::from_fn(open).collect()
}
