//! `man` and `completions`: files for packages, generated from the command line.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct ManOptions {
    /// Write a page for the program and one for each verb into this directory, instead of printing the first
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionOptions {
    /// The shell
    shell: Shell,
}

pub(crate) fn man(options: &ManOptions, command: Command) -> Result<ExitCode, Failure> {
    let written = match &options.out {
        Some(directory) => fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command, directory)),
        None => {
            let mut text = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut text);
            rendered.map(|()| drop(io::stdout().write_all(&text)))
        }
    };
    let failed = |error| Failure::wrapper(format_args!("the manual could not be written: {error}"));
    written.map(|()| ExitCode::SUCCESS).map_err(failed)
}

pub(crate) fn completions(
    options: &CompletionOptions,
    mut command: Command,
) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut command, "mcp-contain", &mut text);
    // Stdout may be closed.
    let _ = io::stdout().write_all(&text);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    #[test]
    fn there_is_a_page_for_each_verb() {
        let directory = tempfile::tempdir().unwrap();
        let out = Some(directory.path().to_owned());
        man(&ManOptions { out }, command()).unwrap();
        let main = fs::read_to_string(directory.path().join("mcp-contain.1")).unwrap();
        for verb in command().get_subcommands() {
            let name = verb.get_name().to_owned();
            let page =
                fs::read_to_string(directory.path().join(format!("mcp-contain-{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
            assert!(
                main.contains(&format!("mcp\\-contain\\-{name}(1)")),
                "{name}: {main}"
            );
        }
    }
}
