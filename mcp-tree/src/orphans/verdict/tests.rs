use proptest::prelude::*;

use super::*;

const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";
const OTHER_BOOT: &str = "11234567-89ab-cdef-0123-456789abcdef";

fn host(pid: u32, boot: &str, nonce: u64) -> HostId {
    HostId::new(pid, 100, boot, nonce).unwrap()
}

fn dead() -> HostId {
    host(20, BOOT, 2)
}

/// A living host that is itself a server of the dead one.
fn nested() -> HostId {
    host(30, BOOT, 4)
}

fn mark_of(host: HostId) -> Mark {
    Mark::Cookie(Cookie::new(host, 1))
}

fn process(pid: u32, parent: u32, mark: Mark) -> Process {
    Process {
        pid,
        parent,
        start_time: 200,
        name: "server".to_owned(),
        is_guardian: false,
        stays: false,
        container: None,
        mark,
    }
}

fn of(host: HostId, pid: u32) -> Process {
    process(pid, 1, mark_of(host))
}

/// 10 is the judging host and 9 its parent; 30 is a living host below 29, both with the mark of the
/// dead one; 31 is its helper, 32 its server.
fn scene(more: &[Process]) -> Scene {
    let mut processes = vec![
        process(1, 0, Mark::None),
        process(9, 1, Mark::None),
        process(10, 9, Mark::None),
        process(29, 1, mark_of(dead())),
        process(30, 29, mark_of(dead())),
        process(31, 30, mark_of(dead())),
        process(32, 30, mark_of(nested())),
    ];
    processes.extend_from_slice(more);
    Scene {
        processes: processes
            .into_iter()
            .map(|process| (process.pid, process))
            .collect(),
        hosts: [30].into(),
    }
}

