//! Where a test happens: a process of its own, with a user, a cgroup and a
//! runtime directory of its own.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::alive::AliveListener;
use mcp_lifecycle_conformance::copies::{self, Copies};
use mcp_lifecycle_conformance::deadline::Watchdog;
use mcp_lifecycle_core::launch::{LaunchContext, LaunchedServer, ServerLauncher, ServerSpec};
use tempfile::TempDir;

/// Far more than anything here takes; reached only by a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Tells a process that it is a role, and which cgroup to enter first.
const ROLE: &str = "MCP_TEST_ROLE";
const CGROUP: &str = "MCP_TEST_CGROUP";

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

/// Where ledgers are, for a test that is not to find those of others.
pub(crate) const STATE: &str = "MCP_LIFECYCLE_STATE_DIR";

/// Nobody in particular.
pub(crate) const NOBODY: u32 = 65534;

/// A user who has no process yet, so that none is in doubt.
pub(crate) fn nobody_else() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed) * 10_000_000 + std::process::id()
}

/// Runs the role `name` as whoever runs the tests and, if that is root, once
/// more as a user without rights. A role that fails fails the test.
#[track_caller]
pub(crate) fn perform(name: &str) {
    perform_by(|command| command, name);
}

/// As [`perform`], with a command that wraps the role's.
#[track_caller]
pub(crate) fn perform_by(wrap: fn(Command) -> Command, name: &str) {
    perform_as(wrap, name, None, false);
    if nix::unistd::geteuid().is_root() {
        perform_as(wrap, name, Some(nobody_else()), false);
    }
}

/// Does the same as [`perform_alone`], and once more as a user with a delegated cgroup.
#[track_caller]
pub(crate) fn perform_alone_and_delegated(name: &str) {
    perform_alone(name);
    if nix::unistd::geteuid().is_root() {
        perform_as(alone, name, Some(nobody_else()), true);
    }
}

/// As [`perform`], in a PID namespace with a `/proc` of its own: a search there finds no process
/// of another test, which may come and go, or be held while it exits.
#[track_caller]
pub(crate) fn perform_alone(name: &str) {
    perform_by(alone, name);
}

fn alone(program: Command) -> Command {
    // The first process of the namespace is a shell, which reaps what is reparented to it.
    const ALONE: &str = r#"[ "$(id -u)" = 0 ] || user="--user --map-current-user"
exec unshare $user --pid --fork --mount-proc sh -c '"$0" "$@"; exit $?' "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", ALONE]);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// As [`perform`], within what `wrapper`, a command, makes of the machine; the
/// role looks for its own directories there.
#[track_caller]
pub(crate) fn perform_within(name: &str, wrapper: &[&str], user: Option<u32>) {
    let copies = Copies::make(FIXTURE.as_ref()).unwrap();
    let mut command = run_within(wrapper, &copies.command());
    play(&mut command, name);
    command.current_dir("/");
    command.env_remove("XDG_RUNTIME_DIR").env_remove("TMPDIR");
    command.env_remove(STATE);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let _watchdog = Watchdog::arm(name, LIMIT * 6);
    passes(name, &mut command);
}

#[track_caller]
fn passes(name: &str, command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        // A role that does not exist is not played, and passes.
        output.status.success() && stdout.contains("1 passed"),
        "{name}: {}\n{stdout}\n{stderr}",
        output.status,
    );
}

