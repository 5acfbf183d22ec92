//! Scripts under a guardian, and waiting for what becomes of them.

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mcp_guardian::program::protocol::{MESSAGE_MAX, Report, Request, Stage};
use mcp_guardian::program::{GuardianHandle, Received, Record, SpawnRequest, spawn};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// What never takes long fails after this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A report that outlives its message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Started(u32),
    ExecFailed(Stage, i32),
    MainExited(i32),
    Gone { status: i32, swept: Swept },
    Closed,
}

/// Who was ended: how many, and the names of the first of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) count: u32,
    pub(crate) names: Vec<String>,
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl From<Received<'_>> for Said {
    fn from(received: Received<'_>) -> Self {
        match received {
            Received::Report(Report::Started { pid }) => Self::Started(pid),
            Received::Report(Report::ExecFailed { stage, errno }) => Self::ExecFailed(stage, errno),
            Received::Report(Report::MainExited { status }) => Self::MainExited(status),
            Received::Report(Report::Gone { status, swept, .. }) => Self::Gone {
                status,
                swept: Swept {
                    count: swept.total(),
                    names: swept.processes().map(|(_, name)| lossy(name)).collect(),
                },
            },
            Received::Report(Report::Adopted { .. }) => unreachable!("there is a server"),
            Received::Nothing => unreachable!("waited for"),
            Received::Closed => Self::Closed,
        }
    }
}

/// Whether `fd` becomes readable (or hung up) in time.
pub(crate) fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], left) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other.expect("poll") > 0,
        }
    }
}

/// A server under a guardian.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) handle: GuardianHandle,
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: File,
    pub(crate) _stderr: File,
}

/// What varies between starts.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) env: Vec<CString>,
    /// What its standard error is, instead of a pipe.
    pub(crate) stderr: Option<BorrowedFd<'a>>,
    pub(crate) cgroup_leaf: Option<BorrowedFd<'a>>,
    pub(crate) cgroup_procs: Option<BorrowedFd<'a>>,
    pub(crate) cgroup_kill: Option<BorrowedFd<'a>>,
    pub(crate) rules: Option<BorrowedFd<'a>>,
    pub(crate) grace: Duration,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [b"PATH=", path.as_bytes()].concat();
        Self {
            cwd: None,
            env: vec![c(&path)],
            stderr: None,
            cgroup_leaf: None,
            cgroup_procs: None,
            cgroup_kill: None,
            rules: None,
            grace: Duration::ZERO,
        }
    }
}

pub(crate) fn c(text: impl AsRef<[u8]>) -> CString {
    CString::new(text.as_ref()).expect("no NUL")
}

impl Guarded {
    pub(crate) fn start(argv: &[&str], options: &Options<'_>) -> Self {
        Self::start_by(argv, options, |request| spawn(request).expect("spawn"))
    }

