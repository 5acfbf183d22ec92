//! The rows: servers that misbehave in one way each.

use std::ffi::OsString;

/// The first messages of a client, to servers that misbehave once they are spoken to.
pub(crate) const WORDS: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
    "\n",
);

/// One misbehaving server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [&'static str],
    /// The processes that say hello.
    pub(crate) roles: &'static [&'static str],
    /// Those of them that do not leave before SIGTERM, unless SIGINT ends the server's group.
    pub(crate) asked: &'static [&'static str],
    /// Those that do not leave before SIGTERM in any case.
    pub(crate) always_asked: &'static [&'static str],
    /// Some of them leave the server's process group.
    pub(crate) leaves_group: bool,
    /// The word that its server says once it misbehaves.
    pub(crate) tells: Option<&'static str>,
}

impl Server {
    /// The command that starts it, with the address of its observer.
    pub(crate) fn command(&self, observer: &str) -> Vec<OsString> {
        let this = std::env::current_exe().expect("this program");
        let args = match self.args {
            [] => std::slice::from_ref(&self.name),
            args => args,
        };
        let observed = ["--alive", observer];
        let words = ["mcp-fixture"].iter().chain(args).chain(&observed);
        let words = words.map(OsString::from);
        [this.into_os_string()].into_iter().chain(words).collect()
    }
}

const fn row(name: &'static str, roles: &'static [&'static str]) -> Server {
    Server {
        name,
        args: &[],
        roles,
        asked: &[],
        always_asked: &[],
        leaves_group: false,
        tells: None,
    }
}

const SERVER: &[&str] = &["server"];

/// The fixtures of the kit, but for those that differ from others only in what a client makes of their words.
pub(crate) const ALL: &[Server] = &[
    row("plain", SERVER),
    Server {
        asked: SERVER,
        ..row("ignore-eof", SERVER)
    },
    Server {
        asked: SERVER,
        ..row("ignore-eof-term", SERVER)
    },
    row("sh-wrapper", &["wrapper", "server"]),
    Server {
        args: &["sh-wrapper", "--ignore-eof"],
        asked: SERVER,
        ..row("sh-wrapper-deaf", &["wrapper", "server"])
    },
    Server {
        // SIGINT reaches it while its leader is not reaped.
        asked: &["helper"],
        ..row("leader-exits-first", &["server", "helper"])
    },
    Server {
        asked: &["helper"],
        ..row("helper", &["server", "helper"])
    },
    Server {
        always_asked: &["setsid"],
        leaves_group: true,
        ..row("setsid", &["server", "setsid"])
    },
    Server {
        always_asked: &["daemon"],
        leaves_group: true,
        ..row("double-fork", &["server", "daemon"])
    },
    Server {
        // The daemon becomes it.
        always_asked: &["wiped-env"],
        leaves_group: true,
        ..row("wiped-env", &["server", "daemon", "wiped-env"])
    },
    Server {
        asked: SERVER,
        tells: Some("stopping"),
        ..row("sigstop", SERVER)
    },
    Server {
        args: &["burst", "--count", "60"],
        always_asked: &["burst-1", "burst-30", "burst-60"],
        leaves_group: true,
        ..row("burst", &["server", "burst-1", "burst-30", "burst-60"])
    },
    Server {
        args: &["colony", "--count", "8", "--total", "200"],
        leaves_group: true,
        ..row("colony", &["server", "colony-0", "colony-7"])
    },
    row("stderr-flood", SERVER),
    row("stdout-flood", SERVER),
    row("junk-stdout", SERVER),
    row("never-answers", SERVER),
    Server {
        asked: SERVER,
        tells: Some("deaf"),
        ..row("never-reads-stdin", SERVER)
    },
    Server {
        args: &["exits-during-handshake", "--stderr", "no licence"],
        ..row("exits-in-handshake", SERVER)
    },
    row("handshake-then-exit", SERVER),
    row("dies-mid-call", SERVER),
    row("holds-stdout", SERVER),
    Server {
        args: &["crash-loop", "--stderr", "cannot bind"],
        ..row("crash-loop", SERVER)
    },
];
