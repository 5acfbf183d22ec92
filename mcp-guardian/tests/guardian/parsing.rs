//! The guardian's reading of /proc, as pure functions.

#[path = "../../guardian-bin/parse.rs"]
mod parse;
#[expect(dead_code, reason = "what only the host asks")]
#[path = "../../guardian-bin/stat.rs"]
mod stat;

use parse::{Levels, Numbers, is_counted, minds_no_hangup, numeric_entries, subdirectories};
use stat::Stat;

/// A `stat` line with fields 3 to 22 as given and the rest as they come.
fn line(name: &str, state: char, parent: u32, group: u32, started: u64) -> String {
    format!(
        "77 ({name}) {state} {parent} {group} 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 {started} 1000 25 18446744073709551615\n"
    )
}

#[test]
fn a_stat_line() {
    let stat = Stat::parse(line("sh", 'S', 12, 34, 5678).as_bytes()).expect("valid");
    assert_eq!(
        (stat.state, stat.parent, stat.group, stat.started),
        (b'S', 12, 34, 5678)
    );
    assert_eq!(&stat.comm, b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert!(!stat.is_dead());
    assert!(
        Stat::parse(line("sh", 'Z', 12, 34, 5678).as_bytes())
            .expect("valid")
            .is_dead()
    );
}

#[test]
fn a_process_whose_main_thread_has_ended_lives_on() {
    let threads = |state, threads: u32| {
        let line = line("sh", state, 12, 34, 5678);
        let line = line.replace(" 20 0 1 0 ", &format!(" 20 0 {threads} 0 "));
        Stat::parse(line.as_bytes()).expect("valid")
    };
    assert!(threads('Z', 1).is_dead());
    assert!(threads('X', 0).is_dead());
    assert!(!threads('Z', 2).is_dead());
    assert_eq!(threads('Z', 2).threads, 2);
    assert!(!threads('S', 1).is_dead());
    let exiting = line("sh", 'D', 12, 34, 5678).replace("4194304", "4194308");
    let exiting = Stat::parse(exiting.as_bytes()).expect("valid");
    assert!(exiting.is_exiting() && !exiting.is_dead());
    assert!(!threads('S', 1).is_exiting());
}

#[test]
fn names_may_try_to_deceive() {
    for name in [
        "a) S 1 1",
        "((",
        "))",
        "",
        " ",
        "x\n) R 1 2 3",
        "fifteen letters",
    ] {
        let stat = Stat::parse(line(name, 'R', 12, 34, 5678).as_bytes()).expect("valid");
        assert_eq!(
            (stat.state, stat.parent, stat.group, stat.started),
            (b'R', 12, 34, 5678),
            "{name:?}"
        );
    }
    // Longer than the kernel allows, as kernel threads may be.
    let stat =
        Stat::parse(line("kworker/u8:12-events_unbound", 'I', 2, 0, 9).as_bytes()).expect("valid");
    assert_eq!(&stat.comm, b"kworker/u8:12-ev");
}

#[test]
fn what_is_cut_or_wrong_is_refused() {
    let whole = line("sh", 'S', 12, 34, 5678);
    let end_of_started = whole.find("5678").expect("there");
    for len in 0..=end_of_started {
        assert!(Stat::parse(&whole.as_bytes()[..len]).is_none(), "{len}");
    }
    assert!(Stat::parse(b")(").is_none());
    assert!(
        Stat::parse(
            line("sh", 'S', 12, 34, 5678)
                .replace("12", "-12")
                .as_bytes()
        )
        .is_none()
    );
    assert!(
        Stat::parse(
            line("sh", 'S', 12, 34, 5678)
                .replace("5678", "99999999999999999999")
                .as_bytes()
        )
        .is_none()
    );
}

#[test]
fn numbers_may_be_cut_anywhere() {
    let text = b"1 22 333 4194304 ";
    for cut in 0..=text.len() {
        let (head, tail) = text.split_at(cut);
        let mut seen = Vec::new();
        let mut numbers = Numbers::default();
        numbers.feed(head, &mut |number| seen.push(number));
        numbers.feed(tail, &mut |number| seen.push(number));
        numbers.finish(&mut |number| seen.push(number));
        assert_eq!(seen, [1, 22, 333, 4_194_304], "{cut}");
    }
}

/// A directory entry as `getdents64` writes it.
fn entry(name: &str) -> Vec<u8> {
    let len = (19 + name.len() + 1).next_multiple_of(8);
    let mut entry = vec![0; 16];
    entry.extend(u16::try_from(len).expect("short").to_le_bytes());
    entry.push(4);
    entry.extend(name.as_bytes());
    entry.resize(len, 0);
    entry
}

#[test]
fn directory_entries() {
    let numbers = |buffer: &[u8]| {
        let mut seen = Vec::new();
        numeric_entries(buffer, &mut |number| seen.push(number));
        seen
    };
    let buffer = [".", "..", "1", "self", "12x", "4194304", "99999999999"]
        .map(entry)
        .concat();
    assert_eq!(numbers(&buffer), [1, 4_194_304]);
    // Whatever it is cut to, or says of its own length, it ends.
    for len in 0..buffer.len() {
        numbers(&buffer[..len]);
    }
    for len in 0..=u8::MAX {
        let mut lying = entry("5");
        lying[16] = len;
        numbers(&lying);
    }
}

#[test]
fn subdirectories_are_all_but_this_one_and_the_one_above() {
    let names = |buffer: &[u8]| {
        let mut seen = Vec::new();
        subdirectories(buffer, &mut |name| seen.push(name.to_owned()));
        seen
    };
    let mut file = entry("cgroup.procs");
    file[18] = 8;
    let buffer = [
        entry("."),
        entry(".."),
        file,
        entry("inside"),
        entry(".other"),
    ]
    .concat();
    assert_eq!(names(&buffer), [c"inside".to_owned(), c".other".to_owned()]);
    for len in 0..buffer.len() {
        names(&buffer[..len]);
    }
}

#[test]
fn a_count_is_that_of_its_name_alone() {
    let events = b"low 0\nhigh 0\nmax 412\noom 1\noom_kill 3\noom_group_kill 0\n";
    for (name, counted) in [
        ("max", true),
        ("oom", true),
        ("oom_kill", true),
        ("oom_group_kill", false),
        ("oo", false),
        ("low", false),
        ("", false),
    ] {
        assert_eq!(is_counted(events, name.as_bytes()), counted, "{name}");
    }
    assert!(!is_counted(b"oom_kill 1", b"oom"));
    assert!(!is_counted(b"oom\noom x\noom 0", b"oom"));
    assert!(is_counted(b"oom 7", b"oom"), "cut at its end");
}

#[test]
fn the_levels_of_a_process_are_counted_across_cuts() {
    let count = |text: &str, piece| {
        let mut levels = Levels::default();
        text.as_bytes()
            .chunks(piece)
            .for_each(|piece| levels.feed(piece));
        levels.count()
    };
    for piece in 1..80 {
        let one = "Name:\tNSpid:\t1\nGroups:\t0 4 \nNStgid:\t42\nNSpid:\t42\nNSpgid:\t7\t8\n";
        assert_eq!(count(one, piece), 1, "{piece}");
        let three = "Name:\tx\n\nNSpid:\t4200\t17\t1\nNSpgid:\t4200\t17\t1\n";
        assert_eq!(count(three, piece), 3, "{piece}");
        assert_eq!(
            count("Name:\tx\nGroups:\t1 2 3\n", piece),
            0,
            "without namespaces"
        );
    }
}

#[test]
fn a_process_that_ignores_or_blocks_its_terminals_end() {
    let minds_none = |blocked: &str, ignored: &str| {
        let status = format!("Name:\tx\n{blocked}\n{ignored}\nSigCgt:\t0000000000000001\n");
        minds_no_hangup(status.as_bytes())
    };
    let [none, other] = ["0000000000001000", "000000000000000e"];
    let [first, many] = ["0000000000000001", "000000000000100f"];
    for (blocked, ignored) in [(none, first), (none, many), (first, none), (many, other)] {
        assert!(minds_none(
            &format!("SigBlk:\t{blocked}"),
            &format!("SigIgn:\t{ignored}")
        ));
    }
    for (blocked, ignored) in [(none, none), (other, none), (none, other)] {
        assert!(!minds_none(
            &format!("SigBlk:\t{blocked}"),
            &format!("SigIgn:\t{ignored}")
        ));
    }
    for cut in ["SigIgn:\t000000", "SigIgn", ""] {
        assert!(minds_none(&format!("SigBlk:\t{none}"), cut), "not known");
    }
}
