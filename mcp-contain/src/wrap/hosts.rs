//! The hosts that are known, and where each keeps its servers. Data, and the rules to read it. Pure.

use std::path::{Path, PathBuf};

use super::format::{Format, Table};

/// A program that starts stdio MCP servers.
#[derive(Debug)]
pub(crate) struct Host {
    /// The word for `--host`.
    pub(crate) name: &'static str,
    /// Name by which people know it.
    pub(crate) title: &'static str,
    pub(crate) format: Format,
    /// The tables of servers in its files.
    pub(crate) tables: &'static [Table],
    /// Its files, each below a directory of the user.
    pub(crate) files: &'static [(Base, &'static str)],
    /// `true` for one that is started from a desktop, which has a short `PATH`.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nobody is examined")
    )]
    pub(crate) is_desktop: bool,
    /// Its files in a project's directory, which people share.
    pub(crate) project: &'static [&'static str],
}

/// A directory of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// `$HOME`, `%USERPROFILE%`.
    Home,
    /// Directory of settings: `$XDG_CONFIG_HOME` or `~/.config`, `~/Library/Application Support`,
    /// `%APPDATA%`.
    Settings,
    /// The same, but `~/.config` on macOS as well.
    Config,
    /// Value of this variable, where it is set.
    Variable(&'static str),
}

/// The kind of system, as far as it says where files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Unix,
    Mac,
    Windows,
}

impl System {
    /// The one that this program was built for.
    pub(crate) const HERE: Self = match () {
        () if cfg!(target_os = "macos") => Self::Mac,
        () if cfg!(windows) => Self::Windows,
        () => Self::Unix,
    };
}

const SERVERS: &[Table] = &[&["mcpServers"]];

/// Every host that is known.
pub(crate) const HOSTS: &[Host] = &[
    Host {
        name: "claude-desktop",
        title: "Claude Desktop",
        format: Format::Json,
        tables: SERVERS,
        files: &[(Base::Settings, "Claude/claude_desktop_config.json")],
        is_desktop: true,
        project: &[],
    },
    Host {
        name: "claude-code",
        title: "Claude Code",
        format: Format::Json,
        tables: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
        files: &[
            (Base::Home, ".claude.json"),
            (Base::Variable("CLAUDE_CONFIG_DIR"), ".claude.json"),
        ],
        is_desktop: false,
        project: &[".mcp.json"],
    },
    Host {
        name: "cursor",
        title: "Cursor",
        format: Format::Json,
        tables: SERVERS,
        files: &[(Base::Home, ".cursor/mcp.json")],
        is_desktop: true,
        project: &[".cursor/mcp.json"],
    },
    Host {
        name: "vscode",
        title: "VS Code",
        format: Format::Json,
        tables: &[&["servers"], &["mcp", "servers"]],
        files: &[
            (Base::Settings, "Code/User/mcp.json"),
            (Base::Settings, "Code/User/settings.json"),
            (Base::Settings, "Code - Insiders/User/mcp.json"),
            (Base::Settings, "Code - Insiders/User/settings.json"),
            (Base::Settings, "VSCodium/User/mcp.json"),
            (Base::Settings, "VSCodium/User/settings.json"),
        ],
        is_desktop: true,
        project: &[".vscode/mcp.json", ".vscode/settings.json"],
    },
    Host {
        name: "openclaw",
        title: "OpenClaw",
        format: Format::Json,
        tables: &[&["mcp", "servers"]],
        files: &[
            (Base::Home, ".openclaw/openclaw.json"),
            (Base::Variable("OPENCLAW_STATE_DIR"), "openclaw.json"),
            (Base::Variable("OPENCLAW_CONFIG_PATH"), ""),
        ],
        is_desktop: false,
        project: &[],
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
        is_desktop: false,
        project: &[".codex/config.toml"],
    },
    Host {
        name: "gemini",
        title: "Gemini CLI",
        format: Format::Json,
        tables: SERVERS,
        files: &[(Base::Home, ".gemini/settings.json")],
        is_desktop: false,
        project: &[".gemini/settings.json"],
    },
    Host {
        name: "windsurf",
        title: "Windsurf",
        format: Format::Json,
        tables: SERVERS,
        files: &[
            (Base::Home, ".codeium/windsurf/mcp_config.json"),
            (Base::Home, ".codeium/mcp_config.json"),
        ],
        is_desktop: true,
        project: &[],
    },
    Host {
        name: "zed",
        title: "Zed",
        format: Format::Json,
        tables: &[&["context_servers"]],
        files: &[(Base::Config, "zed/settings.json")],
        is_desktop: true,
        project: &[".zed/settings.json"],
    },
];

