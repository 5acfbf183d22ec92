//! The resources that a worker needs of the machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::jobs::{self, Job};
use crate::worker::Share;

/// Where hosts keep their ledgers, in the directory of their worker.
pub(crate) const STATE: &str = "state";
pub(crate) const CGROUP: &str = "MCP_FAULTS_CGROUP";

/// The resources of a worker: a directory of its own, and a cgroup where there can be one.
pub(crate) struct Stage {
    directory: tempfile::TempDir,
    user: Option<u32>,
    cgroup: Option<PathBuf>,
}

impl Stage {
    pub(crate) fn new(job: &Job) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("mcp-faults-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in("/tmp")
            .unwrap();
        for name in ["alive", "never"] {
            mkfifo(&directory.path().join(name), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        }
        fs::write(directory.path().join("broken"), "#!/no/such/interpreter\n").unwrap();
        fs::set_permissions(
            directory.path().join("broken"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let user = job.as_nobody.then(jobs::nobody);
        if let Some(user) = user {
            for path in [".", "alive", "never"] {
                chown(directory.path().join(path), Some(user), Some(user)).unwrap();
            }
        }
        let cgroup = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .filter(|root| user.is_none() && Path::new(root).join("cgroup.procs").exists())
            .map(|root| {
                let name = directory.path().file_name().unwrap().to_str().unwrap();
                Path::new(root).join(name)
            })
            .find(|path| fs::create_dir(path).is_ok());
        Self {
            directory,
            user,
            cgroup,
        }
    }

    /// Starts a worker there.
    pub(crate) fn start(&self, share: &Share) -> Child {
        let mut command = Command::new("/proc/self/exe");
        share.pass_to(&mut command);
        command
            .env("XDG_RUNTIME_DIR", self.directory.path())
            // Each host looks at the ledgers of those before it: not at those of others.
            .env("MCP_LIFECYCLE_STATE_DIR", self.directory.path().join(STATE))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(cgroup) = &self.cgroup {
            command.env(CGROUP, cgroup);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.spawn().unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(cgroup) = &self.cgroup else { return };
        // A leaf whose removal was one of the calls that failed stays.
        for leaf in fs::read_dir(cgroup).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(leaf.path());
        }
        let _ = fs::remove_dir(cgroup);
    }
}
