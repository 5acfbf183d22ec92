//! Hosts that are real, as they come from their registries: the clients of the SDKs, codex and Claude Code. They end a server as they do when their
//! input ends, or are killed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::AliveListener;
use nix::unistd::Uid;

use crate::hosts::{DEADLINE, all_were_asked, hellos};
use crate::servers::Server;

/// A host that has started a server from its configuration, and ends when its input does.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// Its command. What begins with `@` is among the installed tools, what begins with `./` is beside this file.
    words: &'static [&'static str],
    config: Config,
    /// The words that it is told.
    says: &'static str,
    /// The words that it says when it has its server.
    is_up: &'static str,
    /// It ends the server's group by SIGINT at first.
    interrupts: bool,
}

/// Where a host has its servers from.
#[derive(Debug, Clone, Copy)]
enum Config {
    Arguments,
    /// `config.toml` in its home.
    Codex,
    /// `mcp.json` in its home, which an argument names.
    ClaudeCode,
}

/// The end of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Killed,
}

impl End {
    pub(crate) const ALL: [(&str, Self); 2] = [("closed", Self::Closed), ("killed", Self::Killed)];
}

const SDK: Client = Client {
    name: "",
    words: &[],
    config: Config::Arguments,
    says: "",
    is_up: "tools: ",
    interrupts: false,
};

impl Client {
    pub(crate) const ALL: &[Self] = &[
        Self {
            name: "real-typescript-sdk",
            words: &["node", "./host.mjs", "@npm/node_modules"],
            ..SDK
        },
        Self {
            name: "real-python-sdk",
            words: &["@python/bin/python", "./host.py"],
            ..SDK
        },
        Self {
            name: "real-codex",
            words: &["@codex/codex", "app-server"],
            config: Config::Codex,
            says: concat!(
                r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}"#,
                "\n",
                r#"{"method":"initialized"}"#,
                "\n",
                r#"{"id":1,"method":"thread/start","params":{}}"#,
                "\n",
            ),
            is_up: r#""status":"ready""#,
            ..SDK
        },
        Self {
            name: "real-claude-code",
            words: &[
                "@claude/node_modules/.bin/claude",
                "-p",
                "--input-format=stream-json",
                "--output-format=stream-json",
                "--verbose",
            ],
            config: Config::ClaudeCode,
            says: concat!(
                r#"{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}"#,
                "\n"
            ),
            is_up: r#""request_id":"1""#,
            interrupts: true,
        },
    ];

    /// The rows that this client can speak to. Programs of 200 MB are not started for all of them.
    pub(crate) fn servers(&self) -> &'static [&'static str] {
        match self.config {
            Config::Arguments => &[
                "plain",
                "ignore-eof",
                "ignore-eof-term",
                "sh-wrapper-deaf",
                "helper",
                "setsid",
                "double-fork",
                "wiped-env",
                "burst",
            ],
            Config::Codex | Config::ClaudeCode => {
                &["plain", "ignore-eof-term", "setsid", "wiped-env"]
            }
        }
    }

    /// Starts this server through the wrapper, and ends it as this client does.
    pub(crate) fn ends(&self, options: &[&str], end: End, server: &Server) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let listener = AliveListener::unix().map_err(failed)?;
        // Not a temporary directory by name: codex wants a home of its own.
        let home = tempfile::tempdir().map_err(failed)?;
        let mut wrapped = vec![env!("CARGO_BIN_EXE_mcp-contain").to_owned()];
        wrapped.extend(options.iter().map(|&word| word.to_owned()));
        let words = server.command(&listener.address());
        wrapped.extend(words.iter().map(|word| word.to_string_lossy().into_owned()));
        let host = Host::start(self, home.path(), &wrapped)?;
        let roles = hellos(&listener, server)?;
        host.is_up(self.is_up)?;
        let status = host.ended(end)?;
        if end == End::Closed && !status.success() {
            return Err(format!("the host failed: {status}"));
        }
        let dead = listener.block_on(listener.expect_all_dead(DEADLINE));
        dead.map_err(|error| error.to_string())?;
        let by_signal_only = server.always_asked.iter();
        let asked = server.asked.iter().filter(|_| !self.interrupts);
        all_were_asked(&roles, by_signal_only.chain(asked))
    }

    /// The command that starts it with this server.
    fn command(&self, home: &Path, server: &[String]) -> Result<Command, String> {
        let words = self.words.iter().map(|word| place(word));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let mut command = match self.config {
            Config::Arguments => Command::new(&words[0]),
            Config::Codex | Config::ClaudeCode => {
                // They would call home: there is no network.
                let mut command = Command::new("unshare");
                if !Uid::effective().is_root() {
                    command.arg("--map-root-user");
                }
                command.arg("--net").arg(&words[0]);
                command
            }
        };
        command.args(&words[1..]);
        let json = |value: &[String]| serde_json::Value::from(value).to_string();
        let (program, args) = (json(&server[..1]), json(&server[1..]));
        let program = &program[1..program.len() - 1];
        let (file, text) = match self.config {
            Config::Arguments => {
                command.args(server);
                return Ok(command);
            }
            Config::Codex => (
                "config.toml",
                format!(
                    "model = \"m\"\nmodel_provider = \"p\"\ncheck_for_update_on_startup = false\n\
                     [analytics]\nenabled = false\n[model_providers.p]\nname = \"p\"\n\
                     base_url = \"http://127.0.0.1:9/v1\"\n\
                     [mcp_servers.s]\ncommand = {program}\nargs = {args}\n"
                ),
            ),
            Config::ClaudeCode => (
                "mcp.json",
                format!(r#"{{"mcpServers":{{"s":{{"command":{program},"args":{args}}}}}}}"#),
            ),
        };
        fs::write(home.join(file), text).map_err(|error| error.to_string())?;
        if matches!(self.config, Config::ClaudeCode) {
            command.arg("--strict-mcp-config").arg("--mcp-config");
            command.arg(home.join(file));
        }
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("CODEX_HOME", home);
        command.env("CLAUDE_CONFIG_DIR", home);
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.env("DISABLE_AUTOUPDATER", "1").current_dir(home);
        Ok(command)
    }
}

