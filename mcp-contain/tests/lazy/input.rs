//! Input that the host has sent before it closed its end, and requests without end.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::thread;

use crate::flow::{all_said, write_all};
use crate::host::{Alive, BOTH, Server, Streams, in_time, wrapped};

#[test]
fn a_server_that_reads_slowly_gets_all_that_its_host_has_sent() {
    for streams in BOTH {
        // Longer than the grace in all, and never as long without a line.
        let script =
            "n=0; while IFS= read -r line; do n=$((n + ${#line} + 1)); sleep 0.2; done; echo $n";
        let mut server = Server::start(&mut wrapped(&["--restart", "sh", "-c", script]), streams);
        let mut line = vec![b'x'; 16 << 10];
        line.push(b'\n');
        let bytes = line.repeat(32);
        let len = bytes.len();
        let writer = write_all(server.stdin.take().unwrap(), bytes, 1 << 16);
        assert_eq!(
            all_said(&server),
            format!("{len}\n").as_bytes(),
            "{streams:?}"
        );
        writer.join().unwrap().unwrap();
        let (status, said) = server.ended();
        assert_eq!((status.success(), said.as_str()), (true, ""));
    }
}

#[test]
fn input_that_a_server_does_not_read_is_lost_with_a_line_that_says_so() {
    for streams in BOTH {
        let mut alive = Alive::new();
        // Two lines, and what is left for it when it is asked to end.
        let script = "read -r one; read -r two; trap 'wc -c >left; exit' TERM; printf x >&9; while :; do read never <&8; done";
        let words = [
            "--restart",
            "--grace",
            "1s",
            "sh",
            "-c",
            &alive.script(script),
        ];
        let mut server = Server::start(&mut wrapped(&words), streams);
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let bytes = line.repeat(160);
        server.stdin.take().unwrap().write_all(&bytes).unwrap();
        alive.ready(1);
        let (status, said) = server.ended();
        assert_eq!(said.lines().count(), 1, "{status}: {said}");
        assert!(said.contains("the last of the input is lost"), "{said}");
        let left = fs::read_to_string(alive.file("left")).unwrap();
        let left: usize = left.trim().parse().unwrap();
        assert!(left + 2 * line.len() < bytes.len(), "{streams:?}: {left}");
    }
}

/// The most that a relay has ever had in memory, in kB.
pub(crate) fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The most requests of one side that wait for an answer.
const IN_FLIGHT: usize = 4096;

#[test]
fn requests_beyond_a_bound_are_answered_with_an_error_and_cost_no_memory() {
    const ALL: usize = 40_000;
    // Reads everything, and answers nothing.
    let script = "exec cat 7>&1 >/dev/null";
    let mut server = Server::start(
        &mut wrapped(&["--restart", "sh", "-c", script]),
        Streams::Pipes,
    );
    let padding = "x".repeat(1000);
    let line =
        |number| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{padding}{number}\",\"method\":\"m\"}}\n");
    let mut stdin = server.stdin.take().unwrap();
    let text: String = (0..ALL).map(line).collect();
    let writer = thread::spawn(move || stdin.write_all(text.as_bytes()).map(|()| stdin));
    let stdout = BufReader::new(server.stdout.try_clone().unwrap());
    let (refused, mut stdout) = in_time(move || {
        let mut stdout = stdout.lines();
        let refused: Vec<_> = stdout
            .by_ref()
            .take(ALL - IN_FLIGHT)
            .collect::<Result<_, _>>()
            .unwrap();
        (refused, stdout)
    });
    let is_said = |line: &String| line.contains("-32603") && line.contains("have no answer yet");
    assert!(refused.iter().all(is_said));
    assert!(peak(&server) < 30 << 10, "{} kB", peak(&server));
    // The others have one when the server has ended.
    drop(writer.join().unwrap().unwrap());
    let others = in_time(move || stdout.by_ref().count());
    assert_eq!(others, IN_FLIGHT);
    assert!(server.ended().0.success());
}

#[test]
fn a_server_that_asks_and_asks_is_refused_beyond_a_bound() {
    const ALL: usize = 5000;
    let alive = Alive::new();
    let script = format!(
        "i=0; while [ $i -lt {ALL} ]; do echo '{{\"jsonrpc\":\"2.0\",\"id\":'$i',\"method\":\"ping\"}}'; i=$((i+1)); done; \
         echo last; exec cat 7>&1 >answers"
    );
    let words = ["--restart", "sh", "-c", &alive.script(&script)];
    let mut server = Server::start(&mut wrapped(&words), Streams::Pipes);
    let stdout = BufReader::new(server.stdout.try_clone().unwrap());
    let is_asked = |line: &String| line != "last";
    let asked = in_time(move || {
        stdout
            .lines()
            .map_while(Result::ok)
            .take_while(is_asked)
            .count()
    });
    assert_eq!(asked, IN_FLIGHT);
    server.stdin = None;
    assert!(server.ended().0.success());
    let answers = fs::read_to_string(alive.file("answers")).unwrap();
    assert_eq!(answers.lines().count(), ALL - IN_FLIGHT);
    assert!(answers.lines().all(|line| line.contains("-32603")));
}
