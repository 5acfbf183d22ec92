//! The shapes that are not alone: what survives what, shown on a bare child
//! process, which is how a launcher without containment would lose them.

mod common;

use std::fs;
use std::io::Read;

use common::{LIMIT, Rig};
use mcp_lifecycle_conformance::alive::{AliveConn, AliveError, AliveListener};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getsid};

/// A process that the fixture told us of, and that has just answered a ping:
/// its pid is its own.
fn living(rig: &Rig, conn: &AliveConn) -> Pid {
    rig.ping(conn);
    Pid::from_raw(i32::try_from(conn.pid()).unwrap())
}

fn end(rig: &Rig, conn: &AliveConn) {
    kill(living(rig, conn), Signal::SIGKILL).unwrap();
}

#[test]
fn a_helper_outlives_a_graceful_exit_in_the_group() {
    let rig = Rig::new();
    let mut server = rig.start(&["helper"]);
    let helper = rig.accept("helper");
    server.close_stdin();
    assert_eq!(server.exit_code(), Some(0));
    let leader = rig.accept("server");
    assert!(
        !leader.is_dead(),
        "the helper holds the leader's connection"
    );
    let pid = living(&rig, &helper);
    let group = Pid::from_raw(i32::try_from(server.child.id()).unwrap());
    assert_eq!(getpgid(Some(pid)), Ok(group));
    killpg(group, Signal::SIGTERM).unwrap();
    rig.event(&helper, "sigterm");
    drop(server);
    rig.finish();
}

#[test]
fn a_leader_that_exits_first_leaves_a_helper() {
    let rig = Rig::new();
    let mut server = rig.start(&["leader-exits-first"]);
    assert_eq!(server.exit_code(), Some(0));
    end(&rig, &rig.accept("helper"));
    drop(server);
    rig.finish();
}

#[test]
fn a_session_of_its_own_escapes_the_group_and_sigterm() {
    let rig = Rig::new();
    let mut server = rig.start(&["setsid"]);
    let grandchild = rig.accept("setsid");
    let pid = living(&rig, &grandchild);
    assert_eq!(getsid(Some(pid)), Ok(pid));
    server.kill();
    kill(pid, Signal::SIGTERM).unwrap();
    rig.event(&grandchild, "sigterm");
    end(&rig, &grandchild);
    drop(server);
    rig.finish();
}

#[test]
fn a_daemon_has_no_parent_and_no_inherited_connection() {
    let rig = Rig::new();
    let mut server = rig.start(&["double-fork"]);
    let daemon = rig.accept("daemon");
    living(&rig, &daemon);
    let leader = rig.accept("server");
    server.kill();
    rig.wait_dead(&leader);
    assert!(matches!(
        rig.alive
            .block_on(rig.alive.expect_all_dead(LIMIT / 100)),
        Err(AliveError::Survivors { survivors, .. }) if survivors == [daemon.holder()]
    ));
    end(&rig, &daemon);
    drop(server);
    rig.finish();
}

#[test]
fn a_wiped_environment_is_empty() {
    let rig = Rig::new();
    let server = rig.start(&["wiped-env"]);
    let daemon = rig.accept("wiped-env");
    let pid = living(&rig, &daemon);
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(environment.is_empty());
    end(&rig, &daemon);
    rig.wait_dead(&rig.accept("daemon"));
    drop(server);
    rig.finish();
}

#[test]
fn a_wrapper_is_a_real_shell_whose_child_serves() {
    let rig = Rig::new();
    let mut server = rig.start(&["sh-wrapper", "--ignore-eof"]);
    let inner = rig.accept("server");
    let pid = living(&rig, &inner);
    assert_ne!(inner.pid(), server.child.id());
    assert_eq!(rig.accept("wrapper").pid(), server.child.id());
    let wrapper = fs::read_link(format!("/proc/{}/exe", server.child.id())).unwrap();
    assert!(!wrapper.ends_with("mcp-fixture"), "{}", wrapper.display());
    server.initialize();
    server.kill();
    assert_eq!(living(&rig, &inner), pid, "it outlives its wrapper");
    end(&rig, &inner);
    drop(server);
    rig.finish();
}

#[test]
fn a_holder_keeps_the_stdout_of_a_dead_leader_open_until_nobody_watches() {
    let rig = Rig::new();
    let mut server = rig.start(&["holds-stdout", "--code", "5"]);
    let holder = rig.accept("holder");
    server.initialize();
    server.send_call(1, "echo", &serde_json::json!({}));
    assert_eq!(server.exit_code(), Some(5));
    rig.ping(&holder);
    // The end of the observer ends whoever is left: the fixture cannot leak.
    let rest_of_rig = rig.end_observer();
    let mut rest = Vec::new();
    server.stdout.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, br#"{"jsonrpc":"2.0","id":"#);
    drop((server, rest_of_rig));
}

#[test]
fn a_burst_is_199_sessions() {
    let rig = Rig::new();
    let mut server = rig.start(&["burst"]);
    for number in 1..=199 {
        let conn = rig.accept(&format!("burst-{number}"));
        let pid = living(&rig, &conn);
        assert_eq!(getsid(Some(pid)), Ok(pid));
    }
    assert_eq!(rig.alive.alive().len(), 200);
    server.kill();
    for conn in rig.alive.connections() {
        if conn.holder().role != "server" {
            end(&rig, &conn);
        }
    }
    drop(server);
    rig.finish();
}

#[test]
fn a_colony_replaces_its_dead_until_its_cap() {
    let rig = Rig::new();
    let mut server = rig.start(&["colony", "--count", "3", "--total", "9"]);
    for slot in 0..3 {
        rig.accept(&format!("colony-{slot}"));
    }
    // Each death makes room for a birth, until the cap of nine is reached;
    // members that fall silent under load are replaced without having died.
    let members = || {
        let mut members = rig.alive.connections();
        members.retain(|conn| conn.holder().role.starts_with("colony"));
        members
    };
    let is_alive = |conn: &&AliveConn| rig.alive.block_on(conn.ping(LIMIT / 100)).is_ok();
    let mut born = members().len();
    while born < 9 {
        end(&rig, members().iter().find(is_alive).unwrap());
        while members().len() <= born {
            std::thread::yield_now();
        }
        born = members().len();
    }
    while let Some(member) = members().iter().find(is_alive) {
        end(&rig, member);
    }
    assert_eq!(members().len(), 9, "nobody is born past the cap");
    server.kill();
    drop(server);
    rig.finish();
}

#[test]
fn tcp_observes_as_well() {
    let rig = Rig::on(AliveListener::tcp);
    let mut server = rig.start(&["setsid"]);
    let grandchild = rig.accept("setsid");
    server.kill();
    assert!(!rig.accept("server").is_dead());
    end(&rig, &grandchild);
    drop(server);
    rig.finish();
}
