//! Servers of Claude Code's plugins. An update replaces their files, so these are never changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use super::rewrite::Plugged;
use crate::show::text::one_line;

/// Lists the servers of this user's installed plugins.
pub(super) fn plugged() -> Vec<Plugged> {
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let usual = || env::var_os(home).map(|home| Path::new(&home).join(".claude"));
    let own = env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let list = own.or_else(usual).unwrap_or_default();
    let list = read(&list.join("plugins/installed_plugins.json"));
    let mut found = BTreeSet::new();
    for (plugin, copies) in list["plugins"].as_object().into_iter().flatten() {
        let roots = copies.as_array().into_iter().flatten();
        for root in roots.filter_map(|copy| copy["installPath"].as_str().map(Path::new)) {
            let inline = read(&root.join(".claude-plugin/plugin.json"))["mcpServers"].clone();
            let named = root.join(inline.as_str().unwrap_or(".mcp.json"));
            for file in [inline, read(&named), read(&root.join(".mcp.json"))] {
                let servers = file.get("mcpServers").unwrap_or(&file).as_object();
                for (name, server) in servers.into_iter().flatten() {
                    let args = server["args"].as_array().into_iter().flatten();
                    let words = std::iter::once(&server["command"]).chain(args);
                    let words = words.map(|word| word.as_str().map(str::to_owned));
                    let title = one_line(&format!("{plugin} › {name}"));
                    found.extend(words.collect::<Option<_>>().map(|words| (title, words)));
                }
            }
        }
    }
    found.into_iter().collect()
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
