//! The paths that a server may write.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::options::Options;

/// The word for what servers usually write.
const DEFAULT: &str = "default";

/// Returns the paths that were given; `None` if there are none.
pub(super) fn listed(options: &Options) -> Result<Option<Vec<PathBuf>>, Failure> {
    let mut all = options.write.clone();
    all.retain(|path| path.as_os_str() != DEFAULT);
    if all.len() < options.write.len() {
        all.extend(usual(options.command.first().map(Path::new))?);
    }
    Ok((!options.write.is_empty()).then_some(all))
}

/// Returns the working directory, TMPDIR, and the directories of a runner, which are made if they
/// are missing.
fn usual(program: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let directory = env::current_dir().unwrap_or_default();
    let home = env::home_dir().unwrap_or_default();
    let is_whole = |home: PathBuf| home.starts_with(&directory);
    if home.canonicalize().map_or(true, is_whole) {
        let why = format_args!(
            "`--write {DEFAULT}` would be all of the working directory, `{}`: name directories instead",
            directory.display()
        );
        return Err(Failure::wrapper(why));
    }
    let under = |name, default: &str| {
        let named = env::var_os(name).map(PathBuf::from);
        named.unwrap_or_else(|| home.join(default))
    };
    let of_runner = match program.and_then(Path::file_name).and_then(OsStr::to_str) {
        Some("npx" | "npm") => vec![under("npm_config_cache", ".npm")],
        Some("uvx" | "uv") => vec![
            env::var_os("UV_CACHE_DIR").map_or_else(
                || under("XDG_CACHE_HOME", ".cache").join("uv"),
                PathBuf::from,
            ),
            under("XDG_DATA_HOME", ".local/share").join("uv"),
        ],
        _ => Vec::new(),
    };
    // Where that fails, the path is named as missing.
    of_runner.iter().for_each(|it| drop(fs::create_dir_all(it)));
    Ok([vec![directory, env::temp_dir()], of_runner].concat())
}
