//! [`UnixDoor`]: a socket in the file system, for clients of this machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_guardian::private;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::host::records;

/// A bound socket file, which is removed on drop.
///
/// Only this user and root are admitted, by the uid that the kernel reports. The file's mode is
/// 0600.
pub(super) struct UnixDoor {
    socket: UnixListener,
    path: PathBuf,
    id: (u64, u64),
    _claim: Option<Claim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) pid: Option<i32>,
}

impl UnixDoor {
    /// Binds. This user's socket file without a listener is replaced.
    pub(super) async fn bind(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        private::check(path.parent().unwrap_or(&path))?;
        // First, so that concurrent daemons do not remove each other's file.
        let claim = Claim::of(&path)?;
        remove_stale(&path).await?;
        let socket = UnixSocket::new_stream()?;
        // On some systems this sets the file's mode from the start; elsewhere nothing can connect
        // yet.
        let _ = fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR);
        socket.bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let found = fs::symlink_metadata(&path)?;
        Ok(Self {
            socket: socket.listen(1024)?,
            id: (found.dev(), found.ino()),
            path,
            _claim: claim,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Caller)> {
        let (stream, _) = self.socket.accept().await?;
        let credentials = stream.peer_cred()?;
        let caller = Caller {
            uid: credentials.uid(),
            pid: credentials.pid(),
        };
        Ok((stream, caller))
    }
}

impl Caller {
    pub(super) fn is_admitted(self) -> bool {
        self.uid == 0 || self.uid == geteuid().as_raw()
    }
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.id);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A claim that no other daemon with the same record directory gets for this path, even if the
/// socket file is removed. Held until dropped.
struct Claim {
    _lock: Flock<File>,
    path: PathBuf,
}

impl Claim {
    fn of(socket: &Path) -> io::Result<Option<Self>> {
        let Some((records, _)) = records() else {
            return Ok(None);
        };
        let name = URL_SAFE_NO_PAD.encode(socket.as_os_str().as_bytes());
        let path = records.join(format!("{name}.socket"));
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).mode(0o600);
            let file = options.open(&path)?;
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            let lock = lock.map_err(|(_, errno)| match errno {
                Errno::EWOULDBLOCK => io::ErrorKind::AddrInUse.into(),
                errno => io::Error::from(errno),
            })?;
            // The previous holder may have removed it in between.
            if lock.metadata()?.nlink() > 0 {
                return Ok(Some(Self { _lock: lock, path }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed before the lock is released.
        let _ = fs::remove_file(&self.path);
    }
}

async fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let refused = |problem: &str| Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    if !found.file_type().is_socket() {
        return refused("there is something else than a socket");
    }
    if found.uid() != geteuid().as_raw() {
        return refused("there is a socket of another user");
    }
    // A non-blocking connect: a backlog may be full for ever.
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Its backlog may be full, or it may be slow: there is a listener.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}
