//! SIGINT to a process's group, as the base protocol has it.

#[cfg(target_os = "linux")]
use mcp_launcher_local::interrupt_group;
use mcp_lifecycle_core::launch::ServerIdentity;

use crate::protocol::{RpcError, code};

/// Interrupts the group that this process leads. One that has exited is left
/// alone, and so is any other process that has got its number meanwhile.
pub(super) fn interrupt(process: &ServerIdentity) -> Result<(), RpcError> {
    let ServerIdentity::Process {
        pid,
        start_time: Some(start_time),
    } = process
    else {
        let text = "this executor cannot interrupt a process of this kind";
        return Err(RpcError::new(code::INTERNAL, text));
    };
    let failed = |error: std::io::Error| {
        let text = format!("the process could not be interrupted: {error}");
        RpcError::new(code::INTERNAL, text)
    };
    let is_meant = || {
        // A name may be any bytes.
        let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => String::from_utf8_lossy(&stat).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(leads_its_group(&stat, *pid, *start_time))
    };
    interrupt_group(*pid, is_meant).map_err(failed)
}

/// Elsewhere a group cannot be held, nor is it known here whose a number is.
#[cfg(not(target_os = "linux"))]
fn interrupt_group(_: u32, _: impl FnOnce() -> std::io::Result<bool>) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Whether this line of `/proc/PID/stat` is of that very process, as the leader
/// of its group.
fn leads_its_group(stat: &str, pid: u32, start_time: u64) -> bool {
    // The name in parentheses may contain anything.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = fields.split(' ');
    let group = fields.nth(2).and_then(|field| field.parse().ok());
    let started = fields.nth(16).and_then(|field| field.parse().ok());
    group == Some(pid) && started == Some(start_time)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use mcp_launcher_local::LocalLauncher;
    use mcp_lifecycle_core::launch::{ExitStatus, LaunchContext, ServerLauncher, ServerSpec};

    use super::*;

    #[tokio::test]
    async fn one_whose_name_is_no_text_is_interrupted() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory
            .path()
            .join(OsStr::from_bytes(b"fourteen-bytes\xC3\xBC"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let spec = ServerSpec::builder("sleep", &program)
            .args(["1000"])
            .cwd("/");
        let (spec, context) = (spec.build().unwrap(), LaunchContext::new());
        let launched = LocalLauncher::new().launch(&spec, &context).await.unwrap();
        let server = launched.into_parts().terminator;
        interrupt(&server.identity()).unwrap();
        let exit = tokio::time::timeout(Duration::from_secs(20), server.exited()).await;
        assert_eq!(exit.unwrap(), ExitStatus::Signal(2));
        server.gone().await.unwrap();
    }

    #[test]
    fn only_the_very_process_is_meant() {
        let stat = "77 (a) b) S 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0";
        assert!(leads_its_group(stat, 77, 4242));
        assert!(!leads_its_group(stat, 77, 4243));
        assert!(!leads_its_group(stat, 78, 4242));
        assert!(!leads_its_group("", 77, 4242));
    }
}