/// A host that runs.
struct Host {
    child: Child,
    stdout: mpsc::Receiver<Vec<u8>>,
}

impl Host {
    fn start(client: &Client, home: &Path, server: &[String]) -> Result<Self, String> {
        let mut command = client.command(home, server)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = fs::File::create(home.join("stderr")).map_err(|error| error.to_string())?;
        let mut child = command
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", client.words[0]))?;
        let (sender, stdout) = mpsc::channel();
        if let Some(mut stream) = child.stdout.take() {
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    let _ = sender.send(buffer[..len].to_vec());
                }
            });
        }
        let host = Self { child, stdout };
        let said = host
            .child
            .stdin
            .as_ref()
            .map(|mut stdin| stdin.write_all(client.says.as_bytes()));
        match said {
            Some(Ok(())) => Ok(host),
            other => Err(format!("{}: {other:?}", client.name)),
        }
    }

    /// Waits for these words of it.
    fn is_up(&self, words: &str) -> Result<(), String> {
        let (end, mut seen) = (Instant::now() + DEADLINE, Vec::new());
        loop {
            let text = String::from_utf8_lossy(&seen);
            if text.contains(words) {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.stdout.recv_timeout(left) {
                Ok(bytes) => seen.extend(bytes),
                Err(error) => return Err(format!("the host says no {words:?} ({error}): {text}")),
            }
        }
    }

    fn ended(mut self, end: End) -> Result<std::process::ExitStatus, String> {
        match end {
            End::Closed => drop(self.child.stdin.take()),
            End::Killed => self.child.kill().map_err(|error| error.to_string())?,
        }
        let limit = Instant::now() + DEADLINE;
        while Instant::now() < limit {
            let status = self.child.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = status {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err("the host does not end".to_owned())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place(word: &str) -> Result<PathBuf, String> {
    if word.starts_with("./") {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ladders");
        return Ok(PathBuf::from(here).join(word));
    }
    let Some(tool) = word.strip_prefix('@') else {
        return Ok(word.into());
    };
    let home = std::env::var_os("MCP_LIFECYCLE_TEST_TOOLS").map(PathBuf::from);
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-tools");
    let path = home.unwrap_or_else(default).join(tool);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is missing; run tests/setup", path.display())),
    }
}
