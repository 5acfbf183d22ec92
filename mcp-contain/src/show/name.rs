//! What people call a server, by the command line of its first process. Pure.
//!
//! No argument that may be a secret is part of it: the first word that names a package, a module, a
//! script or an image, and nothing after it.

use super::text::printable;

/// Programs that run other things, which are more telling.
const RUNNERS: &[&str] = &[
    "npx",
    "npm",
    "pnpm",
    "yarn",
    "bunx",
    "bun",
    "node",
    "nodejs",
    "deno",
    "uv",
    "uvx",
    "pipx",
    "python",
    "python3",
    "docker",
    "podman",
    "sh",
    "bash",
    "dash",
    "env",
    "mcp-contain",
];

/// What runners do, between their name and that of what they run.
const VERBS: &[&str] = &["exec", "run", "tool", "dlx"];

/// Options of runners whose value is not the name of anything.
const VALUED: &[&str] = &[
    "-e",
    "-c",
    "--env",
    "-v",
    "--volume",
    "--mount",
    "--network",
    "--name",
    "--from",
    "--with",
    "--python",
    "-p",
    "--package",
    "--directory",
    "--project",
    "-w",
    "-u",
    "--grace",
    "--path",
    "--memory",
    "--require",
    "--keep",
    "--log",
];

/// The name; `fallback` if the command line says nothing.
pub(crate) fn of(words: &[String], fallback: &str) -> String {
    let mut words = words.iter().map(String::as_str);
    let mut last = None;
    while let Some(word) = words.next() {
        let base = base(word);
        match () {
            // A shell's line: its first word is the program.
            () if word == "-c" && matches!(last, Some("sh" | "bash" | "dash")) => {
                let line: Vec<String> = words
                    .next()
                    .unwrap_or_default()
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect();
                return of(&line, last.unwrap_or(fallback));
            }
            () if VALUED.contains(&word) => drop(words.next()),
            () if word.starts_with('-') || (word.contains('=') && !word.contains('/')) => {}
            () if (last.is_some() || word == "exec") && VERBS.contains(&word) => {}
            () if is_runner(base) => last = Some(base),
            () => return plain(if word.starts_with('@') { word } else { base }),
        }
    }
    plain(last.unwrap_or(fallback))
}

/// Returns whether it is a program that runs other things, and never a verb of this program.
pub(crate) fn is_runner(base: &str) -> bool {
    RUNNERS.contains(&base)
        || base
            .strip_prefix("python3.")
            .is_some_and(|minor| minor.parse::<u8>().is_ok())
}

/// Without the directories; of a script with a general name, the package that it is in.
fn base(word: &str) -> &str {
    let mut parts = word.trim_end_matches('/').rsplit('/');
    let last = parts.next().unwrap_or(word);
    let is_general = [
        "index.js",
        "cli.js",
        "main.js",
        "server.js",
        "main.py",
        "server.py",
        "index.mjs",
        "cli.mjs",
    ]
    .contains(&last);
    let inner = ["dist", "build", "bin", "src", "lib", "out"];
    match is_general {
        true => parts
            .find(|part| !inner.contains(part) && !part.is_empty())
            .unwrap_or(last),
        false => last,
    }
}

/// Without what a terminal would obey, and not endless.
fn plain(name: &str) -> String {
    printable(name).chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_the_module_the_script_or_the_image() {
        for (line, name) in [
            (
                "npx -y @modelcontextprotocol/server-everything stdio",
                "@modelcontextprotocol/server-everything",
            ),
            (
                "/usr/bin/node /home/u/.npm/_npx/1/node_modules/.bin/mcp-server-x",
                "mcp-server-x",
            ),
            ("node /opt/thing/dist/index.js --token=SECRET", "thing"),
            (
                "uvx --from git+https://x mcp-server-time",
                "mcp-server-time",
            ),
            ("python3.12 -m mcp_server_fetch", "mcp_server_fetch"),
            ("docker run -i --rm -e TOKEN=SECRET mcp/github", "github"),
            ("env TOKEN=SECRET npx thing", "thing"),
            ("/opt/server/run --key SECRET", "run"),
            ("python3", "python3"),
            ("", "?"),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(of(&words, "?"), name, "{line}");
        }
        let shell = [
            "sh".to_owned(),
            "-c".to_owned(),
            "exec npx thing --token SECRET".to_owned(),
        ];
        assert_eq!(of(&shell, "?"), "thing");
        assert_eq!(of(&["a\u{1b}[2Jb".to_owned()], "?"), "a·[2Jb");
    }
}
