//! The verbs on a terminal: columns fit, colours are there, `--watch` draws again in the same place.

use std::io::{BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::{DEADLINE, PROGRAM, Place, ends};

/// A command that runs on a terminal of this width.
fn on_a_terminal(place: &Place, columns: usize, words: &str) -> Command {
    let mut script = place.command("script");
    let line = format!("stty rows 24 cols {columns}; exec '{PROGRAM}' {words}");
    script
        .args(["-qefc", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    script
}

/// Without what a terminal obeys.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let end = part
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(part.len(), |at| at + 1);
        text + &part[end..]
    })
}

#[test]
fn columns_fit_every_terminal_and_colours_are_for_terminals() {
    let place =
        Place::new("a-name-that-is-much-longer-than-any-terminal-has-room-for-in-its-first-column");
    // One that has ended, for `stats`, and one that runs, for `ps`.
    let (mut ended, stdout) = place.start_with(&["--grace", "0s"]);
    drop(ended.stdin.take());
    ends(stdout);
    ended.wait().unwrap();
    let (mut host, stdout) = place.start();
    for (columns, verb) in [132, 80, 60, 40]
        .into_iter()
        .flat_map(|it| [(it, "ps"), (it, "stats")])
    {
        let output = on_a_terminal(&place, columns, verb).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\u{1b}[1mNAME"), "{text:?}");
        let text = plain(&text);
        // A sentence may be longer, and goes on in the next line.
        let lines = text.lines().skip_while(|line| !line.starts_with("NAME"));
        let widths: Vec<_> = lines
            .map(|line| line.trim_end_matches('\r').chars().count())
            .collect();
        assert!(widths.len() >= 2, "{text}");
        assert!(
            widths.iter().all(|width| *width <= columns),
            "{columns}: {text}"
        );
    }
    let mut without = on_a_terminal(&place, 80, "ps");
    let output = without.env("NO_COLOR", "1").output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains('\u{1b}'));
    drop(host.stdin.take());
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn what_is_watched_is_drawn_again_in_the_same_place_until_nobody_looks() {
    for verb in ["ps --watch", "stats --watch"] {
        is_drawn_again(verb);
    }
}

fn is_drawn_again(verb: &str) {
    let place = Place::new("watched");
    let mut watched = on_a_terminal(&place, 80, verb);
    let mut watched = watched.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(watched.stdout.take().unwrap());
    let (seen, is_seen) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let mut buffer = [0; 1024];
        while text.matches("\u{1b}[H").count() < 2 || !text.ends_with("\u{1b}[J") {
            match output.read(&mut buffer) {
                Ok(len @ 1..) => text.push_str(&String::from_utf8_lossy(&buffer[..len])),
                _ => break,
            }
        }
        seen.send(text).unwrap();
    });
    let text = is_seen.recv_timeout(DEADLINE).expect("it is drawn twice");
    assert_eq!(text.matches("\u{1b}[H").count(), 2, "{text:?}");
    reader.join().unwrap();
    // The terminal goes, and with it who writes to it.
    watched.kill().unwrap();
    watched.wait().unwrap();
}
