//! A limit of memory: on a machine whose kernel gives one (`tests/run memory` starts such a kernel), and the refusal on any other.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use mcp_guardian::hardened;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::host::{Alive, DEADLINE, Server, Streams, wrapped};
use crate::levels::{children, guardian};

/// A user that is not root, and whom nobody shares.
const USER: u32 = 61_835;

/// Takes far more than any limit here, once it has read a line.
const HUNGRY: &str = "read line; head -c 400m /dev/zero | tail -c 400m | wc -c >&2";
/// A helper in a session of its own.
const HELPER: &str = "setsid sh -c 'printf . >&9; while :; do read never <&8; done' &";

const CONTROLLERS: &str = "+memory +pids +cpu";

/// A cgroup that gives these controllers to those below, with one below for a host; both are removed.
struct Room(PathBuf);

impl Room {
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let must = std::env::var_os("MCP_TEST_MEMORY").is_some();
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let has = |root: &&Path, file| {
            fs::read_to_string(root.join(file)).is_ok_and(|it| it.contains("memory"))
        };
        let root = root
            .into_iter()
            .find(|root| has(root, "cgroup.controllers"));
        let Some(root) = root.filter(|_| geteuid().is_root()) else {
            assert!(!must, "this kernel has no memory controller");
            println!(
                "NOT TESTED: limits of memory take root, and the controller in version 2 (`tests/run memory`)"
            );
            return None;
        };
        if must {
            fs::write(root.join("cgroup.subtree_control"), CONTROLLERS).unwrap();
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let room = Self(root.join(format!("test-{}-{number}", std::process::id())));
        fs::create_dir(&room.0).unwrap();
        if fs::write(room.0.join("cgroup.subtree_control"), CONTROLLERS).is_err() {
            assert!(!must, "the root gives not all of them");
            println!("NOT TESTED: the cgroups of this machine are not given {CONTROLLERS}");
            return None;
        }
        fs::create_dir(room.host()).unwrap();
        Some(room)
    }

    fn host(&self) -> PathBuf {
        self.0.join("host")
    }

    /// A command that is started inside.
    fn command(&self, words: &[&str]) -> Command {
        let enter = "echo $$ >\"$0\" && exec \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", enter])
            .arg(self.host().join("cgroup.procs"))
            .args(words);
        command
    }

    fn wrapped(&self, words: &[&str]) -> Command {
        self.command(&[&[env!("CARGO_BIN_EXE_mcp-contain")], words].concat())
    }

    /// The cgroups of servers.
    fn servers(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(&self.0).unwrap();
        all.map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .as_encoded_bytes()
                    .starts_with(b"mcp-")
            })
            .collect()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.host());
        let _ = fs::remove_dir(&self.0);
    }
}

fn own_state(command: &mut Command, state: &tempfile::TempDir) {
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    command.env("MCP_LIFECYCLE_STATE_DIR", state.path());
}

/// A command that fails as a wrapper does, before its server has begun.
fn refused(command: &mut Command) -> String {
    let (status, said) = Server::start(command, Streams::Pipes).ended();
    assert_eq!(status.code(), Some(125), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("the server cannot be limited"), "{said}");
    said
}