#[track_caller]
fn perform_as(wrap: fn(Command) -> Command, name: &str, user: Option<u32>, delegated: bool) {
    let _watchdog = Watchdog::arm(name, LIMIT * 6);
    let runtime_directory = private_directory(user);
    let cgroup = OwnCgroup::new();
    let copies = user.map(|_| Copies::make(FIXTURE.as_ref()).unwrap());
    let mut command = copies.as_ref().map_or_else(this_program, Copies::command);
    play(&mut command, name);
    let mut command = wrap(command);
    command
        .env("XDG_RUNTIME_DIR", runtime_directory.path())
        .env(STATE, runtime_directory.path().join("mcp-lifecycle"));
    if let Some(cgroup) = &cgroup {
        command.env(CGROUP, &cgroup.0);
    }
    if let Some(user) = user {
        match cgroup.as_ref().filter(|_| delegated) {
            Some(cgroup) => cgroup.delegate(user, &mut command),
            // This user gets none for its servers.
            None => {
                command.env_remove(CGROUP);
            }
        }
        command.uid(user).gid(user);
    }
    passes(&format!("{name} as {user:?}"), &mut command);
    if let Some(cgroup) = cgroup {
        cgroup.ends_empty();
    }
}

fn private_directory(owner: Option<u32>) -> TempDir {
    let directory = tempfile::Builder::new()
        .prefix("mcp-run-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in("/tmp")
        .unwrap();
    if let Some(owner) = owner {
        chown(directory.path(), Some(owner), Some(owner)).unwrap();
    }
    directory
}

/// This program again, to do what the ignored test `name` does.
pub(crate) fn role(name: &str) -> Command {
    role_within(&[], name)
}

/// The same, started by another command that ends in the name of a program.
pub(crate) fn role_within(wrapper: &[&str], name: &str) -> Command {
    let mut command = run_within(wrapper, &this_program());
    play(&mut command, name);
    command
}

fn this_program() -> Command {
    Command::new(env::current_exe().unwrap())
}

fn run_within(wrapper: &[&str], program: &Command) -> Command {
    let [first, args @ ..] = wrapper else {
        return Command::new(program.get_program());
    };
    let mut command = Command::new(first);
    command.args(args).arg(program.get_program());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

fn play(command: &mut Command, name: &str) {
    command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .arg("--test-threads=1")
        .env(ROLE, "1");
}

/// Starts a role that is going to be killed, or to be asked to end by the end
/// of its standard input.
pub(crate) fn start(name: &str, variables: &[(&str, String)]) -> Child {
    role(name)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether this process plays a role; enters its cgroup if so.
pub(crate) fn plays() -> bool {
    if let Some(cgroup) = env::var_os(CGROUP) {
        fs::write(Path::new(&cgroup).join("cgroup.procs"), "0").unwrap();
    }
    env::var_os(ROLE).is_some()
}

/// A cgroup for one role, in which nobody else makes any.
struct OwnCgroup(PathBuf);

impl OwnCgroup {
    /// `None` where none can be made; the role then goes without.
    fn new() -> Option<Self> {
        let name = format!("mcp-test-{}", std::process::id());
        let count = fs::read_dir("/proc/self/task").ok()?.count();
        let name = format!("{name}-{count}-{:?}", std::thread::current().id());
        let name = name.replace(['(', ')'], "-");
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .filter(|root| Path::new(root).join("cgroup.procs").exists())
            .map(|root| Path::new(root).join(&name))
            .find(|path| fs::create_dir(path).is_ok())
            .map(Self)
    }

    /// Gives it to this user, and has the command start inside.
    fn delegate(&self, user: u32, command: &mut Command) {
        for file in ["", "cgroup.procs", "cgroup.subtree_control"] {
            chown(self.0.join(file), Some(user), Some(user)).unwrap();
        }
        // The rights of its opener count.
        let mut options = fs::File::options();
        let mut procs = options
            .write(true)
            .open(self.0.join("cgroup.procs"))
            .unwrap();
        let enter = move || procs.write_all(b"0");
        // SAFETY: it makes one system call, and does not allocate.
        unsafe { command.pre_exec(enter) };
    }

    /// Everybody has left, and no cgroup was left inside.
    #[track_caller]
    fn ends_empty(self) {
        let left = leaves_in(&self.0);
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // A role that failed may leave a guardian that it has stopped.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        for leaf in leaves_in(&self.0) {
            let _ = fs::write(leaf.join("cgroup.kill"), "1");
            remove_in_time(&leaf);
        }
        remove_in_time(&self.0);
    }
}

/// The kernel finishes exits a moment after they were reaped.
pub(crate) fn remove_in_time(directory: &Path) {
    let end = Instant::now() + LIMIT;
    while fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < end {
        std::thread::yield_now();
    }
}

fn leaves_in(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.is_dir())
                .collect()
        })
        .unwrap_or_default()
}

