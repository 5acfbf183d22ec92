//! Survey of what is wrapped and what is not, in the files of all hosts. Nothing is changed.

use std::env;
use std::path::{Path, PathBuf};

use super::entry::{Args, Entry, Skip};
use super::file::Document;
use super::find;
use super::hosts::Host;

/// One file that is there.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) host: &'static Host,
    pub(crate) path: PathBuf,
    /// Program that it starts, or why that cannot be told.
    pub(crate) servers: Result<Vec<Server>, String>,
}

/// One server that is started by a command.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) title: String,
    pub(crate) is_wrapped: bool,
    /// The server's own program, also of one that is wrapped; empty where that cannot be told.
    pub(crate) program: String,
}

/// Looks at the files of all hosts, and at those of the project in this directory.
pub(crate) fn survey() -> Vec<Survey> {
    let project = env::current_dir().ok();
    let places = find::places(&[], project.as_deref()).into_iter();
    let found = places.filter_map(|place| {
        let host = place.host?;
        let entries = match Document::read(&place.path) {
            Ok(None) => return None,
            Ok(Some(document)) => {
                let text = document.text().trim_start_matches('\u{feff}');
                let entries = place.format.entries(text, &place.tables);
                entries.map_err(|why| format!("cannot be understood: {why}"))
            }
            Err(error) => Err(error.to_string()),
        };
        let servers = entries.map(|entries| entries.iter().filter_map(server).collect());
        Some(Survey {
            host,
            path: place.path,
            servers,
        })
    });
    found.collect()
}

fn server(entry: &Entry) -> Option<Server> {
    let command = match &entry.command {
        Ok(command) => command,
        Err(Skip::Remote | Skip::NoCommand) => return None,
        Err(_) => {
            return Some(Server {
                title: entry.title(),
                is_wrapped: false,
                program: String::new(),
            });
        }
    };
    let is_wrapped = entry.is_wrapped();
    let mut program = command.program.value.clone().unwrap_or_default();
    if is_wrapped && let Args::List { elements, .. } = &command.args {
        let words: Vec<String> = elements
            .iter()
            .map(|it| it.value.clone().unwrap_or_default())
            .collect();
        program = super::program_at(&words).map_or_else(String::new, |at| words[at].clone());
    }
    // A whole line for a shell may hold anything.
    if program.contains(char::is_whitespace) && !Path::new(&program).is_file() {
        program.clear();
    }
    Some(Server {
        title: entry.title(),
        is_wrapped,
        program,
    })
}

/// Returns whether a program would be found in these directories; what depends on variables is taken for found.
pub(crate) fn is_found(program: &str, path: &str) -> bool {
    if program.is_empty() || program.contains(['$', '~', ' ']) {
        return true;
    }
    match program.contains('/') {
        true => !program.starts_with('/') || Path::new(program).exists(),
        false => env::split_paths(path).any(|directory| directory.join(program).exists()),
    }
}