/// Every table of servers that any host has in a file of this format.
pub(crate) fn all_tables(format: Format) -> Vec<Table> {
    let hosts = HOSTS.iter().filter(|host| host.format == format);
    let mut tables: Vec<Table> = hosts.flat_map(|host| host.tables.iter().copied()).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

impl Host {
    /// The files in which this host may have servers of this user, most usual first.
    pub(crate) fn places(
        &self,
        system: System,
        variable: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Vec<PathBuf> {
        let place = |(base, below): &(Base, &str)| {
            let base = base.directory(system, variable)?;
            Some(match below.is_empty() {
                true => base,
                false => base.join(below),
            })
        };
        let mut places = Vec::new();
        for place in self.files.iter().filter_map(place) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// The files in which a project may have servers for this host.
    pub(crate) fn project_places(&self, project: &Path) -> Vec<PathBuf> {
        self.project.iter().map(|file| project.join(file)).collect()
    }
}

impl Base {
    fn directory(
        self,
        system: System,
        variable: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        let absolute = |name| variable(name).filter(|path| path.is_absolute());
        let home = || match system {
            System::Windows => absolute("USERPROFILE"),
            System::Unix | System::Mac => absolute("HOME"),
        };
        let config = || absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
        match (self, system) {
            (Self::Variable(name), _) => absolute(name),
            (Self::Home, _) => home(),
            (Self::Settings | Self::Config, System::Windows) => absolute("APPDATA"),
            (Self::Settings, System::Mac) => Some(home()?.join("Library/Application Support")),
            (Self::Settings | Self::Config, _) => config(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn places(name: &str, system: System, variables: &[(&str, &str)]) -> Vec<String> {
        let host = HOSTS.iter().find(|host| host.name == name).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let places = host.places(system, &variable);
        places
            .iter()
            .map(|place| place.display().to_string())
            .collect()
    }

    /// A path of another system is none here.
    #[cfg(unix)]
    #[test]
    fn each_system_has_its_own_places() {
        let home = [("HOME", "/home/u")];
        assert_eq!(
            places("claude-desktop", System::Unix, &home),
            ["/home/u/.config/Claude/claude_desktop_config.json"]
        );
        assert_eq!(
            places("claude-desktop", System::Mac, &home),
            ["/home/u/Library/Application Support/Claude/claude_desktop_config.json"]
        );
        assert_eq!(
            places("zed", System::Mac, &home),
            ["/home/u/.config/zed/settings.json"]
        );
        let xdg = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/cfg")];
        assert_eq!(
            places("zed", System::Unix, &xdg),
            ["/cfg/zed/settings.json"]
        );
        let relative = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "cfg")];
        assert_eq!(
            places("zed", System::Unix, &relative),
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
            places("codex", System::Unix, &variables),
            ["/home/u/.codex/config.toml", "/x/config.toml"]
        );
        assert_eq!(
            places("openclaw", System::Unix, &variables),
            ["/home/u/.openclaw/openclaw.json", "/o.json"]
        );
        assert_eq!(places("codex", System::Unix, &[]), [""; 0]);
    }

    #[test]
    fn names_are_words_and_occur_once() {
        let mut names: Vec<_> = HOSTS.iter().map(|host| host.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), HOSTS.len());
    }
}
