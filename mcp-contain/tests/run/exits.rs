//! How the wrapper ends, and what it says: as its server, and nothing.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

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
        use std::os::unix::fs::PermissionsExt;
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
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
        let (status, said) = ended(&[program, "secret-argument"]);
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(
            said.starts_with("mcp-contain: ") && said.contains(text),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    let (status, said) = ended(&["--grace", "soon", "cat"]);
    assert_eq!(status.code(), Some(125), "{said}");
}

#[test]
fn the_servers_words_are_the_only_ones() {
    let (status, said) = ended(&["sh", "-c", "echo mine >&2; exit 3"]);
    assert_eq!((status.code(), &*said), (Some(3), "mine\n"));
}

#[test]
fn the_server_finds_itself_where_its_host_has_put_it() {
    let directory = tempfile::tempdir().unwrap();
    let script = "pwd -P; umask; echo \"$ONE.$MCP_LIFECYCLE_ID\" | cut -c1-4; ls /proc/self/fd | tr '\\n' ' '";
    let mut command = wrapped(&["--no-mark", "sh", "-c", script]);
    command
        .current_dir(&directory)
        .env_clear()
        .env("ONE", "two")
        .env("PATH", "/usr/bin:/bin");
    let mut server = Server::start(&mut command, Streams::Pipes);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut server.stdout, &mut said).unwrap();
    let mut lines = said.lines();
    let path = directory.path().canonicalize().unwrap();
    assert_eq!(lines.next(), path.to_str());
    lines.next();
    assert_eq!(
        lines.next(),
        Some("two."),
        "the variables, and with --no-mark no mark"
    );
    assert_eq!(
        lines.next().map(str::trim),
        Some("0 1 2 3"),
        "3 is the listing's own"
    );
    assert!(server.ended().0.success());
}
