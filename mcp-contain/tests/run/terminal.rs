//! `host`: a program of the terminal, below a shell with job control.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::pty::openpty;

use crate::host::{Alive, DEADLINE, in_time};

/// A terminal with a shell in it, and what both have shown.
struct Terminal {
    shell: Child,
    keys: File,
    shown: mpsc::Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn new() -> Self {
        let ends = openpty(None, None).expect("a terminal");
        // Each copy of the master keeps the terminal open.
        for end in [&ends.master, &ends.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag");
        }
        let end = |fd: &OwnedFd| fd.try_clone().expect("a descriptor");
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ");
        shell.stdin(end(&ends.slave)).stdout(end(&ends.slave));
        shell.stderr(ends.slave);
        let take = || {
            nix::unistd::setsid()?;
            // SAFETY: standard input is the terminal, which the new session has as its own from here on.
            match unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: both calls are safe after a fork.
        unsafe { shell.pre_exec(take) };
        let child = shell.spawn().expect("bash");
        drop(shell);
        let mut screen = File::from(end(&ends.master));
        let (show, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // It fails once no process has the other end.
            while let Ok(len @ 1..) = screen.read(&mut buffer) {
                let _ = show.send(buffer[..len].to_vec());
            }
        });
        Self {
            shell: child,
            keys: ends.master.into(),
            shown,
            text: String::new(),
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until this is shown; what was shown before it is forgotten.
    fn shows(&mut self, text: &str) {
        self.shows_all([text]);
    }

    /// Waits until all of this is shown, in any order.
    fn shows_all<const N: usize>(&mut self, texts: [&str; N]) {
        let end = Instant::now() + DEADLINE;
        for text in texts {
            while !self.text.contains(text) {
                let left = end.saturating_duration_since(Instant::now());
                let more = self.shown.recv_timeout(left);
                let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.text));
                self.text.push_str(&String::from_utf8_lossy(&more));
            }
        }
        let ends = texts.map(|text| self.text.find(text).expect("it is there") + text.len());
        self.text.drain(..ends.into_iter().max().unwrap_or(0));
    }

    fn resize(&self) {
        let size = libc::winsize {
            ws_row: 50,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the kernel reads one `winsize`.
        let resized = unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(resized, 0);
    }
}

/// It answers to keys, signals and lines; what it says differs from what is typed to start it.
///
/// A signal that comes just before a `read` would be answered after the next line: so it waits for both. Whoever is
/// in a `read` at Ctrl-Z may still take the next line, for the shell waits only until the group's first process has
/// stopped: so it says that it is in none. It does not stop itself: that could follow the shell's SIGCONT.
const AGENT: &str = r#"
import os, select, signal
ints = []
signals, signal_came = os.pipe()
os.set_blocking(signal_came, False)
signal.set_wakeup_fd(signal_came)
def interrupted(*_):
    ints.append(1)
    print("int", 40 + 2, flush=True)
signal.signal(signal.SIGINT, interrupted)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
def paused(*_):
    os.write(1, b"paused-%d\n" % (40 + 4))
    signal.sigwait([signal.SIGCONT])
signal.signal(signal.SIGTSTP, paused)
signal.signal(signal.SIGWINCH, lambda *_: print("winch", 40 + 3, flush=True))
open("/dev/tty").close()
print("up", 40 + 1, flush=True)
while True:
    ready, _, _ = select.select([0, signals], [], [])
    if signals in ready:
        os.read(signals, 64)
        continue
    line = os.read(0, 64).decode()
    print("got", line.strip(), flush=True)
    if line == "end\n":
        print("ints", 50 + len(ints), flush=True)
        os._exit(7)
"#;

/// A terminal with the agent, beside a process that left its session and ignores every request to end.
fn agent(alive: &Alive) -> Terminal {
    let stays =
        alive.script("trap '' TERM HUP INT; printf . >&9; while :; do read never <&8; done");
    std::fs::write(alive.file("stays"), stays).unwrap();
    std::fs::write(alive.file("agent"), AGENT).unwrap();
    let [stays, agent] = ["stays", "agent"].map(|name| alive.file(name).display().to_string());
    let mut terminal = Terminal::new();
    let contain = env!("CARGO_BIN_EXE_mcp-contain");
    terminal.types(&format!(
        "{contain} host --grace 0s -- sh -c 'setsid sh {stays} & exec python3 {agent}'\n"
    ));
    terminal.shows("up 41");
    terminal
}

#[test]
fn a_host_has_the_terminal_and_its_keys() {
    let mut alive = Alive::new();
    let mut terminal = agent(&alive);
    alive.ready(1);
    terminal.types("hello\n");
    terminal.shows("got hello");
    // With no grace at all, a step of its end would end it.
    terminal.types("\x03");
    terminal.shows("int 42");
    terminal.resize();
    terminal.shows("winch 43");
    // Ctrl-Z: the shell has the terminal until it gives it back.
    terminal.types("\x1a");
    terminal.shows_all(["paused-44", "Stopped"]);
    terminal.types("echo $((600 + 60))\n");
    terminal.shows("660");
    terminal.types("fg\n");
    terminal.shows("host");
    terminal.types("again\n");
    terminal.shows("got again");
    assert!(alive.somebody_is_left());
    terminal.types("end\n");
    // The terminal has sent it to each process of the group.
    terminal.shows("ints 51");
    terminal.types("echo code-$?\n");
    terminal.shows("code-7");
    alive.nobody_is_left();
    terminal.types("exit\n");
    let status = in_time(move || terminal.shell.wait());
    assert!(status.unwrap().success());
}

#[test]
fn nothing_of_a_host_is_left_after_its_terminal() {
    let mut alive = Alive::new();
    let mut terminal = agent(&alive);
    alive.ready(1);
    terminal.shell.kill().unwrap();
    // The last copy of the terminal's own end goes with the thread, whose read fails.
    drop(terminal.keys);
    alive.nobody_is_left();
    in_time(move || terminal.shell.wait()).unwrap();
}

/// A terminal that is closed signals the first process of its session alone.
#[test]
fn a_signal_to_a_host_reaches_its_program() {
    const PROGRAM: &str = r#"
import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(number, lambda number, _: exit(number))
print("up", flush=True)
signal.pause()
"#;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1] {
        for option in ["--grace=60s", "--keep=adb"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
            command.args(["host", option, "--", "python3", "-c", PROGRAM]);
            let mut host = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut up = [0; 3];
            host.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
            // SAFETY: it is a child that has not been waited for.
            assert_eq!(unsafe { libc::kill(host.id().cast_signed(), signal) }, 0);
            let status = in_time(move || host.wait()).unwrap();
            assert_eq!(status.code(), Some(signal), "{option} {status}");
        }
    }
}

#[test]
fn what_a_program_of_the_terminal_cannot_have_is_refused() {
    for (option, what) in [
        ("--lazy", "--lazy"),
        ("--restart", "--restart"),
        ("--group", "--group"),
        ("--require=pidns", "--require pidns"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
        let output = command.args(["host", option, "true"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(&format!("`host` has no {what}")), "{said}");
    }
}
