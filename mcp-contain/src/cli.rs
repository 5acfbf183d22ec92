//! The command line.
//!
//! The first word that is no option and no known verb is the program, and what follows
//! it is the program's. `--` ends the options, for a program that is called like a verb.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::options::Options;
use crate::{manual, operate, wrap};

#[derive(Debug, Parser)]
#[command(
    name = "mcp-contain",
    version,
    about = "Start a stdio MCP server, and end all of it with the program that uses it",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "mcp-contain [OPTIONS] [--] PROGRAM [ARGS]...\n       mcp-contain VERB ..."
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: Options,
}

/// The verb, with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start PROGRAM; the word `run` may be left out
    Run(Options),
    /// Start PROGRAM in the terminal, such as an agent, and end with it everything that it has started
    Host(Options),
    /// Put mcp-contain in front of the servers in the configuration files of MCP hosts; --undo removes it
    Wrap(wrap::Options),
    #[command(flatten)]
    Operate(operate::Verb),
    /// Print the manual page
    Man(manual::ManOptions),
    /// Print the completions for a shell
    Completions(manual::CompletionOptions),
}

/// Words that people try for another verb.
const SYNONYMS: [(&str, &str); 9] = [
    ("check", "doctor"),
    ("clean", "reap"),
    ("kill", "stop"),
    ("list", "ps"),
    ("ls", "ps"),
    ("status", "doctor"),
    ("undo", "wrap --undo"),
    ("unwrap", "wrap --undo"),
    ("version", "--version"),
];

pub(crate) fn command() -> clap::Command {
    Cli::command()
}

pub(crate) fn program_at(words: &[String]) -> Option<usize> {
    let name = OsString::from("mcp-contain");
    let line = words.iter().map(OsString::from);
    match parse(std::iter::once(name).chain(line)) {
        Ok(Verb::Run(run) | Verb::Host(run)) => words.len().checked_sub(run.command.len()),
        _ => None,
    }
}

/// Returns the verb that was probably meant by the name of a missing program.
pub(crate) fn meant_verb(program: &OsStr) -> Option<String> {
    let word = program.to_str()?;
    if let Some((_, verb)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word) {
        return Some((*verb).to_owned());
    }
    let verbs = Cli::command();
    let mut verbs = verbs.get_subcommands().map(clap::Command::get_name);
    // Shorter ones resemble too many programs.
    let verb = verbs.find(|it| it.len() > 3 && strsim::damerau_levenshtein(it, word) == 1);
    verb.map(str::to_owned)
}

#[derive(Debug)]
pub(crate) struct Answer(clap::Error);

impl Answer {
    pub(crate) fn print(self) -> ExitCode {
        // Stdout may be closed.
        let _ = self.0.print();
        ExitCode::from(if self.0.use_stderr() { 125 } else { 0 })
    }
}

pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Verb, Answer> {
    let words: Vec<_> = words.into_iter().collect();
    // Most of the time goes into the verbs, and a start needs none.
    if let Ok(run) = Options::try_parse_from(&words)
        && let word = run.command.first().and_then(|word| word.to_str())
        && !word.is_some_and(|word| word == "help" || Verb::has_subcommand(word))
    {
        return Ok(Verb::Run(run));
    }
    let cli = Cli::try_parse_from(words).map_err(Answer)?;
    Ok(cli.verb.unwrap_or(Verb::Run(cli.run)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(line: &[&str]) -> Options {
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
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
            assert!(!crate::show::runner::is_runner(name), "{name}");
        }
    }

    #[test]
    fn a_mistyped_verb_is_known_and_a_program_is_none() {
        for (word, verb) in [
            ("undo", "wrap --undo"),
            ("list", "ps"),
            ("status", "doctor"),
            ("version", "--version"),
            ("wrpa", "wrap"),
            ("stat", "stats"),
            ("docter", "doctor"),
            ("completion", "completions"),
        ] {
            assert_eq!(meant_verb(word.as_ref()).as_deref(), Some(verb), "{word}");
        }
        for word in [
            "npx",
            "uvx",
            "node",
            "time",
            "sh",
            "rg",
            "./wrpa",
            "mcp-server-time",
        ] {
            assert_eq!(meant_verb(word.as_ref()), None, "{word}");
        }
    }

    #[test]
    fn a_wrong_time_says_how_a_time_is_written() {
        for line in [
            &["--grace", "abc", "npx"][..],
            &["--lazy", "--idle", "10", "npx"],
        ] {
            let Err(answer) = parse(words(line)) else {
                panic!("{line:?}")
            };
            let text = answer.0.to_string();
            assert!(text.contains("such as 500ms, 2s or 10m"), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
