//! [`UnixDoor`]: a socket in the file system, for clients of this machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_lifecycle_host::private;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::host::records;
use super::private::directory_of;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How often, and how long, a locked directory is waited for.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A bound socket file, which is removed when this is dropped.
///
/// Only this user and root come in, by the uid that the kernel tells of whoever
/// connects. The file's mode is 0600.
#[derive(Debug)]
pub(super) struct UnixDoor {
    socket: UnixListener,
    path: PathBuf,
    /// Which file it is.
    id: (u64, u64),
    _claim: Option<Claim>,
}

/// The user and process that have connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) pid: Option<i32>,
}

impl UnixDoor {
    /// Binds. A socket file of this user's at which nobody listens is replaced.
    pub(super) async fn bind(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let directory = directory_of(&path);
        private::check(&directory)?;
        // Two daemons that start at once do not remove each other's.
        let _lock = lock(&directory).await?;
        remove_stale(&path).await?;
        let claim = Claim::of(&path)?;
        let socket = UnixSocket::new_stream()?;
        // Where the kernel takes it from the socket, the file never has another
        // mode; elsewhere nobody could connect yet.
        let _ = fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR);
        socket.bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let found = fs::symlink_metadata(&path)?;
        Ok(Self {
            socket: socket.listen(BACKLOG)?,
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
    /// Returns whether the caller may come in.
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

/// A path that no other daemon gets which keeps its records in the same directory: also
/// when somebody removes the socket file. Lasts until it is dropped.
#[derive(Debug)]
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
            // The one before may have removed it in between.
            if lock.metadata()?.nlink() > 0 {
                return Ok(Some(Self { _lock: lock, path }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Before the lock is given back.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks a directory, which others on this machine may have locked as well.
async fn lock(directory: &Path) -> io::Result<Flock<File>> {
    let mut file = File::open(directory)?;
    for _ in 0..TRIES {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) => file,
            Err((_, errno)) => return Err(errno.into()),
        };
        tokio::time::sleep(PAUSE).await;
    }
    let problem = format!("{} is kept locked by somebody", directory.display());
    Err(io::Error::new(io::ErrorKind::TimedOut, problem))
}

/// Removes what a killed daemon of this user left at the path.
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
    // Not one that waits: a queue may be full for ever.
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Its queue may be full, or it may be slow: somebody is there.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}