fn with_hosts<T>(with: impl FnOnce(&Hosts<'_>) -> T) -> T {
    let this = host(10, BOOT, 1);
    let dead = [(self::dead(), 7), (host(21, OTHER_BOOT, 3), 7)].map(|(id, namespace)| DeadHost {
        id,
        namespace,
        servers: vec![(77, 1077)],
    });
    with(&Hosts {
        this: Some(&this),
        this_pid: 10,
        boot_id: BOOT,
        dead: &dead,
    })
}

fn judge(process: &Process) -> Verdict {
    let scene = scene(std::slice::from_ref(process));
    with_hosts(|hosts| hosts.judge(process, &scene))
}

#[test]
fn servers_of_the_dead_end_and_their_guardians_are_waited_for() {
    let mut process = of(dead(), 50);
    assert_eq!(judge(&process), Verdict::End);
    process.is_guardian = true;
    assert_eq!(judge(&process), Verdict::Wait);
}

#[test]
fn other_processes_are_spared() {
    let older = Process {
        start_time: 99,
        ..of(dead(), 50)
    };
    for (why, process) in [
        ("its host lives", of(nested(), 50)),
        ("its host is unknown", of(host(20, BOOT, 99), 50)),
        ("another boot", of(host(21, OTHER_BOOT, 3), 50)),
        ("it is a host itself", process(30, 29, mark_of(dead()))),
        ("it started a host", process(29, 1, mark_of(dead()))),
        ("a host started it", process(50, 31, mark_of(dead()))),
        ("the judging host", process(10, 9, mark_of(dead()))),
        (
            "the parent of the judging host",
            process(9, 1, mark_of(dead())),
        ),
        ("the first process", process(1, 0, mark_of(dead()))),
        ("older than its host", older),
        ("no identity", process(50, 1, Mark::Unreadable)),
    ] {
        assert_eq!(judge(&process), Verdict::Spare, "{why}");
    }
    assert_eq!(judge(&of(host(10, BOOT, 1), 50)), Verdict::Pass);
    assert_eq!(judge(&process(50, 1, Mark::None)), Verdict::Pass);
}

#[test]
fn adopted_orphans_are_not_the_adopters() {
    // The judging host is the first process of a container, and has no mark.
    assert_eq!(judge(&process(50, 10, mark_of(dead()))), Verdict::End);
}

#[test]
fn containers_of_other_engines_are_spared() {
    for (namespace, verdict) in [
        (None, Verdict::Spare),
        (Some(8), Verdict::Spare),
        (Some(7), Verdict::End),
    ] {
        let process = Process {
            container: Some(namespace),
            ..of(dead(), 50)
        };
        assert_eq!(judge(&process), verdict, "{namespace:?}");
    }
}

#[test]
fn unreadable_processes_are_in_doubt_unless_older() {
    for (start_time, verdict) in [
        (0, Verdict::Doubt),
        (99, Verdict::Pass),
        (100, Verdict::Doubt),
    ] {
        for mark in [Mark::Unseen("why".to_owned()), Mark::Passing] {
            let process = Process {
                start_time,
                ..process(50, 1, mark)
            };
            assert_eq!(judge(&process), verdict, "{process:?}");
        }
    }
}

#[test]
fn a_cgroup_is_emptied_only_of_the_dead() {
    let inside = [
        process(50, 1, Mark::None),
        process(51, 50, mark_of(dead())),
        process(52, 1, mark_of(nested())),
        process(53, 1, Mark::Unreadable),
        process(54, 1, Mark::Unseen("why".to_owned())),
    ];
    let scene = scene(&inside);
    let empty =
        |owner: HostId, members: &[u32]| with_hosts(|hosts| hosts.empty(&owner, members, &scene));
    assert_eq!(empty(dead(), &[]), Emptying::All);
    assert_eq!(empty(dead(), &[50, 51, 54]), Emptying::All);
    assert_eq!(empty(dead(), &[50, 77]), Emptying::All, "77 has gone");
    assert_eq!(empty(dead(), &[50, 52]), Emptying::Each, "another host's");
    assert_eq!(empty(dead(), &[53]), Emptying::Each, "no identity");
    assert_eq!(empty(dead(), &[50, 30]), Emptying::Each, "an idle host");
    assert_eq!(empty(dead(), &[50, 29]), Emptying::Each, "its wrapper");
    assert_eq!(empty(dead(), &[9]), Emptying::Each);
    assert_eq!(empty(dead(), &[1]), Emptying::Each);
    assert_eq!(empty(dead(), &[50, 0]), Emptying::Nothing, "not visible");
    assert_eq!(empty(nested(), &[]), Emptying::Nothing);
    assert_eq!(empty(host(21, OTHER_BOOT, 3), &[]), Emptying::Nothing);
}

/// A process is kept by its name, and by what is above it; but never the server itself.
#[test]
fn kept_processes_are_spared_but_not_servers() {
    let named = |pid, parent, start_time| Process {
        stays: true,
        start_time,
        ..process(pid, parent, mark_of(dead()))
    };
    let all = [
        named(50, 1, 200),
        process(51, 50, mark_of(dead())),
        named(77, 1, 1077),
        process(78, 77, mark_of(dead())),
        named(79, 77, 200),
    ];
    let with_all = scene(&all);
    let judged = |pid| with_hosts(|hosts| hosts.judge(&with_all.processes[&pid], &with_all));
    let verdicts = [50, 51, 77, 78, 79].map(judged);
    let (stays, ends) = (Verdict::Spare, Verdict::End);
    assert_eq!(verdicts, [stays, stays, ends, ends, stays]);
    let empty = |pids: &[u32]| with_hosts(|hosts| hosts.empty(&dead(), pids, &with_all));
    assert_eq!(empty(&[77, 78]), Emptying::All);
    assert_eq!(empty(&[77, 79]), Emptying::Each);
    // Another process of that number is not the server.
    let reused = named(77, 1, 1078);
    assert_eq!(judge(&reused), Verdict::Spare);
}

#[test]
fn a_mark_that_is_not_read_has_a_reason() {
    assert_eq!(Mark::Unseen("why".to_owned()).reason(), "why");
    let passing = Mark::Passing;
    assert_eq!(
        passing.reason(),
        "it kept executing programs while it was examined"
    );
}

#[test]
fn a_process_may_be_as_old_as_its_host() {
    let same = Process {
        start_time: 100,
        ..of(dead(), 50)
    };
    assert_eq!(judge(&same), Verdict::End);
}

#[test]
fn the_first_process_is_never_suspected_or_ended() {
    let first = process(1, 0, Mark::Passing);
    assert_eq!(judge(&first), Verdict::Pass);
    // The ancestors of the hosts are not all visible.
    let mut cut = scene(&[]);
    for pid in [9, 29] {
        cut.processes.remove(&pid);
    }
    let empty = with_hosts(|hosts| hosts.empty(&dead(), &[1], &cut));
    assert_eq!(empty, Emptying::Each);
}

#[test]
fn a_guardian_of_the_dead_does_not_keep_its_cgroup() {
    let guardian = Process {
        is_guardian: true,
        ..of(dead(), 50)
    };
    let scene = scene(&[guardian]);
    let empty = with_hosts(|hosts| hosts.empty(&dead(), &[50], &scene));
    assert_eq!(empty, Emptying::All);
}

#[test]
fn an_orphan_below_a_host_with_another_mark_ends() {
    let all = [
        process(40, 1, mark_of(nested())),
        process(50, 40, mark_of(dead())),
    ];
    let mut scene = scene(&all);
    scene.hosts.insert(40);
    let verdict = with_hosts(|hosts| hosts.judge(&all[1], &scene));
    assert_eq!(verdict, Verdict::End);
}

#[test]
fn a_line_ends_at_the_first_process_or_after_all() {
    let line = |processes: &[Process], pid| {
        let processes = processes.iter().map(|it| (it.pid, it.clone()));
        let scene = Scene {
            processes: processes.collect(),
            hosts: BTreeSet::new(),
        };
        scene.line(pid).collect::<Vec<_>>()
    };
    let [first, second, third] =
        [(1, 0), (2, 1), (3, 2)].map(|(pid, parent)| process(pid, parent, Mark::None));
    assert_eq!(line(&[first, second.clone(), third.clone()], 3), [3, 2, 1]);
    assert_eq!(line(&[second, third], 3), [3, 2, 1], "it is not visible");
    let own = process(4, 4, Mark::None);
    assert_eq!(line(&[own], 4), [4, 4]);
}

#[test]
fn a_server_is_known_by_its_mark_or_the_nearest_guardian() {
    let guardian = |pid, parent, mark| Process {
        is_guardian: true,
        ..process(pid, parent, mark)
    };
    let scene = scene(&[
        guardian(50, 1, mark_of(dead())),
        process(51, 50, Mark::Unreadable),
        process(52, 51, mark_of(nested())),
        process(53, 51, Mark::None),
        guardian(54, 50, Mark::None),
        process(55, 54, Mark::None),
        process(56, 1, Mark::None),
    ]);
    let host = |pid: u32| scene.server_of(&scene.processes[&pid]).map(Cookie::host);
    let (dead, nested) = (dead(), nested());
    let found = [51, 52, 53, 54, 55, 56].map(host);
    let expected = [
        Some(&dead),
        Some(&nested),
        Some(&dead),
        Some(&dead),
        None,
        None,
    ];
    assert_eq!(found, expected);
}

#[test]
fn cycles_of_parents_are_survived() {
    let circle = [
        process(50, 51, mark_of(dead())),
        process(51, 50, Mark::None),
    ];
    let scene = scene(&circle);
    let verdict = with_hosts(|hosts| hosts.judge(&circle[0], &scene));
    assert_eq!(verdict, Verdict::End);
}

proptest! {
    /// Processes that are ended carry the identity of a host that is proven dead,
    /// and no host depends on it.
    #[test]
    fn only_the_dead_lose_servers(
        pid in 0..60_u32, parent in 0..60_u32, start_time in 90..210_u64, nonce in 0..6_u64,
        host_pid in 1..40_u32, boot in any::<bool>(), container in any::<bool>(),
    ) {
        let owner = host(host_pid, if boot { BOOT } else { OTHER_BOOT }, nonce);
        let process = Process {
            start_time,
            container: container.then_some(Some(9)),
            ..process(pid, parent, mark_of(owner.clone()))
        };
        if judge(&process) == Verdict::End {
            prop_assert_eq!(owner, dead());
            prop_assert!(start_time >= 100 && !container);
            prop_assert!(![0, 1, 9, 10, 29, 30].contains(&pid));
            prop_assert!(![30, 31].contains(&parent));
        }
    }
}
