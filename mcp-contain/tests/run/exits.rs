//! How the wrapper ends, and what it says: as its server, and nothing.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use mcp_lifecycle_conformance::copies::script;

use crate::host::{BOTH, Server, Streams, wrapped};

fn ended(words: &[&str]) -> (ExitStatus, String) {
    Server::start(&mut wrapped(words), Streams::Pipes).ended()
}

#[test]
fn the_exit_code_is_the_servers_and_nothing_is_said() {
    for code in [0, 1, 7, 125, 255] {
        for streams in BOTH {
            let script = format!("exit {code}");
            let server = Server::start(&mut wrapped(&["sh", "-c", &script]), streams);
            let (status, said) = server.ended();
            assert_eq!((status.code(), &*said), (Some(code), ""));
        }
    }
}

#[test]
fn a_signal_that_ends_the_server_ends_the_wrapper() {
    for signal in [
        "HUP", "INT", "QUIT", "KILL", "SEGV", "TERM", "USR1", "RTMIN",
    ] {
        let (status, said) = ended(&["sh", "-c", &format!("kill -{signal} $$")]);
        let number = match signal {
            "RTMIN" => nix::libc::SIGRTMIN(),
            name => format!("SIG{name}")
                .parse::<nix::sys::signal::Signal>()
                .unwrap() as i32,
        };
        assert_eq!((status.signal(), &*said), (Some(number), ""), "{signal}");
        assert!(!status.core_dumped());
    }
}

#[test]
fn who_was_not_started_has_the_codes_of_env_and_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        script(&path, text, mode).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let missing = directory.path().join("missing").display().to_string();
    for (program, code, text) in [
        ("no-such-program-at-all", 127, "was not found in PATH"),
        (&*missing, 127, "no file at"),
        (
            &*directory.path().display().to_string(),
            126,
            "is a directory",
        ),
        (&*file("plain", "text", 0o644), 126, "is not executable"),
        (
            &*file("script", "#!/no/such/interpreter\n", 0o755),
            126,
            "its first line",
        ),
        (
            &*file("binary", "\x7fELF, or nearly", 0o755),
            126,
            "is not executable",
        ),
    ] {
        if program.ends_with("/binary") && !crate::LEVEL.is_empty() {
            // `execvp` gives it to a shell.
            continue;
        }
        let (status, said) = ended(&[program, "secret-argument"]);
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(
            said.starts_with("mcp-contain: ") && said.contains(text),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    let (status, said) = ended(&["wrpa", "secret-argument"]);
    assert_eq!(status.code(), Some(127), "{said}");
    assert!(said.contains("did you mean `mcp-contain wrap`?"), "{said}");
    let (status, said) = ended(&["--grace", "soon", "cat"]);
    assert_eq!(status.code(), Some(125), "{said}");
}

#[test]
fn a_script_without_a_first_line_is_run_by_a_shell_as_by_execvp() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    script(&path, "[ \"$1\" = 'a b' ] && exit 9\n", 0o755).unwrap();
    let (status, said) = ended(&[path.to_str().unwrap(), "a b"]);
    assert_eq!((status.code(), &*said), (Some(9), ""));
}

#[test]
fn the_servers_words_are_the_only_ones() {
    let (status, said) = ended(&["sh", "-c", "echo mine >&2; exit 3"]);
    assert_eq!((status.code(), &*said), (Some(3), "mine\n"));
}

#[test]
fn the_server_finds_itself_where_its_host_has_put_it() {
    let directory = tempfile::tempdir().unwrap();
    // What a host leaks: without the wrapper it would be there.
    let leaked = nix::fcntl::fcntl(std::io::stdin(), nix::fcntl::FcntlArg::F_DUPFD(100)).unwrap();
    let script = format!(
        "pwd -P; umask; env | sort | grep -v '^_='; [ -e /proc/self/fd/{leaked} ] && echo leaked"
    );
    let said = |mut command: std::process::Command| {
        command.current_dir(&directory).env_clear().envs([
            ("ONE", "two"),
            ("PATH", "/usr/bin:/bin"),
            ("EMPTY", ""),
        ]);
        let mut server = Server::start(&mut command, Streams::Pipes);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut server.stdout, &mut said).unwrap();
        server.ended();
        said
    };
    let words = ["sh", "-c", &script];
    let bare = said(crate::host::bare(&words));
    assert_eq!(bare.lines().last(), Some("leaked"));
    let wrapped = said(wrapped(&[&["--no-mark"], &words[..]].concat()));
    assert_eq!(format!("{wrapped}leaked\n"), bare);
}
