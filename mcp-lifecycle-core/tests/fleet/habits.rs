//! The habits of a fake server, by its arguments.

use mcp_lifecycle_core::launch::ServerSpec;

/// How a fake server behaves, from its arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    /// `--fetch MS`: how long the launcher takes to fetch what it needs, once.
    pub(crate) fetch: u64,
    /// `--slow MS`: how long the launch takes.
    pub(crate) slow: u64,
    /// `--fail`: the launch fails.
    pub(crate) fail: bool,
    /// `--silent`: never answers the handshake.
    pub(crate) silent: bool,
    /// `--die MS`: dies so long after the handshake.
    pub(crate) die: Option<u64>,
    /// `--deaf-to-eof`: does not leave at the end of its input.
    pub(crate) deaf: bool,
    /// `--unread`: reads nothing after the handshake.
    pub(crate) unread: bool,
    /// `--hush`: closes its output after the handshake, and stays.
    pub(crate) hush: bool,
    /// `--mute`: closes its output at once, and leaves at the end of its input.
    pub(crate) mute: bool,
    /// `--chatty LINES`: says so many lines on standard error, of 100 bytes each.
    pub(crate) chatty: u64,
    /// `--garbage LINES`: writes so many lines that are not the protocol, and nothing else.
    pub(crate) garbage: u64,
    /// `--asks`: asks the client for a sign of life.
    pub(crate) asks: bool,
    /// `--panic`: the launcher panics.
    pub(crate) panic: bool,
    /// `--stubborn`: only force ends it.
    pub(crate) stubborn: bool,
    /// `--immortal`: nothing ends it, until the launcher says so.
    pub(crate) immortal: bool,
}

pub(crate) fn habits(spec: &ServerSpec) -> Habits {
    let mut habits = Habits::default();
    let mut args = spec.args().iter().filter_map(|arg| arg.to_str());
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok()).unwrap_or_default();
        match arg {
            "--fetch" => habits.fetch = number(),
            "--slow" => habits.slow = number(),
            "--die" => habits.die = Some(number()),
            "--fail" => habits.fail = true,
            "--chatty" => habits.chatty = number(),
            "--garbage" => habits.garbage = number(),
            "--asks" => habits.asks = true,
            "--panic" => habits.panic = true,
            "--deaf-to-eof" => habits.deaf = true,
            "--unread" => habits.unread = true,
            "--hush" => habits.hush = true,
            "--mute" => habits.mute = true,
            "--silent" => habits.silent = true,
            "--stubborn" => habits.stubborn = true,
            "--immortal" => habits.immortal = true,
            _ => {}
        }
    }
    habits
}