    pub(crate) fn start_by(
        argv: &[&str],
        options: &Options<'_>,
        spawn: impl FnOnce(SpawnRequest<'_>) -> GuardianHandle,
    ) -> Self {
        let (their_stdin, stdin) = io::pipe().expect("pipe");
        let (stdout, their_stdout) = io::pipe().expect("pipe");
        let (stderr, their_stderr) = io::pipe().expect("pipe");
        let program = c(argv[0]);
        let argv: Vec<CString> = argv.iter().map(c).collect();
        let cwd = options.cwd.map(|path| c(path.as_os_str().as_bytes()));
        let handle = spawn(SpawnRequest {
            program: &program,
            argv: &argv,
            env: &options.env,
            cwd: cwd.as_deref(),
            stdin: their_stdin.as_fd(),
            stdout: their_stdout.as_fd(),
            stderr: options.stderr.unwrap_or(their_stderr.as_fd()),
            cgroup_leaf: options.cgroup_leaf,
            cgroup_procs: options.cgroup_procs,
            cgroup_kill: options.cgroup_kill,
            grace: options.grace,
            record: Record::default(),
            pid_namespace: false,
            rules: options.rules,
            orphan: false,
            own_variable: false,
            in_foreground: false,
        });
        let file = |fd: OwnedFd| File::from(fd);
        Self {
            handle,
            stdin: Some(file(stdin.into())),
            stdout: file(stdout.into()),
            _stderr: file(stderr.into()),
        }
    }

    pub(crate) fn sh(script: &str, options: &Options<'_>) -> Self {
        Self::start(&["/bin/sh", "-c", script], options)
    }

    /// The next report, or what comes instead.
    pub(crate) fn hear(&self) -> Said {
        let mut buffer = [0; MESSAGE_MAX];
        loop {
            assert!(
                readable(self.handle.control(), DEADLINE),
                "the guardian says nothing"
            );
            match self.handle.receive(&mut buffer).expect("receive") {
                Received::Nothing => {}
                said => return said.into(),
            }
        }
    }

    pub(crate) fn ask(&self, request: Request) {
        self.handle.send(request).expect("send");
    }

    /// Waits for the start, and returns the server's pid.
    pub(crate) fn started(&self) -> u32 {
        match self.hear() {
            Said::Started(pid) => pid,
            other => panic!("not started: {other:?}"),
        }
    }

    /// Waits for the rest; returns the main process's status, what was swept, and the guardian's own status.
    pub(crate) fn gone(&self) -> (i32, Swept, ExitStatus) {
        let mut main = None;
        let gone = loop {
            match self.hear() {
                Said::MainExited(status) => assert_eq!(main.replace(status), None, "it exits once"),
                Said::Gone { status, swept } => break (status, swept),
                other => panic!("unexpected: {other:?}"),
            }
        };
        // Nobody else was left: one report says it all.
        assert_eq!(
            main.unwrap_or(gone.0),
            gone.0,
            "both reports agree, in this order"
        );
        (gone.0, gone.1, self.reaped())
    }

    /// Waits until the guardian has exited, which is after its last word, and reaps it.
    pub(crate) fn reaped(&self) -> ExitStatus {
        assert_eq!(self.hear(), Said::Closed);
        assert!(
            readable(self.handle.pidfd(), DEADLINE),
            "the guardian does not exit"
        );
        self.handle.try_reap().expect("waitid").expect("exited")
    }

    pub(crate) fn kill(&self) -> Swept {
        self.ask(Request::Kill);
        self.gone().1
    }

    /// What comes on `stdout` until `len` bytes are there.
    pub(crate) fn read_stdout(&mut self, len: usize) -> String {
        let mut text = vec![0; len];
        for byte in &mut text {
            assert!(
                readable(self.stdout.as_fd(), DEADLINE),
                "the server writes nothing"
            );
            self.stdout
                .read_exact(std::slice::from_mut(byte))
                .expect("read");
        }
        String::from_utf8(text).expect("text")
    }

    pub(crate) fn read_stdout_to_end(&mut self) -> String {
        read_to_end(&mut self.stdout)
    }

    pub(crate) fn write_stdin(&mut self, text: &str) {
        self.stdin
            .as_mut()
            .expect("open")
            .write_all(text.as_bytes())
            .expect("write");
    }
}

/// Everything up to end of file, which has to come in time.
pub(crate) fn read_to_end(file: &mut File) -> String {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        assert!(
            readable(file.as_fd(), DEADLINE),
            "no end of file after {:?}",
            String::from_utf8_lossy(&text)
        );
        match file.read(&mut chunk) {
            Ok(0) => return String::from_utf8(text).expect("text"),
            Ok(len) => text.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("read: {error}"),
        }
    }
}

/// A FIFO that every process of a script holds open for writing.
#[derive(Debug)]
pub(crate) struct Alive {
    directory: tempfile::TempDir,
    reader: File,
}

impl Alive {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("alive");
        mkfifo(&path, Mode::S_IRWXU).expect("mkfifo");
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .expect("open");
        Self { directory, reader }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("alive")
    }

    /// A script whose processes hold the FIFO as fd 9, from its first line on. Each writes a byte there when it is ready.
    pub(crate) fn script(&self, script: &str) -> String {
        format!("exec 9>'{}'\n{script}", self.path().display())
    }

    /// Waits until `count` processes are ready.
    pub(crate) fn ready(&mut self, count: usize) {
        let mut seen = 0;
        let mut bytes = [0; 512];
        let end = Instant::now() + DEADLINE;
        while seen < count {
            // Before the first writer this is at end of file, which no poll can wait through: look again, until the deadline.
            assert!(Instant::now() < end, "{seen} of {count} are ready");
            match self.reader.read(&mut bytes) {
                Ok(0) => std::thread::yield_now(),
                Ok(len) => seen += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let _ = readable(self.reader.as_fd(), DEADLINE);
                }
                Err(error) => panic!("read: {error}"),
            }
        }
    }

    /// Waits until no process holds the FIFO.
    pub(crate) fn nobody_is_left(&mut self) {
        read_to_end(&mut self.reader);
    }

    /// Whether any process holds it now.
    pub(crate) fn somebody_is_left(&mut self) -> bool {
        let mut bytes = [0; 512];
        loop {
            match self.reader.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

/// This program again, as a process of its own that does what `role` (an ignored test) does.
pub(crate) fn play(role: &str, variables: &[(&str, &OsStr)]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("current_exe"));
    command.args([
        "--exact",
        role,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().expect("spawn")
}

/// The time after which a process that sleeps in `ppoll` wakes up by itself: where in its memory that is written, if there is one.
pub(crate) fn timeout_of_poll(pid: u32) -> Option<u64> {
    let end = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < end, "{pid} does not sleep");
        let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("syscall");
        let mut fields = text.split_ascii_whitespace();
        if fields.next() == Some(&libc::SYS_ppoll.to_string()) {
            let time = fields.nth(2).and_then(|word| word.strip_prefix("0x"));
            let time = u64::from_str_radix(time.expect("a third word"), 16).expect("a number");
            return (time != 0).then_some(time);
        }
        std::thread::yield_now();
    }
}
