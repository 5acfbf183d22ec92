//! The rows of the matrix: what each fixture does, and what it takes to end it.

use std::time::Duration;

use mcp_lifecycle_core::launch::Reach;
use mcp_lifecycle_core::terminate::TerminationPolicy;

/// One misbehaving server.
#[derive(Debug, Clone, Copy)]
pub struct Fixture {
    /// The name of the row.
    name: &'static str,
    /// The fixture's command line.
    args: &'static [&'static str],
    /// The roles that say hello. `burst-*` stands for all of a burst.
    roles: &'static [&'static str],
    /// The reach that a launcher needs to end all of it.
    needs: Reach,
    /// The messages that it must be sent before it misbehaves.
    pub(crate) script: Script,
    /// The word that its server reports once it does.
    pub(crate) tells: Option<&'static str>,
    /// The main process leaves at the end of stdin.
    leaves_at_eof: bool,
    /// Everything else of it leaves on SIGTERM.
    leaves_on_term: bool,
    /// Whether a client can start it.
    pub(crate) serves: Serves,
    /// `true` if it goes on reading stdin.
    pub(crate) reads: bool,
}

/// The messages that a fixture must be sent before it misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Nothing,
    Handshake,
    Call,
}

/// Whether a client can start a fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Yes,
    No,
    /// It depends on who is faster.
    Perhaps,
}

/// A fixture of one process that serves, and leaves when it is told to.
const POLITE: Fixture = Fixture {
    name: "plain",
    args: &["plain"],
    roles: &["server"],
    needs: Reach::Process,
    script: Script::Nothing,
    tells: None,
    leaves_at_eof: true,
    leaves_on_term: true,
    serves: Serves::Yes,
    reads: true,
};

/// The processes of a burst besides the server, as a number and as a word.
#[cfg(unix)]
const BURST: (usize, &str) = (199, "199");
/// Each is a start of a program here, and no fork.
#[cfg(windows)]
const BURST: (usize, &str) = (19, "19");

/// Every fixture, in the order of the rows.
pub(crate) const ALL: &[Fixture] = &[
    POLITE,
    Fixture {
        name: "ignore-eof",
        args: &["ignore-eof"],
        leaves_at_eof: false,
        ..POLITE
    },
    Fixture {
        name: "ignore-eof-term",
        args: &["ignore-eof-term"],
        leaves_at_eof: false,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "sh-wrapper",
        args: &["sh-wrapper"],
        roles: &["wrapper", "server"],
        needs: Reach::Group,
        ..POLITE
    },
    Fixture {
        name: "sh-wrapper-deaf",
        args: &["sh-wrapper", "--ignore-eof"],
        roles: &["wrapper", "server"],
        needs: Reach::Group,
        leaves_at_eof: false,
        ..POLITE
    },
    Fixture {
        name: "leader-exits-first",
        args: &["leader-exits-first"],
        roles: &["server", "helper"],
        needs: Reach::Group,
        serves: Serves::No,
        ..POLITE
    },
    Fixture {
        name: "helper",
        args: &["helper"],
        roles: &["server", "helper"],
        needs: Reach::Group,
        ..POLITE
    },
    Fixture {
        name: "setsid",
        args: &["setsid"],
        roles: &["server", "setsid"],
        needs: Reach::Marked,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "double-fork",
        args: &["double-fork"],
        roles: &["server", "daemon"],
        needs: Reach::Marked,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "wiped-env",
        args: &["wiped-env"],
        roles: &["server", "daemon", "wiped-env"],
        needs: Reach::Tree,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "sigstop",
        args: &["sigstop"],
        script: Script::Handshake,
        tells: Some("stopping"),
        leaves_at_eof: false,
        reads: false,
        ..POLITE
    },
    Fixture {
        name: "burst",
        args: &["burst", "--count", BURST.1],
        roles: &["server", "burst-*"],
        needs: Reach::Marked,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "colony",
        args: &["colony", "--count", "8", "--total", "200"],
        roles: &["server", "colony-0", "colony-7"],
        needs: Reach::Marked,
        leaves_on_term: false,
        ..POLITE
    },
    Fixture {
        name: "stderr-flood",
        args: &["stderr-flood"],
        script: Script::Handshake,
        ..POLITE
    },
    Fixture {
        name: "stdout-flood",
        args: &["stdout-flood"],
        script: Script::Handshake,
        ..POLITE
    },
    Fixture {
        name: "junk-stdout",
        args: &["junk-stdout"],
        ..POLITE
    },
    Fixture {
        name: "never-answers",
        args: &["never-answers"],
        script: Script::Handshake,
        tells: Some("unanswered"),
        serves: Serves::No,
        ..POLITE
    },
    Fixture {
        name: "never-reads-stdin",
        args: &["never-reads-stdin"],
        script: Script::Handshake,
        tells: Some("deaf"),
        leaves_at_eof: false,
        reads: false,
        ..POLITE
    },
    Fixture {
        name: "wrong-version",
        args: &["wrong-version"],
        script: Script::Handshake,
        serves: Serves::No,
        ..POLITE
    },
    Fixture {
        name: "exits-in-handshake",
        args: &["exits-during-handshake", "--stderr", "no licence"],
        script: Script::Handshake,
        serves: Serves::No,
        ..POLITE
    },
    Fixture {
        name: "handshake-then-exit",
        args: &["handshake-then-exit"],
        script: Script::Handshake,
        serves: Serves::Perhaps,
        ..POLITE
    },
    Fixture {
        name: "dies-mid-call",
        args: &["dies-mid-call"],
        script: Script::Call,
        ..POLITE
    },
    Fixture {
        name: "holds-stdout",
        args: &["holds-stdout"],
        roles: &["server", "holder"],
        needs: Reach::Group,
        script: Script::Call,
        ..POLITE
    },
    Fixture {
        name: "crash-loop",
        args: &["crash-loop", "--stderr", "cannot bind"],
        serves: Serves::No,
        ..POLITE
    },
];

