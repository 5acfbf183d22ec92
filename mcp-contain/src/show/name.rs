//! Derives a server's readable name from the command line of its first process. Pure.
//!
//! The name is the first word that names a package, a module, a script or an image, and nothing
//! after it, so that no secret argument is part of it. If that word is uncertain, the name is the
//! program that runs it.

use super::runner::{Runner, Word};
use super::text::one_line;

pub(crate) fn of(words: &[String], fallback: &str) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    plain(find(&words, fallback))
}

fn find<'a>(words: &[&'a str], fallback: &'a str) -> &'a str {
    let mut words = words.iter().copied();
    let mut last: Option<(&str, &Runner)> = None;
    let mut has_verb = false;
    while let Some(word) = words.next() {
        let so_far = last.map_or(fallback, |(name, _)| name);
        let kind = match last {
            Some((_, runner)) if runner.pairs(word) => {
                words.next();
                Word::Valued
            }
            Some((_, runner)) if runner.takes_variables() && word.contains('=') => Word::Skipped,
            Some((_, runner)) => runner.word(word),
            None => Word::Operand,
        };
        match (kind, Runner::find(base(word))) {
            (Word::Skipped, _) => {}
            // A value that looks like an option may be one.
            (Word::Valued, _) => {
                if words.next().is_some_and(|value| value.starts_with('-')) {
                    return so_far;
                }
            }
            (Word::Verb, _) if !has_verb => has_verb = !Runner::is_group(word),
            (Word::Operand, _) if !has_verb && last.is_some_and(|(_, it)| it.needs_verb()) => {
                return so_far;
            }
            (Word::Operand, Some(runner)) => {
                (last, has_verb) = (Some((base(word), runner)), false);
            }
            (Word::Operand, None) => {
                let own = own_part(word);
                return match () {
                    () if may_be_secret(own) => so_far,
                    () if own.starts_with('@') => own,
                    () => base(own),
                };
            }
            (Word::Verb | Word::Unknown, _) => return so_far,
        }
    }
    last.map_or(fallback, |(name, _)| name)
}

/// Returns whether a word in the place of a name may hold a password.
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

/// Returns the part of an absolute path that names the program or its package.
fn own_part(word: &str) -> &str {
    if word.contains("://") {
        return word;
    }
    if let Some((_, package)) = word.rsplit_once("node_modules/") {
        if let Some(program) = package.strip_prefix(".bin/") {
            return program;
        }
        let parts = 1 + usize::from(package.starts_with('@'));
        let end = package.match_indices('/').nth(parts - 1);
        return end.map_or(package, |(end, _)| &package[..end]);
    }
    match word.starts_with('/') {
        true => base(word),
        false => word,
    }
}

/// Removes directories. A script with a general name is named by its package.
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

pub(crate) fn plain(name: &str) -> String {
    one_line(name).chars().take(64).collect()
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
            ("mcp-contain host -- npx thing", "thing"),
            ("deno run -A server.ts", "server.ts"),
            ("npm --prefix /x exec -y thing", "thing"),
            ("uv tool run --from x thing", "thing"),
            ("docker container run --rm img", "img"),
            ("bun x --bun thing", "thing"),
            ("/a=b/run --key SECRET", "run"),
            (
                "node /home/u/.npm/_npx/1/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
                "@modelcontextprotocol/server-memory",
            ),
            (
                "node /usr/lib/node_modules/context7-mcp/build/run.mjs --api-key SECRET",
                "context7-mcp",
            ),
            ("node /srv/me@work/thing/dist/index.js", "thing"),
            ("bash /opt/start.sh SECRET", "start.sh"),
            (
                "bwrap --ro-bind / / --setenv KEY SECRET --dev /dev --unshare-pid -- npx -y thing",
                "thing",
            ),
            ("srt --settings /x/srt.json npx -y thing", "thing"),
            ("codex sandbox -c a=SECRET -- npx thing", "thing"),
            ("codex mcp-server", "codex"),
            ("nono run -s --allow SECRET -- npx thing", "thing"),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(of(&words, "?"), name, "{line}");
        }
        let shell = ["sh", "-c", "npx thing SECRET"].map(str::to_owned);
        assert_eq!(of(&shell, "?"), "sh");
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
            ("deno run -r server.ts SECRET", "deno"),
            ("deno run --env-file server.ts SECRET", "deno"),
            ("deno run --import server.ts SECRET", "deno"),
            ("pnpm -w exec thing SECRET", "pnpm"),
            ("pnpm exec -p thing SECRET", "pnpm"),
            ("npm exec -p thing SECRET", "npm"),
            ("podman exec -l thing SECRET", "podman"),
            ("podman run --pull img SECRET", "podman"),
            ("bunx -p thing SECRET", "bunx"),
            ("uvx --spec SECRET thing", "uvx"),
            ("bwrap --setenv KEY --SECRET thing", "bwrap"),
            ("srt -c SECRET", "srt"),
            ("nono run --credential SECRET thing", "nono"),
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
