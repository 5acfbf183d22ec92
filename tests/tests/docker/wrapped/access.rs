//! Access: a user of the engine may use the proxy, also other users, and from any directory.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use mcp_launcher_docker::ReapPolicy;

use super::{Shape, ends_clean};
use crate::support::{PrivateEngine, Rig};

/// A group that nobody has, in place of `docker`.
const GROUP: u32 = 65_000;

const OTHER: &str = "setpriv --reuid 65534 --regid 65000 --clear-groups \
    env HOME=/tmp docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";

/// A wrapper may drop to another user, who is in the group of the engine.
#[tokio::test]
async fn a_wrapper_that_drops_to_another_user_keeps_its_engine() {
    if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
        return eprintln!("skipped: MCP_DOCKER_TESTS=skip");
    }
    let private = PrivateEngine::start(&[]);
    let rig = Rig::on(private.engine.clone(), "other-user");
    let socket = Path::new(rig.engine.host.trim_start_matches("unix://"));
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    chown(socket, Some(0), Some(GROUP)).unwrap();
    mode(socket, 0o660);
    mode(socket.parent().unwrap(), 0o711);
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let spec = rig.wrapped("sh", &["-c", OTHER]);
    ends_clean(&rig, &tracker, &spec, Shape::Speaks).await;
}

/// macOS's temporary directories alone fill half of what a socket's path may have.
#[tokio::test]
async fn a_long_path_of_ledgers_costs_no_tracking() {
    let Some(rig) = Rig::new("long-path") else {
        return;
    };
    let long = rig.ledgers.path().join("d".repeat(60)).join("e".repeat(60));
    let tracker = rig.tracker().reap(ReapPolicy::All).ledger_directory(long);
    let script = "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000";
    let spec = rig.wrapped("sh", &["-c", script]);
    ends_clean(&rig, &tracker, &spec, Shape::Speaks).await;
}
