//! The servers and the hosts: this program, called with [`MARK`] and what to be.

use std::io::{BufRead, Read, Write};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::alive::report;
use crate::hosts;

pub(crate) const MARK: &str = "--fixture";

/// In no console, and in no process group of its parent's.
const DETACHED: u32 = 0x0000_0008 | 0x0000_0200;

/// Longer than any test.
fn stay() -> ! {
    std::thread::sleep(Duration::from_secs(1200));
    std::process::exit(99);
}

pub(crate) fn run(arguments: Vec<String>) {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref().unwrap_or_default() {
        "args" => {
            for argument in arguments {
                println!("{argument:?}");
            }
        }
        "echo" => echo(),
        "exits" => {
            let code: u32 = arguments.next().unwrap().parse().unwrap();
            std::process::exit(code.cast_signed());
        }
        "complains" => eprintln!("to the log"),
        "deaf" => {
            report("deaf");
            stay()
        }
        // A child without a console, a grandchild whose parent has left, and itself.
        "tree" => {
            report("tree");
            start("deaf");
            start("middle");
            stay()
        }
        "middle" => start("deaf"),
        "leaves-a-helper" => {
            start("deaf");
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(3);
        }
        // Lives on without its output.
        "silent" => {
            report("silent");
            // SAFETY: it is open, and nothing is written to it any more.
            drop(unsafe { OwnedHandle::from_raw_handle(std::io::stdout().as_raw_handle()) });
            stay()
        }
        "host" => hosts::be(arguments.collect()),
        other => panic!("no fixture {other:?}"),
    }
}

/// Answers each line, until the end of its input.
fn echo() {
    report("echo");
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        output.write_all(line.unwrap().as_bytes()).unwrap();
        output.write_all(b"\n").unwrap();
        output.flush().unwrap();
    }
}

fn start(what: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([MARK, what])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .creation_flags(DETACHED);
    drop(command.spawn().unwrap());
}