/// The cgroups of servers of this process: it is alone in its own.
pub(crate) fn leaves() -> Vec<PathBuf> {
    env::var_os(CGROUP).map_or_else(Vec::new, |own| leaves_in(Path::new(&own)))
}

/// Whether servers are expected to get cgroups.
pub(crate) fn has_cgroups() -> bool {
    env::var_os(CGROUP).is_some()
}

/// What a role needs: an observer and a launcher.
pub(crate) struct Stage {
    pub(crate) alive: AliveListener,
    pub(crate) launcher: Arc<dyn ServerLauncher>,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            alive: AliveListener::unix().unwrap(),
            launcher: Arc::new(LocalLauncher::new()),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap(),
        }
    }

    pub(crate) fn spec(&self, args: &[&str]) -> ServerSpec {
        fixture(args, &self.alive.address())
    }

    pub(crate) fn launch(&self, args: &[&str]) -> LaunchedServer {
        self.launch_spec(&self.spec(args))
    }

    /// A server that plays a role.
    pub(crate) fn launch_role(&self, name: &str) -> LaunchedServer {
        self.launch_spec(&role_as_server(name, &self.alive.address()))
    }

    pub(crate) fn launch_spec(&self, spec: &ServerSpec) -> LaunchedServer {
        let launched = self
            .runtime
            .block_on(self.launcher.launch(spec, &LaunchContext::new()));
        launched.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Waits until so many processes of the fixture are there.
    pub(crate) fn wait_for(&self, role: &str) {
        self.alive
            .block_on(self.alive.accept(role, LIMIT))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    #[track_caller]
    pub(crate) fn nobody_is_left(&self) {
        self.alive
            .block_on(self.alive.expect_all_dead(LIMIT))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Within the limit, or the test has failed.
    pub(crate) fn wait<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(LIMIT, future).await })
            .unwrap_or_else(|_| panic!("{what} does not happen"))
    }
}

pub(crate) fn fixture_program() -> PathBuf {
    copies::fixture(FIXTURE)
}

pub(crate) fn fixture(args: &[&str], observer: &str) -> ServerSpec {
    ServerSpec::builder(args[0], fixture_program())
        .args(args)
        .args(["--alive", observer])
        .build()
        .unwrap()
}

/// This program again, as a server that plays the role `name`.
pub(crate) fn role_as_server(name: &str, observer: &str) -> ServerSpec {
    let mut spec = ServerSpec::builder("role", env::current_exe().unwrap())
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, "1")
        .env(OBSERVER, observer);
    for name in [STATE, "MCP_TEST_FIXTURE"] {
        if let Ok(value) = env::var(name) {
            spec = spec.env(name, value);
        }
    }
    spec.build().unwrap()
}

/// Where the observer is.
pub(crate) const OBSERVER: &str = "MCP_TEST_OBSERVER";

/// Says hello to the observer and answers it from a thread; the process exits
/// when the observer goes.
pub(crate) fn say_hello(role: &str) {
    let address = env::var(OBSERVER).unwrap();
    let mut stream = UnixStream::connect(address.strip_prefix("unix:").unwrap()).unwrap();
    writeln!(stream, "hello {role} {}", std::process::id()).unwrap();
    std::thread::spawn(move || {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            if line == "ping" {
                stream.write_all(b"pong\n").unwrap();
            }
        }
        std::process::exit(0);
    });
}
