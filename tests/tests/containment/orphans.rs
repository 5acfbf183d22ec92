//! What a next host finds of hosts that were killed, and whom it spares.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{
    LaunchContext, ReapReport, ServerIdentity, ServerLauncher, UnknownRemnant,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, mkfifo};

use crate::guardian_killed::{is_running, parent_of};
use crate::half_launched::until;
use crate::stage::{self, LIMIT, OBSERVER, Stage, has_cgroups, leaves, perform, plays};

const SHAPES: &str = "MCP_TEST_SHAPES";
const GROUP: &str = "MCP_TEST_GROUP";
pub(crate) const HARDENED: &str = "MCP_TEST_HARDENED";
pub(crate) const HEADLESS: &str = "MCP_TEST_HEADLESS";

/// A host: launches what its environment says, prints the pids of the servers,
/// and lives until it is killed or its standard input ends.
#[test]
#[ignore = "a role"]
fn host() {
    let (true, Ok(observer)) = (plays(), env::var(OBSERVER)) else {
        return;
    };
    if env::var_os(HEADLESS).is_some() {
        crate::headless::end_first_thread();
    }
    let isolation = match env::var_os(GROUP) {
        Some(_) => Isolation::ProcessGroup,
        None => Isolation::Guardian,
    };
    let launcher = LocalLauncher::builder()
        .isolation(isolation)
        .hardened(env::var_os(HARDENED).is_some())
        .build();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut servers = Vec::new();
    println!();
    let shapes = env::var(SHAPES).unwrap();
    for shape in shapes.split(',') {
        let spec = match shape.strip_prefix("role=") {
            Some(role) => stage::role_as_server(role, &observer),
            None => crate::inventory::spec_of(shape, &observer),
        };
        let server = runtime
            .block_on(launcher.launch(&spec, &LaunchContext::new()))
            .unwrap();
        if let ServerIdentity::Process { pid, .. } = server.terminator().identity() {
            println!("server {pid}");
        }
        servers.push(server);
    }
    println!("launched");
    // One more for each byte, until there are no more.
    while let Ok(1..) = std::io::stdin().read(&mut [0]) {
        let spec = stage::fixture(&["ignore-eof-term"], &observer);
        servers.push(
            runtime
                .block_on(launcher.launch(&spec, &LaunchContext::new()))
                .unwrap(),
        );
    }
    drop(servers);
}

pub(crate) fn start_host(stage: &Stage, shapes: &[&str], group: bool) -> Child {
    start_host_with(stage, shapes, group, &[])
}

/// The same, with more variables.
pub(crate) fn start_host_with(
    stage: &Stage,
    shapes: &[&str],
    group: bool,
    more: &[(&'static str, String)],
) -> Child {
    let mut variables = more.to_vec();
    variables.extend([
        (OBSERVER, stage.alive.address()),
        (SHAPES, shapes.join(",")),
    ]);
    if group {
        variables.push((GROUP, "1".to_owned()));
    }
    stage::start("orphans::host", &variables)
}

/// The pids of its servers, once all of them run.
pub(crate) fn launched(host: &mut Child) -> Vec<u32> {
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    loop {
        let line = lines.next().expect("the host says what it does").unwrap();
        match line.strip_prefix("server ") {
            Some(pid) => pids.push(pid.parse().unwrap()),
            None if line == "launched" => return pids,
            None => {}
        }
    }
}

pub(crate) fn reap(stage: &Stage) -> ReapReport {
    let report = stage.wait("the search", stage.launcher.reap_orphans());
    report.unwrap_or_else(|error| panic!("{error:?}"))
}

pub(crate) fn end(mut host: Child) {
    host.kill().unwrap();
    host.wait().unwrap();
}

/// Where the role's hosts keep their ledgers.
pub(crate) fn shelf() -> PathBuf {
    env::var_os(stage::STATE).unwrap().into()
}

pub(crate) fn ledgers() -> usize {
    fs::read_dir(shelf()).map_or(0, Iterator::count)
}

#[test]
fn the_next_host_ends_what_a_killed_one_left() {
    perform("orphans::without_guardian");
}

#[test]
#[ignore = "a role"]
fn without_guardian() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["ignore-eof-term", "setsid", "double-fork"], true);
    launched(&mut host);
    for role in ["server", "server", "server", "setsid", "daemon"] {
        stage.wait_for(role);
    }
    end(host);
    assert!(!stage.alive.alive().is_empty(), "this is about survivors");
    let report = reap(&stage);
    stage.nobody_is_left();
    // Another test's search may have ended some of them.
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(ledgers(), 0, "settled");
    assert_eq!(reap(&stage).ended, [], "and nothing is ended twice");
}