impl Fixture {
    /// Every fixture, in the order of the rows.
    pub fn all() -> &'static [Self] {
        ALL
    }

    /// The fixture of this name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|fixture| fixture.name == name).copied()
    }

    /// The name of the row.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The reach that a launcher needs to end all of it.
    pub fn needs(&self) -> Reach {
        self.needs
    }

    /// A well-behaved server.
    pub(crate) fn plain() -> Self {
        POLITE
    }

    /// Its command line, without the observer's address.
    pub(crate) fn args(&self) -> &'static [&'static str] {
        self.args
    }

    /// Everybody who says hello.
    pub(crate) fn roles(&self) -> Vec<String> {
        let mut roles = Vec::new();
        for role in self.roles {
            match role.strip_suffix('*') {
                Some(prefix) => roles.extend((1..=BURST.0).map(|n| format!("{prefix}{n}"))),
                None => roles.push((*role).to_owned()),
            }
        }
        roles
    }

    /// Returns whether its main process exits by itself when the script was said.
    pub(crate) fn exits_on_call(&self) -> bool {
        self.script == Script::Call
    }

    /// The reason this system has no such server, if it has none.
    pub(crate) fn is_missing_here(&self) -> Option<&'static str> {
        match self.name {
            _ if cfg!(unix) => None,
            "sigstop" => Some("there is no signal that stops a process"),
            "colony" => Some("its members fork and share memory"),
            _ => None,
        }
    }

    /// Returns whether all of it hears of a request. On Windows nobody does whose leader has ended.
    fn is_asked(&self) -> bool {
        is_asked() && (cfg!(unix) || self.roles.len() == 1)
    }

    /// Graces that no verdict depends on: `limit`, never reached, where the
    /// fixture obeys; next to nothing where it is known to ignore.
    pub(crate) fn policy(&self, limit: Duration) -> TerminationPolicy {
        /// Long enough for a signal to arrive and to be ignored.
        const IGNORED: Duration = Duration::from_millis(50);
        let grace = |obeys: bool| if obeys { limit } else { IGNORED };
        TerminationPolicy::new()
            .eof_grace(grace(self.leaves_at_eof))
            .term_grace(grace(self.leaves_on_term && self.is_asked()))
            .kill_confirmation(limit)
    }
}

/// Returns whether a request reaches anybody: wine refuses CTRL_BREAK where the host has no terminal.
pub(crate) fn is_asked() -> bool {
    #[cfg(windows)]
    let is_asked = !crate::wine::is_here();
    #[cfg(unix)]
    let is_asked = true;
    is_asked
}
