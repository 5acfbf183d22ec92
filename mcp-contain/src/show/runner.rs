//! Programs that run other programs, and what stands between their name and that of the program. Pure.
//!
//! Programs share a list only where each of its words means the same to all of them: a value that is taken
//! for a program may be a secret, and so may the word after a flag that is taken for an option with a value.

/// One of them, or several that have the same. What is in none of its lists nobody knows: the next word may be its value.
#[derive(Debug)]
pub(crate) struct Runner {
    names: &'static [&'static str],
    /// Words that stand before the program.
    verbs: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static [&'static str],
}

/// Those of npm, which are also those of npx.
const NPM_FLAGS: &[&str] = &[
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "--ignore-scripts",
    "--no-install",
    "--offline",
    "--prefer-offline",
    "--prefer-online",
];

const PYTHON_FLAGS: &[&str] = &[
    "-m", "-u", "-B", "-E", "-I", "-O", "-OO", "-P", "-s", "-S", "-q",
];

/// Those of uv, which are also those of uvx.
const UV_FLAGS: &[&str] = &[
    "-m",
    "-n",
    "-q",
    "-v",
    "-U",
    "--frozen",
    "--isolated",
    "--locked",
    "--module",
    "--native-tls",
    "--no-cache",
    "--no-config",
    "--no-dev",
    "--no-progress",
    "--no-project",
    "--no-sync",
    "--offline",
    "--quiet",
    "--refresh",
    "--reinstall",
    "--script",
    "--upgrade",
    "--verbose",
];

const UV_VALUED: &[&str] = &[
    "-i",
    "-p",
    "--cache-dir",
    "--default-index",
    "--directory",
    "--env-file",
    "--extra",
    "--extra-index-url",
    "--from",
    "--group",
    "--index",
    "--index-url",
    "--project",
    "--python",
    "--with",
    "--with-editable",
    "--with-requirements",
];

/// Those of docker and podman that are the same before and after every verb.
const ENGINE_FLAGS: &[&str] = &[
    "-d",
    "-i",
    "-it",
    "-t",
    "-ti",
    "--detach",
    "--init",
    "--interactive",
    "--privileged",
    "--quiet",
    "--read-only",
    "--rm",
    "--tty",
];

const ENGINE_VALUED: &[&str] = &[
    "-c",
    "-e",
    "-h",
    "-m",
    "-p",
    "-u",
    "-v",
    "-w",
    "--add-host",
    "--cap-add",
    "--cap-drop",
    "--context",
    "--cpus",
    "--device",
    "--dns",
    "--entrypoint",
    "--env",
    "--env-file",
    "--gpus",
    "--host",
    "--hostname",
    "--ip",
    "--label",
    "--log-driver",
    "--log-opt",
    "--memory",
    "--mount",
    "--name",
    "--net",
    "--network",
    "--pids-limit",
    "--platform",
    "--publish",
    "--restart",
    "--runtime",
    "--security-opt",
    "--shm-size",
    "--stop-signal",
    "--stop-timeout",
    "--tmpfs",
    "--ulimit",
    "--user",
    "--userns",
    "--volume",
    "--workdir",
];