/// Kills a host together with the guardians of its servers.
pub(crate) fn kill_with_guardians(host: Child, servers: &[u32]) {
    // A stopped host cannot do the work of its guardians: but a thread of it that
    // runs stops a moment after the signal.
    let pid = Pid::from_raw(i32::try_from(host.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    let stopped = waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT);
    assert!(
        matches!(stopped, Ok(WaitStatus::Stopped(..))),
        "{stopped:?}"
    );
    let guardians: Vec<Pid> = servers.iter().map(|server| parent_of(*server)).collect();
    for guardian in &guardians {
        kill(*guardian, Signal::SIGKILL).unwrap();
    }
    end(host);
    // Who has been killed dies when it has a processor.
    for guardian in guardians {
        until("a killed guardian dies", || {
            (!is_running(guardian.as_raw())).then_some(())
        });
    }
}

#[test]
fn host_and_guardians_killed_together_leave_nothing_for_long() {
    perform("orphans::with_guardians");
}

#[test]
#[ignore = "a role"]
fn with_guardians() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut shapes = vec![("setsid", "setsid"), ("double-fork", "daemon")];
    if has_cgroups() {
        // Without a mark, it is found by where it is.
        shapes.push(("wiped-env", "wiped-env"));
    }
    let names: Vec<&str> = shapes.iter().map(|shape| shape.0).collect();
    let mut host = start_host(&stage, &names, false);
    let servers = launched(&mut host);
    for (_, role) in &shapes {
        stage.wait_for(role);
    }
    kill_with_guardians(host, &servers);
    assert!(!stage.alive.alive().is_empty(), "this is about survivors");
    let report = reap(&stage);
    stage.nobody_is_left();
    // Another test's search may have ended some of them.
    assert!(report.failed.is_empty(), "{report:?}");
    assert!(leaves().is_empty(), "{:?}", leaves());
    assert_eq!(ledgers(), 0, "settled");
}

#[test]
fn a_host_killed_alone_leaves_only_its_ledger() {
    perform("orphans::alone");
}

#[test]
#[ignore = "a role"]
fn alone() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["ignore-eof-term", "wiped-env", "burst"], false);
    launched(&mut host);
    for role in ["server", "wiped-env", "burst-198"] {
        stage.wait_for(role);
    }
    end(host);
    stage.nobody_is_left();
    // Its guardians remove the cgroups, a moment after the last process has ended.
    until("the cgroups are gone", || leaves().is_empty().then_some(()));
    let report = reap(&stage);
    assert!(report.failed.is_empty(), "{report:?}");
    assert!(leaves().is_empty(), "{:?}", leaves());
    assert_eq!(ledgers(), 0, "settled");
}

#[test]
fn a_living_host_is_never_touched() {
    perform("orphans::living");
}

#[test]
#[ignore = "a role"]
fn living() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut dead = start_host(&stage, &["double-fork"], true);
    let mut living = start_host(&stage, &["double-fork"], true);
    let mut guarded = start_host(&stage, &["double-fork"], false);
    let mut theirs = launched(&mut living);
    theirs.extend(launched(&mut guarded));
    launched(&mut dead);
    for _ in 0..3 {
        stage.wait_for("server");
        stage.wait_for("daemon");
    }
    let own = stage.launch(&["plain"]);
    stage.wait_for("server");
    end(dead);
    let report = reap(&stage);
    // Two hosts with a server and a daemon each, and this one with a server.
    let alive = stage
        .alive
        .block_on(stage.alive.alive_at_this_moment(LIMIT));
    let alive = alive.unwrap();
    assert_eq!(alive.len(), 5, "{alive:?}\n{report:?}");
    for pid in theirs {
        let spared = |remnant: &mcp_lifecycle_core::launch::Remnant| remnant.id == pid.to_string();
        assert!(report.spared.iter().any(spared), "{pid}: {report:?}");
    }
    drop(own);
    // In order: their servers' daemons are no business of this test.
    for mut host in [living, guarded] {
        drop(host.stdin.take());
        host.wait().unwrap();
    }
    reap(&stage);
    stage.nobody_is_left();
}

