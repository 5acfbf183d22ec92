//! Lists wrapped and unwrapped servers in the files of all hosts. Changes nothing.

use std::env;
use std::path::PathBuf;

use super::file::Document;
use super::find;
use super::format::{Entry, Skip, entries};
use super::hosts::Host;

#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) host: &'static Host,
    pub(crate) path: PathBuf,
    pub(crate) servers: Result<Vec<Server>, String>,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) title: String,
    pub(crate) is_wrapped: bool,
}

/// Examines the files of all hosts and of the project in this directory.
pub(crate) fn survey() -> Vec<Survey> {
    let project = env::current_dir().ok();
    let places = find::places(&[], project.as_deref()).into_iter();
    let found = places.filter_map(|place| {
        let host = place.host?;
        let entries = match Document::read(&place.path) {
            Ok(None) => return None,
            Ok(Some(document)) => {
                let text = document.text().trim_start_matches('\u{feff}');
                let entries = entries(place.format, text, &place.tables);
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
    let has_command = !matches!(entry.command, Err(Skip::Remote | Skip::NoCommand));
    has_command.then(|| Server {
        title: entry.title(),
        is_wrapped: entry.is_wrapped(),
    })
}
