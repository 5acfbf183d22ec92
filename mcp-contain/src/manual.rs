//! `man` and `completions`: what a package installs beside the program, made from the command line itself.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

/// Destination of the manual.
#[derive(Debug, clap::Args)]
pub(crate) struct ManOptions {
    /// Write a page for the program and one for each verb into this directory, instead of printing the first
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// The shell to complete for.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionOptions {
    /// The shell
    shell: Shell,
}

/// Prints the manual page, or writes all of them.
pub(crate) fn man(options: &ManOptions) -> Result<ExitCode, Failure> {
    let written = match &options.out {
        Some(directory) => write_all(directory),
        None => page(Cli::command()).map(|page| drop(io::stdout().write_all(&page))),
    };
    let failed = |error| Failure::wrapper(format_args!("the manual could not be written: {error}"));
    written.map(|()| ExitCode::SUCCESS).map_err(failed)
}

/// Prints the completions.
pub(crate) fn completions(options: &CompletionOptions) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "mcp-contain", &mut text);
    // Nobody may be listening.
    let _ = io::stdout().write_all(&text);
    Ok(ExitCode::SUCCESS)
}

fn write_all(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_verb() {
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path()).unwrap();
        let main = fs::read_to_string(directory.path().join("mcp-contain.1")).unwrap();
        for verb in Cli::command().get_subcommands() {
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
