//! Name by which people know a server, from the command line of its first process. Pure.
//!
//! No argument that may be a secret is part of it: the first word that names a package, a module, a
//! script or an image, and nothing after it. Where it is not certain which word that is, the program that
//! runs it has to do.

use super::runner::{Runner, Word};
use super::text::printable;

/// The name; `fallback` if the command line says nothing.
pub(crate) fn of(words: &[String], fallback: &str) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    plain(find(&words, fallback))
}

fn find<'a>(words: &[&'a str], fallback: &'a str) -> &'a str {
    let mut words = words.iter().copied();
    let mut last: Option<(&str, &Runner)> = None;
    let mut is_told = false;
    while let Some(word) = words.next() {
        let so_far = last.map_or(fallback, |(name, _)| name);
        let kind = match last {
            Some((_, shell)) if shell.is_shell() && word == "-c" => {
                return in_line(words.next().unwrap_or_default(), so_far);
            }
            Some((_, runner)) if runner.takes_variables() && word.contains('=') => Word::Skipped,
            Some((_, runner)) => runner.word(word),
            None => Word::Operand,
        };
        match (kind, Runner::find(base(word))) {
            (Word::Skipped, _) => {}
            // What looks like an option may be one.
            (Word::Valued, _) => {
                if words.next().is_some_and(|value| value.starts_with('-')) {
                    return so_far;
                }
            }
            (Word::Verb, _) if !is_told => is_told = !Runner::is_group(word),
            (Word::Operand, Some(runner)) => {
                (last, is_told) = (Some((base(word), runner)), false);
            }
            (Word::Operand, None) if !may_be_secret(word) => {
                return if word.starts_with('@') {
                    word
                } else {
                    base(word)
                };
            }
            (Word::Operand | Word::Verb | Word::Unknown, _) => return so_far,
        }
    }
    last.map_or(fallback, |(name, _)| name)
}

/// The program of a shell's line: its first word. `shell` if that may be part of something else.
fn in_line<'a>(line: &'a str, shell: &'a str) -> &'a str {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_before =
        |word: &&&str| is_assignment(word) && !word.contains(['\'', '"', '\\', '`', '$']);
    let before = words.iter().take_while(is_before).count();
    let (_, rest) = words.split_at(before);
    let rest = match rest {
        ["exec", rest @ ..] => rest,
        rest => rest,
    };
    match rest.first() {
        Some(first) if is_assignment(first) || first.contains(['\'', '"', '\\', '`', '$']) => shell,
        _ => find(rest, shell),
    }
}

/// Returns whether a shell takes it for a variable's value.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether a word that stands where a name is expected may hold a password: an address with
/// credentials, or a variable.
fn may_be_secret(word: &str) -> bool {
    let word = word.strip_prefix('@').unwrap_or(word);
    let (name, version) = word.split_once('@').unwrap_or((word, "1"));
    let is_tag = ["latest", "next", "beta", "alpha", "canary", "dev", "rc"].contains(&version)
        || version.starts_with("sha256:")
        || version.starts_with(|c: char| c.is_ascii_digit() || "^~v<>*".contains(c));
    let is_address = word.contains("://") || version.contains('@') || !is_tag;
    let first = word.split('/').next().unwrap_or(word);
    let is_variable = first.contains('=') || base(word).contains('=');
    is_address || is_variable || (name.contains(':') && word != name)
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
pub(crate) fn plain(name: &str) -> String {
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
            ("python3 -u -m mcp_server_git", "mcp_server_git"),
            ("npx -y thing@1.2.3", "thing@1.2.3"),
            ("npx @scope/thing@latest", "@scope/thing@latest"),
            ("docker run --rm reg.io:5000/a/img:2", "img:2"),
            ("mcp-contain --lazy --idle 10m -- npx thing", "thing"),
            ("deno run -A --env-file server.ts", "server.ts"),
            ("pnpm -w run thing", "thing"),
            ("npm --prefix /x exec -y thing", "thing"),
            ("uv tool run --from x thing", "thing"),
            ("docker container run --rm img", "img"),
            ("bun x --bun thing", "thing"),
            ("/a=b/run --key SECRET", "run"),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(of(&words, "?"), name, "{line}");
        }
        for (line, name) in [
            ("exec npx thing --token SECRET", "thing"),
            ("A=ab/SECRET npx thing", "thing"),
            ("A=ab/c exec npx thing", "thing"),
            ("A='x SECRET' npx thing", "sh"),
            ("A=$(cat SECRET) npx thing", "sh"),
            ("'/my things/SECRET run'", "sh"),
        ] {
            let shell = ["sh", "-c", line].map(str::to_owned);
            assert_eq!(of(&shell, "?"), name, "{line}");
        }
        assert_eq!(of(&["a\u{1b}[2Jb".to_owned()], "?"), "a·[2Jb");
    }

    #[test]
    fn nothing_that_may_be_a_secret() {
        for (line, name) in [
            ("env API_KEY=ab/SECRET npx thing", "thing"),
            ("env API-KEY=ab/SECRET /x=a/SECRET npx thing", "thing"),
            ("npx --registry https://user:SECRET@host pkg", "pkg"),
            ("npx --token SECRET pkg", "npx"),
            ("npx --token=SECRET pkg", "pkg"),
            ("npx https://user:SECRET@host/pkg", "npx"),
            ("npx git+https://SECRET@host/x/pkg", "npx"),
            ("npx user:SECRET@host", "npx"),
            ("npx SECRET@host.example", "npx"),
            (
                "uvx --index-url https://u:SECRET@host/simple thing",
                "thing",
            ),
            ("uvx --unheard-of SECRET thing", "uvx"),
            ("node --unheard-of SECRET x.js", "node"),
            ("docker run --unheard-of SECRET img", "docker"),
            ("docker -H tcp://u:SECRET@host run img", "docker"),
            ("python3 -c import/SECRET", "python3"),
            ("env -S A=x/SECRET", "env"),
            ("npx A-B=x/SECRET", "npx"),
            ("mcp-contain --unheard-of SECRET npx thing", "mcp-contain"),
            // What one program takes for an option with a value is a flag of another.
            ("deno run -r server.ts SECRET", "server.ts"),
            ("deno run --env-file server.ts SECRET", "server.ts"),
            ("deno run --import server.ts SECRET", "deno"),
            ("pnpm -w exec thing SECRET", "thing"),
            ("pnpm exec -p thing SECRET", "pnpm"),
            ("npm exec -p thing SECRET", "npm"),
            ("podman exec -l thing SECRET", "podman"),
            ("podman run --pull img SECRET", "podman"),
            ("bunx -p thing SECRET", "bunx"),
            ("uvx --spec SECRET thing", "uvx"),
            ("pipx run -p SECRET thing", "pipx"),
            ("npx --registry --cache SECRET thing", "npx"),
            // A program may be called as a verb of another is, or of its own.
            ("node run SECRET", "run"),
            ("npx exec SECRET", "exec"),
            ("uvx run SECRET", "run"),
            ("docker run run SECRET", "docker"),
            ("npm run exec SECRET", "npm"),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let said = of(&words, "?");
            assert_eq!(said, name, "{line}");
            assert!(!said.contains("SECRET"), "{line}");
        }
    }
}
