//! Decides whether a command line mentions a container engine. Pure.

use std::ffi::OsString;

/// Programs that create containers, and words in names of such packages.
const ENGINES: [&str; 4] = ["docker", "podman", "nerdctl", "testcontainers"];

/// Returns whether a word mentions a container engine: by itself, in a path, in a package name, or
/// in a shell script. A false match costs one idle process.
pub(super) fn names_an_engine(words: &[OsString]) -> bool {
    words.iter().any(|word| {
        let word = word.to_string_lossy().to_ascii_lowercase();
        word.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| ENGINES.contains(&part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> bool {
        names_an_engine(&line.split('|').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn an_engine_is_named_by_a_program_a_path_a_package_or_a_script() {
        for line in [
            "docker|run|-i|--rm|mcp/time",
            "/usr/bin/podman|run|x",
            "sh|-c|exec docker run -i x",
            "npx|-y|@ckreiling/mcp-server-docker",
            "uvx|docker-mcp",
            "docker-compose|run|x",
            "env|DOCKER=1|x",
        ] {
            assert!(names(line), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_one_names_none() {
        for line in [
            "npx|-y|@modelcontextprotocol/server-everything",
            "python3|-m|dockerless",
            "dockery",
            "",
        ] {
            assert!(!names(line), "{line}");
        }
    }
}
