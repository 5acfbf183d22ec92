//! The command line.
//!
//! The first word that is no option and no known verb is the program, and what follows
//! it is the program's. `--` ends the options, for a program that is called like a verb.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(not(target_os = "linux"))]
use crate::elsewhere;
#[cfg(target_os = "linux")]
use crate::{doctor, ps, reap, stats, stop};
use crate::{manual, run, wrap};

#[derive(Debug, Parser)]
#[command(
    name = "mcp-contain",
    version,
    about = "Start a stdio MCP server such that nothing of it outlives its host",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "mcp-contain [OPTIONS] [--] PROGRAM [ARGS]...\n       mcp-contain VERB ..."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: run::Options,
}

/// The verb, with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start PROGRAM (the default; the word `run` may be left out)
    Run(run::Options),
    /// Put this program in front of the servers in the configuration files of hosts
    Wrap(wrap::Options),
    /// List the servers that run: whose, how they are held, what they use
    #[cfg(target_os = "linux")]
    Ps(ps::Options),
    /// End one server, and prove that nothing of it is left
    #[cfg(target_os = "linux")]
    Stop(stop::Options),
    /// End what dead hosts left, by identity and never by name
    #[cfg(target_os = "linux")]
    Reap(reap::Options),
    /// Show how servers were ended so far: by themselves, asked, or killed
    #[cfg(target_os = "linux")]
    Stats(stats::Options),
    /// Show what is left behind now, what this machine can hold, and which hosts are wrapped
    #[cfg(target_os = "linux")]
    Doctor(doctor::Options),
    /// List the servers that run: on Linux only
    #[cfg(not(target_os = "linux"))]
    Ps(elsewhere::Words),
    /// End one server: on Linux only
    #[cfg(not(target_os = "linux"))]
    Stop(elsewhere::Words),
    /// End what dead hosts left: on Linux only
    #[cfg(not(target_os = "linux"))]
    Reap(elsewhere::Words),
    /// Show how servers were ended so far: on Linux only
    #[cfg(not(target_os = "linux"))]
    Stats(elsewhere::Words),
    /// Show what this machine can hold: on Linux only
    #[cfg(not(target_os = "linux"))]
    Doctor(elsewhere::Words),
    /// Print the manual page
    Man(manual::ManOptions),
    /// Print the completions for a shell
    Completions(manual::CompletionOptions),
}

/// Text that is printed instead: help, the version, or what is wrong with the command line.
#[derive(Debug)]
pub(crate) struct Answer(clap::Error);

impl Answer {
    /// Prints it, and returns the exit code.
    pub(crate) fn print(self) -> ExitCode {
        // Nobody may be listening.
        let _ = self.0.print();
        ExitCode::from(if self.0.use_stderr() { 125 } else { 0 })
    }
}

/// Reads a command line, the name of this program first.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Verb, Answer> {
    let cli = Cli::try_parse_from(words).map_err(Answer)?;
    Ok(cli.verb.unwrap_or(Verb::Run(cli.run)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(line: &[&str]) -> run::Options {
        match parse(words(line)) {
            Ok(Verb::Run(options)) => options,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn words(line: &[&str]) -> Vec<OsString> {
        ["mcp-contain"]
            .iter()
            .chain(line)
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn the_first_word_that_is_no_verb_is_the_program_and_the_rest_is_its_own() {
        let plain = run(&[
            "npx", "-y", "server", "--grace", "wrap", "--help", "--", "x",
        ]);
        assert_eq!(
            plain.command,
            [
                "npx", "-y", "server", "--grace", "wrap", "--help", "--", "x"
            ]
        );
        assert_eq!(plain.grace, Duration::from_secs(2));
        let graced = run(&["--grace", "300ms", "python3", "-m", "wrap"]);
        assert_eq!(graced.command, ["python3", "-m", "wrap"]);
        assert_eq!(graced.grace, Duration::from_millis(300));
        let spelled = run(&["run", "--grace", "0s", "node", "run"]);
        assert_eq!(spelled.command, ["node", "run"]);
        assert_eq!(spelled.grace, Duration::ZERO);
    }

    #[test]
    fn a_program_that_is_called_like_a_verb_follows_two_dashes() {
        assert_eq!(run(&["--", "wrap", "-x"]).command, ["wrap", "-x"]);
        assert_eq!(
            run(&["run", "wrap", "--", "-x"]).command,
            ["wrap", "--", "-x"]
        );
        assert_eq!(run(&["run", "--", "run"]).command, ["run"]);
        assert!(matches!(parse(words(&["wrap"])), Ok(Verb::Wrap(_))));
    }

    #[test]
    fn what_is_wrong_is_an_answer_and_no_program() {
        for line in [
            &[][..],
            &["run"],
            &["--grace"],
            &["--grace", "soon", "npx"],
            &["--no-such-option", "npx"],
        ] {
            let Err(answer) = parse(words(line)) else {
                panic!("{line:?}")
            };
            assert!(answer.0.use_stderr(), "{line:?}");
        }
    }

    #[test]
    fn a_verb_is_a_word_that_wrap_tells_from_a_program() {
        use clap::CommandFactory as _;
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
            assert!(!crate::show::runner::is_runner(name), "{name}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