const RUNNERS: &[Runner] = &[
    Runner {
        names: &["node", "nodejs"],
        verbs: &[],
        flags: &[
            "--enable-source-maps",
            "--experimental-strip-types",
            "--inspect",
            "--no-deprecation",
            "--no-warnings",
            "--trace-warnings",
            "--watch",
        ],
        valued: &["-r", "--require", "--import", "--loader", "--env-file"],
    },
    Runner {
        names: &["bun"],
        verbs: &["run", "x"],
        flags: &["-b", "--bun", "--hot", "--silent", "--smol", "--watch"],
        valued: &["-r", "--preload"],
    },
    Runner {
        names: &["deno"],
        verbs: &["run"],
        // The values of these are part of them.
        flags: &[
            "-A",
            "-q",
            "-r",
            "--allow-all",
            "--allow-env",
            "--allow-net",
            "--allow-read",
            "--allow-run",
            "--allow-write",
            "--env-file",
            "--no-prompt",
            "--quiet",
            "--reload",
            "--watch",
        ],
        valued: &["-c", "--config", "--import-map"],
    },
    Runner {
        names: &["npx"],
        verbs: &[],
        flags: NPM_FLAGS,
        valued: &[
            "-p",
            "-w",
            "--cache",
            "--package",
            "--prefix",
            "--registry",
            "--userconfig",
            "--workspace",
        ],
    },
    Runner {
        names: &["npm"],
        verbs: &["exec", "run"],
        flags: NPM_FLAGS,
        valued: &[
            "-w",
            "--cache",
            "--package",
            "--prefix",
            "--registry",
            "--userconfig",
            "--workspace",
        ],
    },
    Runner {
        names: &["pnpm"],
        verbs: &["dlx", "exec", "run"],
        flags: &["-r", "-w", "--recursive", "--silent", "--workspace-root"],
        valued: &["-C", "--dir", "--package"],
    },
    Runner {
        names: &["yarn"],
        verbs: &["dlx", "exec", "run"],
        flags: &["--silent"],
        valued: &["--cwd", "--package"],
    },
    Runner {
        names: &["bunx"],
        verbs: &[],
        flags: &["-b", "-y", "--bun", "--no-install", "--silent", "--verbose"],
        valued: &[],
    },
    Runner {
        names: &["uv"],
        verbs: &["run", "tool"],
        flags: UV_FLAGS,
        valued: UV_VALUED,
    },
    Runner {
        names: &["uvx"],
        verbs: &[],
        flags: UV_FLAGS,
        valued: UV_VALUED,
    },
    Runner {
        names: &["pipx"],
        verbs: &["run"],
        flags: &["-q", "-v", "--no-cache", "--quiet", "--verbose"],
        valued: &["-i", "--index-url", "--python", "--spec"],
    },
    Runner {
        names: &["python", "python3"],
        verbs: &[],
        flags: PYTHON_FLAGS,
        valued: &["-W", "-X"],
    },
    Runner {
        names: &["docker", "podman"],
        verbs: &["container", "exec", "run"],
        flags: ENGINE_FLAGS,
        valued: ENGINE_VALUED,
    },
    Runner {
        names: &["sh", "bash", "dash"],
        verbs: &[],
        flags: &["-e", "-i", "-l", "-u", "-x", "--login", "--norc"],
        valued: &["-o"],
    },
    Runner {
        names: &["env"],
        verbs: &[],
        flags: &["-", "-i", "--ignore-environment"],
        valued: &["-C", "-u", "--chdir", "--unset"],
    },
    Runner {
        names: &["mcp-contain"],
        verbs: &["run"],
        flags: &["--containers", "--lazy", "--no-mark", "--restart"],
        valued: &[
            "--grace",
            "--idle",
            "--keep",
            "--log",
            "--memory",
            "--name",
            "--path",
            "--require",
        ],
    },
];

/// Stands before a word of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Neither a name nor followed by a value.
    Skipped,
    /// The next word is its value.
    Valued,
    /// Says what the runner does.
    Verb,
    /// An option that nobody knows.
    Unknown,
    /// A name, as far as its place tells.
    Operand,
}

impl Runner {
    /// The runner of this name, if it is one. Never a verb of this program.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let minor = name.strip_prefix("python3.");
        let name = match minor.is_some_and(|minor| minor.parse::<u8>().is_ok()) {
            true => "python3",
            false => name,
        };
        RUNNERS.iter().find(|runner| runner.names.contains(&name))
    }

    /// What one of its words is, before the program.
    pub(crate) fn word(&self, word: &str) -> Word {
        match () {
            // Its value, if it has one, is part of it.
            () if word.starts_with('-') && word.contains('=') => Word::Skipped,
            () if word == "--" || self.flags.contains(&word) => Word::Skipped,
            () if self.valued.contains(&word) => Word::Valued,
            () if word.starts_with('-') => Word::Unknown,
            () if self.verbs.contains(&word) => Word::Verb,
            () => Word::Operand,
        }
    }

    /// Returns whether another verb may follow this one.
    pub(crate) fn is_group(verb: &str) -> bool {
        ["container", "tool"].contains(&verb)
    }

    /// Returns whether it is a shell, which runs a line.
    pub(crate) fn is_shell(&self) -> bool {
        self.names.contains(&"sh")
    }

    /// Returns whether it takes variables before the program.
    pub(crate) fn takes_variables(&self) -> bool {
        self.names.contains(&"env")
    }
}

/// Returns whether it is a program that runs other things, and never a verb of this program.
pub(crate) fn is_runner(base: &str) -> bool {
    Runner::find(base).is_some()
}