#[test]
fn a_ledger_that_lies_harms_nobody() {
    perform("orphans::hostile");
}

#[test]
#[ignore = "a role"]
fn hostile() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let shelf = shelf();
    fs::create_dir(&shelf).unwrap();
    fs::set_permissions(&shelf, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    // Nobody's pid, so that the host is as dead as can be.
    let host = format!("4194303 1 {boot} 0000000000000007");
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let mark = |host: &str, token: &str| {
        let host = host.replace(' ', ".");
        format!("{}{token}", host.trim_end_matches(char::is_alphanumeric)) + "0000000000000001"
    };
    let bystander = |mark: Option<String>| {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdin(Stdio::null());
        if let Some(mark) = mark {
            sleep.env("MCP_LIFECYCLE_ID", mark);
        }
        sleep.spawn().unwrap()
    };
    let other_boot = boot.replace(|c: char| c.is_ascii_hexdigit(), "0");
    let mut bystanders = [
        bystander(None),
        bystander(Some(String::new())),
        bystander(Some("...".to_owned())),
        // Of a host that nothing proves dead.
        bystander(Some(mark(&host, "0000000000000008"))),
        // Of another boot, whose ledger is there.
        bystander(Some(mark(
            &host.replace(boot, &other_boot),
            "0000000000000007",
        ))),
    ];
    let pid = bystanders[0].id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19);
    let start = start.unwrap();
    let write = |name: &str, text: &str| {
        let mut file = fs::OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600);
        let mut file = file.open(shelf.join(name)).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        file
    };
    write("garbage.ledger", "\u{1F980} 1 2 3\n\0\0\0");
    write("empty.ledger", "");
    write("huge.ledger", "").set_len(1 << 40).unwrap();
    write(
        "lies.ledger",
        &format!(
            "mcp-lifecycle 2 {host} {namespace} 1 1 1 /etc\n0000000000000001 1 0 c\n0000000000000001 -1 0 c\n\
             0000000000000002 {pid} {start} c\n0000000000000003 4194302 1 -\n"
        ),
    );
    let other = host.replace(boot, &other_boot);
    write(
        "boot.ledger",
        &format!("mcp-lifecycle 2 {other} {namespace} -\n0000000000000001 {pid} {start} -\n"),
    );
    let target = shelf.join("../target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, shelf.join("link.ledger")).unwrap();
    symlink("/proc/1", shelf.join("directory.ledger")).unwrap();
    mkfifo(&shelf.join("fifo.ledger"), Mode::S_IRWXU).unwrap();
    let open_to_all = write(
        "mode.ledger",
        &format!("mcp-lifecycle 2 {host} {namespace} -\n"),
    );
    open_to_all
        .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .unwrap();
    let report = reap(&stage);
    assert_eq!((&report.ended, &report.failed), (&vec![], &vec![]));
    for name in [
        "garbage",
        "empty",
        "huge",
        "link",
        "directory",
        "fifo",
        "mode",
    ] {
        let path = shelf.join(format!("{name}.ledger"));
        let is_unknown =
            |unknown: &UnknownRemnant| unknown.what.id == path.to_string_lossy().as_ref();
        assert!(report.unknown.iter().any(is_unknown), "{name}: {report:?}");
        assert!(path.symlink_metadata().is_ok(), "{name} was removed");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    for bystander in &mut bystanders {
        assert!(bystander.try_wait().unwrap().is_none(), "a bystander died");
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}
