//! The known hosts and the places of their servers. Data, and rules to read it. Pure.

use std::path::PathBuf;

use mcp_lifecycle_core::document::Format;

use super::format::Table;

#[derive(Debug)]
pub(crate) struct Host {
    /// The value for `--host`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) format: Format,
    pub(crate) tables: &'static [Table],
    /// Its files, each below a directory of the user.
    pub(crate) files: &'static [(Base, &'static str)],
    /// Its files in a project's directory, which people share.
    pub(crate) project: &'static [&'static str],
    /// It starts the servers of Claude Code's plugins, but none that equals a configured one.
    pub(crate) has_plugins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// `$HOME`, `%USERPROFILE%`.
    Home,
    /// The settings directory: `$XDG_CONFIG_HOME` or `~/.config`, `%APPDATA%`.
    Settings,
    /// The value of this variable, if set.
    Variable(&'static str),
}

const SERVERS: &[Table] = &[&["mcpServers"]];

const HOST: Host = Host {
    name: "",
    title: "",
    format: Format::Json,
    tables: SERVERS,
    files: &[],
    project: &[],
    has_plugins: false,
};

pub(crate) const HOSTS: &[Host] = &[
    Host {
        name: "claude-desktop",
        title: "Claude Desktop",
        files: &[(Base::Settings, "Claude/claude_desktop_config.json")],
        ..HOST
    },
    Host {
        name: "claude-code",
        title: "Claude Code",
        tables: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
        files: &[
            (Base::Home, ".claude.json"),
            (Base::Variable("CLAUDE_CONFIG_DIR"), ".claude.json"),
        ],
        project: &[".mcp.json"],
        has_plugins: true,
        ..HOST
    },
    Host {
        name: "cursor",
        title: "Cursor",
        files: &[(Base::Home, ".cursor/mcp.json")],
        project: &[".cursor/mcp.json"],
        ..HOST
    },
    Host {
        name: "vscode",
        title: "VS Code",
        tables: &[&["servers"], &["mcp", "servers"]],
        files: &[
            (Base::Settings, "Code/User/mcp.json"),
            (Base::Settings, "Code/User/settings.json"),
            (Base::Settings, "Code - Insiders/User/mcp.json"),
            (Base::Settings, "Code - Insiders/User/settings.json"),
            (Base::Settings, "VSCodium/User/mcp.json"),
            (Base::Settings, "VSCodium/User/settings.json"),
        ],
        project: &[".vscode/mcp.json", ".vscode/settings.json"],
        ..HOST
    },
    Host {
        name: "openclaw",
        title: "OpenClaw",
        tables: &[&["mcp", "servers"]],
        files: &[
            (Base::Home, ".openclaw/openclaw.json"),
            (Base::Variable("OPENCLAW_STATE_DIR"), "openclaw.json"),
            (Base::Variable("OPENCLAW_CONFIG_PATH"), ""),
        ],
        ..HOST
    },
    Host {
        name: "codex",
        title: "Codex",
        format: Format::Toml,
        tables: &[&["mcp_servers"]],
        files: &[
            (Base::Home, ".codex/config.toml"),
            (Base::Variable("CODEX_HOME"), "config.toml"),
        ],
        project: &[".codex/config.toml"],
        ..HOST
    },
    Host {
        name: "gemini",
        title: "Gemini CLI",
        files: &[(Base::Home, ".gemini/settings.json")],
        project: &[".gemini/settings.json"],
        ..HOST
    },
    Host {
        name: "windsurf",
        title: "Windsurf",
        files: &[
            (Base::Home, ".codeium/windsurf/mcp_config.json"),
            (Base::Home, ".codeium/mcp_config.json"),
        ],
        ..HOST
    },
    Host {
        name: "zed",
        title: "Zed",
        tables: &[&["context_servers"], &["agent_servers"]],
        files: &[(Base::Settings, "zed/settings.json")],
        project: &[".zed/settings.json"],
        ..HOST
    },
    Host {
        name: "opencode",
        title: "opencode",
        tables: &[&["mcp"]],
        files: &[
            (Base::Settings, "opencode/opencode.json"),
            (Base::Settings, "opencode/opencode.jsonc"),
            (Base::Variable("OPENCODE_CONFIG"), ""),
        ],
        project: &["opencode.json", "opencode.jsonc"],
        ..HOST
    },
    Host {
        name: "qwen",
        title: "Qwen Code",
        files: &[(Base::Home, ".qwen/settings.json")],
        project: &[".qwen/settings.json"],
        ..HOST
    },
    Host {
        name: "mcporter",
        title: "mcporter",
        files: &[
            (Base::Home, ".mcporter/mcporter.json"),
            (Base::Home, ".mcporter/mcporter.jsonc"),
            (Base::Variable("MCPORTER_CONFIG"), ""),
        ],
        project: &["config/mcporter.json"],
        ..HOST
    },
];

pub(crate) fn all_tables(format: Format) -> Vec<Table> {
    let hosts = HOSTS.iter().filter(|host| host.format == format);
    let mut tables: Vec<Table> = hosts.flat_map(|host| host.tables.iter().copied()).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

impl Host {
    /// Lists the files in which this host may have this user's servers, most usual first.
    pub(crate) fn places(
        &self,
        is_windows: bool,
        variable: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Vec<PathBuf> {
        let place = |(base, below): &(Base, &str)| {
            let base = base.directory(is_windows, variable)?;
            Some(match below.is_empty() {
                true => base,
                false => base.join(below),
            })
        };
        self.files.iter().filter_map(place).collect()
    }
}

impl Base {
    fn directory(
        self,
        is_windows: bool,
        variable: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        let absolute = |name| variable(name).filter(|path| path.is_absolute());
        match (self, is_windows) {
            (Self::Variable(name), _) => absolute(name),
            (Self::Home, true) => absolute("USERPROFILE"),
            (Self::Home, false) => absolute("HOME"),
            (Self::Settings, true) => absolute("APPDATA"),
            (Self::Settings, false) => {
                absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn places(name: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let host = HOSTS.iter().find(|host| host.name == name).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let places = host.places(false, &variable);
        places
            .iter()
            .map(|place| place.display().to_string())
            .collect()
    }

    /// A path of another system is none here.
    #[cfg(unix)]
    #[test]
    fn settings_are_where_the_user_has_them() {
        let home = [("HOME", "/home/u")];
        assert_eq!(
            places("claude-desktop", &home),
            ["/home/u/.config/Claude/claude_desktop_config.json"]
        );
        let xdg = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/cfg")];
        assert_eq!(places("zed", &xdg), ["/cfg/zed/settings.json"]);
        let relative = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "cfg")];
        assert_eq!(
            places("zed", &relative),
            ["/home/u/.config/zed/settings.json"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_of_a_host_adds_a_place() {
        let variables = [
            ("HOME", "/home/u"),
            ("CODEX_HOME", "/x"),
            ("OPENCLAW_CONFIG_PATH", "/o.json"),
        ];
        assert_eq!(
            places("codex", &variables),
            ["/home/u/.codex/config.toml", "/x/config.toml"]
        );
        assert_eq!(
            places("openclaw", &variables),
            ["/home/u/.openclaw/openclaw.json", "/o.json"]
        );
        assert_eq!(places("codex", &[]), [""; 0]);
    }

    #[test]
    fn names_are_words_and_occur_once() {
        let mut names: Vec<_> = HOSTS.iter().map(|host| host.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), HOSTS.len());
    }
}
