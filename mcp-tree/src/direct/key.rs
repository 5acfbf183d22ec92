//! The key of a command: a hash of everything that its server depends on. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Variables that differ between sessions of one host and do not matter to a server. Full names, as
/// a server may have variables with the same prefix.
const SESSION: &str = "_ PWD OLDPWD SHLVL COLUMNS LINES DISPLAY WAYLAND_DISPLAY XAUTHORITY WINDOWID DESKTOP_STARTUP_ID \
    XDG_ACTIVATION_TOKEN XDG_SESSION_ID XDG_VTNR DBUS_SESSION_BUS_ADDRESS INVOCATION_ID JOURNAL_STREAM MANAGERPID \
    SYSTEMD_EXEC_PID TERM TERMCAP COLORTERM TERM_PROGRAM TERM_PROGRAM_VERSION TERM_SESSION_ID TERMINAL_EMULATOR \
    GPG_TTY STY TMUX TMUX_PANE VTE_VERSION GNOME_TERMINAL_SCREEN GNOME_TERMINAL_SERVICE KONSOLE_DBUS_SESSION \
    KONSOLE_DBUS_WINDOW KITTY_PID KITTY_WINDOW_ID WEZTERM_PANE WEZTERM_UNIX_SOCKET ALACRITTY_SOCKET \
    ALACRITTY_WINDOW_ID ITERM_PROFILE ITERM_SESSION_ID SSH_AGENT_PID SSH_ASKPASS SSH_AUTH_SOCK SSH_CLIENT \
    SSH_CONNECTION SSH_ORIGINAL_COMMAND SSH_TTY VSCODE_AMD_ENTRYPOINT VSCODE_CODE_CACHE_PATH \
    VSCODE_CRASH_REPORTER_PROCESS_TYPE VSCODE_CWD VSCODE_ESM_ENTRYPOINT VSCODE_GIT_ASKPASS_EXTRA_ARGS \
    VSCODE_GIT_ASKPASS_MAIN VSCODE_GIT_ASKPASS_NODE VSCODE_GIT_IPC_HANDLE VSCODE_HANDLES_UNCAUGHT_ERRORS \
    VSCODE_INJECTION VSCODE_IPC_HOOK VSCODE_IPC_HOOK_CLI VSCODE_L10N_BUNDLE_LOCATION VSCODE_LOGS VSCODE_NLS_CONFIG \
    VSCODE_NONCE VSCODE_PID MCP_LIFECYCLE_ID CLAUDE_CODE_SESSION_ID CLAUDE_CODE_CHILD_NOTES_DIR \
    CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_MESSAGING_TOKEN";

/// Hashes a command with its directory and its environment, without the variables of a session.
pub fn specification(
    command: &[OsString],
    directory: &Path,
    env: &BTreeMap<OsString, OsString>,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |what: u8, text: &[u8]| {
        hash.update([what]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for word in command {
        add(1, word.as_bytes());
    }
    add(2, directory.as_os_str().as_bytes());
    for (name, value) in env.iter().filter(|(name, _)| !is_of_session(name)) {
        add(3, name.as_bytes());
        add(4, value.as_bytes());
    }
    hash.finalize().into()
}

pub(super) fn is_of_session(name: &OsStr) -> bool {
    SESSION.split_whitespace().any(|session| name == session)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a short hash of a word or value, to recognize it by.
pub(super) fn mark_of(text: &OsStr) -> String {
    hex(&Sha256::digest(text.as_bytes())[..8])
}
