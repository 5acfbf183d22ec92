//! The misbehaviours, one per subcommand.

#[cfg(unix)]
mod acts;
mod ending;
mod family;
mod output;
#[cfg(unix)]
mod swarm;

pub(crate) use output::{ON_STDERR, WHEN_ASKED};

use crate::program::args::Stage;
use crate::program::family::{linger, start_daemon, start_wiped_daemon};
use crate::program::message::Message;
use crate::program::serve::{Plain, serve};
use crate::program::{Context, exit};

/// Name and description of every shape, for the usage text.
const SHAPES: &[(&str, &str)] = &[
    ("plain", "none: it answers, and exits at the end of stdin"),
    ("ignore-eof", "stays at the end of stdin"),
    (
        "ignore-eof-term",
        "stays at the end of stdin, and on SIGTERM",
    ),
    (
        "slow-eof",
        "exits when the observer lets it, or after --linger-ms",
    ),
    ("sh-wrapper", "/bin/sh that runs the server as its child"),
    (
        "leader-exits-first",
        "exits at once, leaves a helper in the group",
    ),
    ("helper", "has a child in the group that outlives it"),
    (
        "setsid",
        "has a child in a session of its own, deaf to SIGTERM",
    ),
    (
        "headless",
        "has a child in a session of its own whose main thread has ended",
    ),
    ("double-fork", "has a daemon, all descriptors closed"),
    (
        "wiped-env",
        "has a daemon that re-executes with an empty environment",
    ),
    ("sigstop", "stops itself after the handshake"),
    (
        "burst",
        "has --count children, each in a session, deaf to SIGTERM",
    ),
    (
        "colony",
        "has --count descendants that replace each other, --total births",
    ),
    (
        "stderr-flood",
        "writes --bytes on stderr before it answers first",
    ),
    (
        "stdout-flood",
        "writes notifications and junk on stdout without end",
    ),
    ("junk-stdout", "prints junk before each answer"),
    ("oversized-line", "answers --at with a line of --bytes"),
    ("invalid-utf8", "answers --at with bytes that are not UTF-8"),
    ("invalid-json", "answers --at with half a message"),
    ("wrong-version", "offers a protocol version nobody knows"),
    ("never-answers", "reads and stays silent"),
    (
        "never-reads-stdin",
        "stops reading stdin --at handshake or after it",
    ),
    (
        "exits-during-handshake",
        "exits with --code and --stderr on the first request",
    ),
    ("handshake-then-exit", "exits once the handshake is done"),
    (
        "dies-mid-call",
        "exits with --code and half an answer on a call",
    ),
    ("holds-stdout", "dies mid-call, its child keeps stdout open"),
    (
        "crash-loop",
        "exits with --code and --stderr before it reads",
    ),
    (
        "acts",
        "does each --act in order, then serves: the attacks of the soak",
    ),
    (
        "report",
        "tells on standard output what was delivered to it: each --word, ...",
    ),
    ("linger", "no server: stays until killed"),
    (
        "foreign-namespace",
        "no server: holds a PID namespace that others may enter",
    ),
];

/// The subcommands and options, for people.
pub(crate) fn usage_text() -> String {
    let mut text = String::from("usage: mcp-fixture SHAPE [OPTION]...\n\n");
    for (name, what) in SHAPES {
        text.push_str(&format!("  {name:24}{what}\n"));
    }
    text.push_str(
        "\n  --alive unix:PATH|tcp:HOST:PORT  --role NAME  --era legacy|modern|both\
         \n  --ignore-eof  --ignore-term  --at handshake|call  --code N  --stderr TEXT\
         \n  --bytes N  --count N  --total N  --linger-ms N  --lifetime-s N\
         \n  --word TEXT...  --act ACT[:N]...  an ACT is one of: ",
    );
    #[cfg(unix)]
    text.push_str(&acts::names().join(" "));
    text
}

/// Runs the shape that the command line names.
pub(crate) fn run(context: Context) -> ! {
    #[cfg(windows)]
    crate::program::family::between(&context, &context.args.shape);
    match context.args.shape.clone().as_str() {
        "plain" | "ignore-eof" | "ignore-eof-term" => serve(context, &mut Plain),
        "slow-eof" => serve(context, &mut ending::SlowEof),
        #[cfg(unix)]
        "sigstop" => serve(context, &mut ending::Stops),
        "never-answers" => serve(context, &mut ending::NeverAnswers),
        "never-reads-stdin" => serve(context, &mut ending::NeverReads),
        "exits-during-handshake" => serve(context, &mut ending::ExitsDuringHandshake),
        "handshake-then-exit" => serve(context, &mut ending::ExitsAfterHandshake),
        "dies-mid-call" => serve(context, &mut ending::DiesMidCall),
        "crash-loop" => ending::complain_and_exit(&context),
        "sh-wrapper" => family::sh_wrapper(&context),
        "leader-exits-first" => family::leader_exits_first(&context),
        "helper" => family::helper(context),
        "setsid" => family::setsid(context),
        #[cfg(unix)]
        "headless" => family::headless(context),
        "holds-stdout" => family::holds_stdout(context),
        "double-fork" => {
            start_daemon(&context);
            serve(context, &mut Plain)
        }
        "wiped-env" => {
            start_wiped_daemon(&context);
            serve(context, &mut Plain)
        }
        "burst" => family::burst(context),
        #[cfg(unix)]
        "colony" => swarm::colony(context),
        "stderr-flood" => serve(context, &mut output::StderrFlood::default()),
        "stdout-flood" => serve(context, &mut output::StdoutFlood),
        "junk-stdout" => serve(context, &mut output::Junk),
        "oversized-line" => serve(context, &mut output::Malformed(output::oversized)),
        "invalid-utf8" => serve(context, &mut output::Malformed(output::invalid_utf8)),
        "invalid-json" => serve(context, &mut output::Malformed(output::invalid_json)),
        "report" => serve(context, &mut output::Report),
        "wrong-version" => serve(context, &mut output::WrongVersion),
        #[cfg(unix)]
        "acts" => acts::run(context),
        #[cfg(unix)]
        "foreign-namespace" => acts::foreign_namespace(&context),
        "linger" => linger(context.alive.as_ref()),
        unknown => exit::usage(&format!("unknown shape {unknown}")),
    }
}

impl Stage {
    /// Returns whether `message` is one that this stage spoils.
    fn is_reached_by(self, message: &Message) -> bool {
        match self {
            Self::Handshake => message.is_handshake(),
            Self::Call => message.tool().is_some(),
        }
    }
}