#[test]
fn where_no_limit_can_be_set_there_is_no_server() {
    let alive = Alive::new();
    let script = alive.script("echo it runs >began; exit 3");
    let words = ["--memory", "64M", "sh", "-c", &script];
    let Some(room) = Room::new() else {
        let said = refused(&mut wrapped(&words));
        let doctor = wrapped(&["doctor", "--verbose"]).output().unwrap();
        let (_, why) = said.trim_end().split_once("limited: ").unwrap();
        assert!(
            String::from_utf8_lossy(&doctor.stdout).contains(why),
            "{why}"
        );
        assert!(!alive.file("began").exists(), "{said}");
        // The same server runs where nobody asks for one.
        let (status, said) = Server::start(&mut wrapped(&words[2..]), Streams::Pipes).ended();
        assert_eq!((status.code(), &*said), (Some(3), ""));
        return;
    };
    // Its host has a limit, which it would leave.
    fs::write(room.host().join("memory.max"), "512M").unwrap();
    let said = refused(&mut room.wrapped(&words));
    assert!(
        said.contains("a limit of its own (536870912 bytes"),
        "{said}"
    );
    let said = refused(&mut room.wrapped(&["--pids", "20", "true"]));
    assert!(said.contains("a limit of its own"), "{said}");
    fs::write(room.host().join("memory.max"), "max").unwrap();
    // It is a server's own server.
    let inner = [env!("CARGO_BIN_EXE_mcp-contain"), "--memory", "64M", "true"];
    let outer = [&["--memory", "256M"][..], &inner].concat();
    let (status, said) = Server::start(&mut room.wrapped(&outer), Streams::Pipes).ended();
    assert_eq!(status.code(), Some(125), "{said}");
    assert!(said.contains("another contained server"), "{said}");
    assert!(!alive.file("began").exists());
    assert_eq!(room.servers(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_limit_beside_a_restriction_holds_with_it_or_no_server_starts() {
    let room = Room::new();
    let limits = [
        ("--memory", "64M", "memory.max", "67108864"),
        ("--pids", "20", "pids.max", "20"),
        ("--cpus", "0.5", "cpu.max", "50000 100000"),
    ];
    for (restriction, is_hardened) in [("--hardened", true), ("--write", false)] {
        for (option, value, file, written) in limits {
            let place = tempfile::tempdir().unwrap();
            let [began, elsewhere] = ["began", "elsewhere"].map(|name| place.path().join(name));
            fs::write(&began, "").unwrap();
            let [log, other] = [&began, &elsewhere].map(|path| path.display());
            // It tries to lift its limit, and to write where it may not.
            let script = format!(
                "echo it runs >>{log}; C=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/{file}; cat $C >&2
                 (echo max >$C) 2>>{log}; (echo x >{other}) 2>>{log}; cat $C >&2; exit 7"
            );
            let mut words = vec![restriction];
            if !is_hardened {
                words.push(began.to_str().unwrap());
            }
            words.extend([option, value, "sh", "-c", &script]);
            let mut command = match &room {
                Some(room) => room.wrapped(&words),
                None => wrapped(&words),
            };
            let (status, said) = Server::start(&mut command, Streams::Pipes).ended();
            let no_rules = hardened::refusal(is_hardened, !is_hardened);
            if room.is_some() && no_rules.is_none() {
                assert_eq!(said, format!("{written}\n{written}\n"), "{words:?}");
                assert_eq!(status.code(), Some(7));
                assert_eq!(elsewhere.exists(), is_hardened, "{words:?}");
                continue;
            }
            let why = no_rules.unwrap_or_else(|| "the server cannot be limited".to_owned());
            let said = (status.code(), said.lines().count(), said.contains(&why));
            assert_eq!(said, (Some(125), 1, true), "{words:?}");
            assert_eq!(fs::read_to_string(&began).unwrap(), "", "{words:?}");
        }
    }
}

#[test]
fn a_server_that_needs_more_is_ended_with_all_that_it_has_started_and_that_is_told() {
    let Some(room) = Room::new() else { return };
    // The server's own process is hungry, or a helper of its.
    let helper = format!(
        "exec 7<&0; setsid sh -c '{HUNGRY}' <&7 & printf . >&9; while :; do read never <&8; done"
    );
    for hungry in [format!("printf . >&9; {HUNGRY}"), helper] {
        let mut alive = Alive::new();
        let state = tempfile::tempdir().unwrap();
        let script = alive.script(&format!("{HELPER} {hungry}"));
        let words = ["--memory", "48M", "--name", "hungry", "sh", "-c", &script];
        let mut command = room.wrapped(&words);
        own_state(&mut command, &state);
        let mut server = Server::start(&mut command, Streams::Pipes);
        alive.ready(2);
        server.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let (status, said) = server.ended();
        assert_eq!(status.signal(), Some(9), "{said}");
        let line = "mcp-contain: the server and all that it had started were killed: they needed more memory than --memory lets them have\n";
        assert_eq!(said, line);
        assert!(!alive.somebody_is_left(), "it ends after the last of them");
        assert_eq!(room.servers(), [""; 0].map(PathBuf::from));
        let mut stats = wrapped(&["stats", "--json"]);
        own_state(&mut stats, &state);
        let stats = stats.output().unwrap();
        let stats = String::from_utf8_lossy(&stats.stdout);
        assert!(
            stats.contains("\"out_of_memory\": true") && stats.contains("\"how\": \"killed\""),
            "{stats}"
        );
    }
}

#[test]
fn a_server_that_may_start_no_more_processes_is_told_so_by_the_kernel_and_shares_its_processors() {
    let Some(room) = Room::new() else { return };
    let script = "C=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup); cat $C/pids.max $C/cpu.max >&2; \
                  i=0; while [ $i -lt 30 ]; do sleep 1000 & i=$((i + 1)); done; exit 7";
    // As systemd limits every scope.
    fs::write(room.host().join("pids.max"), "4000").unwrap();
    let limits = ["--pids", "20", "--cpus", "0.5"];
    let words = [&limits[..], &["sh", "-c", script]].concat();
    let (status, said) = Server::start(&mut room.wrapped(&words), Streams::Pipes).ended();
    assert!(said.starts_with("20\n50000 100000\n"), "{said}");
    assert!(said.contains("Cannot fork"), "{said}");
    assert_eq!(status.code(), Some(2), "the shell's own");
    assert_eq!(room.servers(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_server_within_its_limit_ends_as_any_other() {
    let Some(room) = Room::new() else { return };
    let script = "C=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup); cat $C/memory.max $C/memory.oom.group; read line; exit 7";
    for how in [
        &["--memory", "64M"][..],
        &["--memory", "64M", "--restart"],
        &["--memory", "64M", "--require", "pidns"],
    ] {
        let words = [how, &["sh", "-c", script]].concat();
        let mut server = Server::start(&mut room.wrapped(&words), Streams::Pipes);
        let mut said = [0; 11];
        let mut stdout = server.stdout.try_clone().unwrap();
        crate::host::in_time(move || {
            stdout
                .read_exact(&mut said)
                .map(|()| assert_eq!(&said, b"67108864\n1\n"))
        })
        .unwrap();
        server.stdin = None;
        let (status, said) = server.ended();
        assert_eq!((status.code(), &*said), (Some(7), ""), "{how:?}");
        assert_eq!(room.servers(), [""; 0].map(PathBuf::from));
    }
    let doctor = room.wrapped(&["doctor", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(said.contains("\"no_memory_limit\": null"), "{said}");
    // A server that its host has killed has not needed too much.
    let mut alive = Alive::new();
    let script = alive.script("trap '' TERM; printf . >&9; while :; do read never <&8; done");
    let words = ["--memory", "64M", "--grace", "100ms", "sh", "-c", &script];
    let server = Server::start(&mut room.wrapped(&words), Streams::Pipes);
    alive.ready(1);
    server.signal(Signal::SIGTERM);
    let (status, said) = server.ended();
    assert_eq!((status.signal(), &*said), (Some(9), ""));
}

#[test]
fn a_user_limits_memory_where_cgroups_are_his_and_nowhere_else() {
    let Some(room) = Room::new() else { return };
    let program = tempfile::tempdir().unwrap();
    fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = program.path().join("mcp-contain");
    fs::copy(env!("CARGO_BIN_EXE_mcp-contain"), &copy).unwrap();
    let user = USER.to_string();
    let copy = copy.display().to_string();
    let words = [
        "setpriv",
        "--reuid",
        &user,
        "--regid",
        &user,
        "--clear-groups",
        &copy,
        "--memory",
        "64M",
        "sh",
        "-c",
        "exit 5",
    ];
    let said = refused(room.command(&words).current_dir("/"));
    assert!(said.contains("is not this user's"), "{said}");
    for name in ["", "cgroup.procs", "cgroup.subtree_control"] {
        chown(room.0.join(name), Some(USER), Some(USER)).unwrap();
    }
    let (status, said) =
        Server::start(room.command(&words).current_dir("/"), Streams::Pipes).ended();
    assert_eq!((status.code(), &*said), (Some(5), ""));
    assert_eq!(room.servers(), [""; 0].map(PathBuf::from));
}

#[test]
fn what_is_left_in_a_cgroup_with_a_limit_is_found_there() {
    let Some(room) = Room::new() else { return };
    let mut alive = Alive::new();
    let state = tempfile::tempdir().unwrap();
    // Without a mark, it is found by its cgroup alone.
    let script = alive.script("setsid env -i sh -c 'printf . >&9; while :; do read never <&8; done' & printf . >&9; while :; do read never <&8; done");
    let mut command = room.wrapped(&["--memory", "64M", "sh", "-c", &script]);
    own_state(&mut command, &state);
    let server = Server::start(&mut command, Streams::Pipes);
    alive.ready(2);
    let guardian = guardian(&server);
    assert_eq!(children(guardian.as_raw().unsigned_abs()).len(), 1);
    let shim = Pid::from_raw(server.child.id().cast_signed());
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in [guardian, shim] {
            kill(pid, signal).unwrap();
        }
    }
    assert!(alive.somebody_is_left(), "what the search is for");
    let end = Instant::now() + DEADLINE;
    while alive.somebody_is_left() || !room.servers().is_empty() {
        assert!(Instant::now() < end, "it is not found");
        let mut reap = wrapped(&["reap"]);
        own_state(&mut reap, &state);
        let _ = reap.output().unwrap();
    }
    server.ended();
}
