//! Programs that run other programs, and the words between their name and the program's. Pure.
//!
//! Programs share a list only if each of its words means the same to all of them: a value that is
//! taken for a program may be a secret, and so may the word after a flag that is taken for an
//! option with a value. Only usual words are listed: at any other option, the name stays that of
//! the runner.

/// A runner, or several with equal lists, each of words with a space between them.
#[derive(Debug)]
pub(crate) struct Runner {
    names: &'static str,
    verbs: &'static str,
    flags: &'static str,
    /// Options with the next word as their value.
    valued: &'static str,
}

const NODE_FLAGS: &str = "--enable-source-maps --no-deprecation --no-warnings --trace-warnings";

const NPM_FLAGS: &str = "-y --yes -q --quiet --silent --offline --prefer-offline --prefer-online";

const NPM_VALUED: &str = "--cache --prefix --registry";

const PYTHON_FLAGS: &str = "-m -u -B -E -I -O -OO -P -s -S -q";

const UV_FLAGS: &str = "-n -q -U --frozen --isolated --locked --no-cache --no-config --no-progress \
    --no-project --offline --quiet --refresh --upgrade";

const UV_VALUED: &str = "--cache-dir --default-index --directory --env-file --extra-index-url --from \
    --index --index-url --project --python --with --with-editable --with-requirements";

/// Flags of docker and podman that mean the same before and after every verb.
const ENGINE_FLAGS: &str =
    "-d -i -it -t -ti --detach --init --interactive --privileged --read-only --rm --tty";

const ENGINE_VALUED: &str = "-e -m -p -u -v -w --add-host --cap-add --cap-drop --cpus --entrypoint --env \
    --env-file --gpus --hostname --label --memory --mount --name --net --network --platform --publish \
    --security-opt --user --volume --workdir";

const BWRAP_FLAGS: &str = "--as-pid-1 --clearenv --die-with-parent --new-session --share-net --unshare-all \
    --unshare-cgroup --unshare-ipc --unshare-net --unshare-pid --unshare-user --unshare-uts";

const BWRAP_VALUED: &str = "--cap-add --cap-drop --chdir --dev --dir --gid --hostname --perms --proc --seccomp \
    --tmpfs --uid --unsetenv";

const NONO_VALUED: &str = "-a -p -r -w --allow --profile --read --workdir --write";

const RUNNERS: &[Runner] = &[
    runner("node nodejs", "", NODE_FLAGS, "-r --require --import"),
    runner("bun", "run x", "--bun --silent", ""),
    runner(
        "deno",
        "run",
        "-A -q --allow-all --quiet",
        "--config --import-map",
    ),
    runner("npx", "", NPM_FLAGS, NPM_VALUED),
    runner("npm", "exec run", NPM_FLAGS, NPM_VALUED),
    runner("pnpm yarn", "dlx exec run", "--silent", ""),
    runner("bunx", "", "-y --bun --silent", ""),
    runner("uv", "run tool", UV_FLAGS, UV_VALUED),
    runner("uvx", "", UV_FLAGS, UV_VALUED),
    runner("pipx", "run", "-q --quiet", "--index-url --python --spec"),
    runner("python python3", "", PYTHON_FLAGS, "-W -X"),
    runner(
        "docker podman",
        "container exec run",
        ENGINE_FLAGS,
        ENGINE_VALUED,
    ),
    runner("bwrap", "", BWRAP_FLAGS, BWRAP_VALUED),
    runner("srt", "", "-d --debug", "-s --settings"),
    runner("nono", "run", "-s --allow-cwd --silent", NONO_VALUED),
    runner("codex", "sandbox", "", "-C -c --cd --config --profile"),
    runner("sh bash dash", "", "-e -i -l -u -x --login", "-o"),
    runner(
        "env",
        "",
        "- -i --ignore-environment",
        "-C -u --chdir --unset",
    ),
    runner(
        "mcp-contain",
        "run host",
        "--containers --exclusive --hardened --lazy --no-direct --no-mark --restart",
        "--cpus --direct-age --grace --idle --keep --log --memory --name --path --pids --report --require --watch --write",
    ),
];

const fn runner(
    names: &'static str,
    verbs: &'static str,
    flags: &'static str,
    valued: &'static str,
) -> Runner {
    Runner {
        names,
        verbs,
        flags,
        valued,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Skipped,
    Valued,
    Verb,
    Unknown,
    /// Probably a name.
    Operand,
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|it| it == word)
}

impl Runner {
    /// Returns the runner of this name, if any. Never a verb of this program.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let minor = name.strip_prefix("python3.");
        let name = match minor.is_some_and(|minor| minor.parse::<u8>().is_ok()) {
            true => "python3",
            false => name,
        };
        RUNNERS.iter().find(|runner| has(runner.names, name))
    }

    pub(crate) fn word(&self, word: &str) -> Word {
        match () {
            // Its value, if any, is part of it.
            () if word.starts_with('-') && word.contains('=') => Word::Skipped,
            () if word == "--" || has(self.flags, word) => Word::Skipped,
            () if has(self.valued, word) => Word::Valued,
            () if word.starts_with('-') => Word::Unknown,
            () if has(self.verbs, word) => Word::Verb,
            () => Word::Operand,
        }
    }

    /// Returns whether another verb may follow this one.
    pub(crate) fn is_group(verb: &str) -> bool {
        ["container", "tool"].contains(&verb)
    }

    /// Returns whether this option has two values.
    pub(crate) fn pairs(&self, word: &str) -> bool {
        const PAIRS: &str = "--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --setenv --symlink";
        has(self.names, "bwrap") && has(PAIRS, word)
    }

    /// Returns whether it is a program of its own without a verb.
    pub(crate) fn needs_verb(&self) -> bool {
        has(self.names, "codex")
    }

    /// Returns whether it accepts variables before the program.
    pub(crate) fn takes_variables(&self) -> bool {
        has(self.names, "env")
    }
}

pub(crate) fn is_runner(base: &str) -> bool {
    Runner::find(base).is_some()
}
