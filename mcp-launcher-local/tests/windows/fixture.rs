//! The servers and the hosts: this program, called with [`MARK`] and what to be.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use windows_sys::Win32::System::Threading::{
    CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS,
};

use crate::{owners, system};

pub(crate) const MARK: &str = "--fixture";

/// Where to report, in the environment.
pub(crate) const ADDRESS: &str = "MCP_TEST_ALIVE";

/// Longer than any test.
fn stay() -> ! {
    std::thread::sleep(Duration::from_secs(600));
    std::process::exit(99);
}

#[expect(clippy::zombie_processes, reason = "there are none on Windows")]
pub(crate) fn run(arguments: Vec<String>) {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref().unwrap_or_default() {
        "args" => {
            for argument in arguments {
                println!("{argument:?}");
            }
        }
        "echo" => echo(),
        "deaf" => {
            report();
            stay()
        }
        // A child without a console, a grandchild whose parent has left, and itself: four.
        "tree" => {
            report();
            start("deaf", DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP).unwrap();
            start("middle", 0).unwrap();
            stay()
        }
        "middle" => drop(start("deaf", DETACHED_PROCESS).unwrap()),
        "leaves-a-helper" => {
            start("deaf", DETACHED_PROCESS).unwrap();
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        "breaks-away" => {
            let refused = start("deaf", CREATE_BREAKAWAY_FROM_JOB).map(|_| ());
            println!("{:?}", refused.map_err(|error| error.raw_os_error()));
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        "own-job" => {
            let child = start("tree", 0).unwrap();
            println!("{}", system::put_into_a_job(&child));
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        "polite" => polite(),
        "owner" => owners::own(),
        other => panic!("no fixture {other:?}"),
    }
}

/// Answers each line, until the end of its input.
fn echo() {
    report();
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        output.write_all(line.unwrap().as_bytes()).unwrap();
        output.write_all(b"\n").unwrap();
        output.flush().unwrap();
    }
}

/// Does not mind the end of its input, and leaves with 7 when it is asked.
fn polite() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut asked = tokio::signal::windows::ctrl_break().unwrap();
        report();
        println!("ready");
        asked.recv().await;
    });
    std::process::exit(7);
}

/// Holds a connection to the test, if there is one, for as long as this process lives.
fn report() {
    if let Ok(address) = std::env::var(ADDRESS) {
        let mut connection = TcpStream::connect(address).unwrap();
        connection
            .write_all(&std::process::id().to_le_bytes())
            .unwrap();
        std::mem::forget(connection);
    }
}

fn start(what: &str, flags: u32) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([MARK, what])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .creation_flags(flags);
    command.spawn()
}
