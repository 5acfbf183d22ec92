//! What is refused: one line, and the exit codes of Linux.

use std::process::{Command, Output};

use libtest_mimic::Trial;

use crate::cases::{PROGRAM, contained, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "a_program_that_is_not_there_is_127_and_one_that_is_none_126",
            missing,
        ),
        trial("what_nobody_would_do_is_refused", refused),
        trial("what_works_on_linux_only_says_so", verbs),
    ]
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn words(words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words);
    command
}

/// It failed with this code, and said in one line on standard error why.
fn fails(output: Output, code: i32, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(
        said.starts_with("mcp-contain: ") && said.contains(why),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(output.stdout, b"");
}

fn missing() {
    fails(run(words(&["no-such-program"])), 127, "no-such-program");
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text.txt");
    std::fs::write(&text, "no program").unwrap();
    fails(run(words(&[text.to_str().unwrap()])), 126, "text.txt");
}

fn refused() {
    for options in [
        &["--lazy"][..],
        &["--restart"],
        &["--keep", "chrome"],
        &["--containers"],
        &["--path", "login"],
        &["--require", "pidns"],
    ] {
        fails(run(contained(options, "complains")), 125, options[0]);
    }
    for level in ["guardian", "cgroup"] {
        let output = run(contained(&["--require", level], "complains"));
        assert_eq!(output.status.code(), Some(0));
    }
}

fn verbs() {
    for verb in ["ps", "stop", "reap", "stats", "doctor"] {
        fails(run(words(&[verb, "--json", "name"])), 125, "Linux only");
    }
    let help = run(words(&["--help"]));
    assert_eq!(help.status.code(), Some(0));
}
