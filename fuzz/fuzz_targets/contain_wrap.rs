//! Any text as the configuration file of a host that `mcp-contain wrap` changes: the first byte says
//! in which format. Undone it is the same to the byte; what is started is the same behind the wrapper.

#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../mcp-contain/src/show"]
mod show {
    pub(super) mod runner;
    pub(super) mod text;
}

#[path = "../../mcp-contain/src/wrap"]
mod wrap {
    mod diff;
    mod format;
    mod hosts;
    mod rewrite;

    use format::{Args, Entry};
    use mcp_lifecycle_core::document::{Format, Node};
    use rewrite::{Rewritten, Shape, Wrapper};

    const PATH: &str = "/opt/it's \"here\"/mcp-contain";

    /// Options of the wrapper begin with a dash, its verbs are these; two dashes end them.
    fn program_at(words: &[String]) -> Option<usize> {
        let from = usize::from(words.first().is_some_and(|word| word == "host"));
        let mut options = words[from..].iter();
        match from + options.position(|word| !word.starts_with('-') || word == "--")? {
            at if words[at] == "--" => Some(at + 1).filter(|at| *at < words.len()),
            at if ["run", "wrap", "ps", "stop", "help"].contains(&&*words[at]) => None,
            at => Some(at),
        }
    }

    pub(super) fn check(text: &str, format: Format, options: &[String]) {
        let tables = hosts::all_tables(format);
        let shape = Shape {
            format,
            tables: &tables,
        };
        let wrapper = Wrapper {
            path: PATH,
            options,
            is_file: &|path| path.contains('/'),
            program_at: &program_at,
            plugins: &[],
        };
        let Ok(by_hand) = rewrite::wrapped(text, shape) else {
            assert!(rewrite::wrap(text, shape, &wrapper).is_err());
            return;
        };
        // Refused where it could not be undone.
        let Ok(once) = rewrite::wrap(text, shape, &wrapper) else {
            return;
        };
        let back = rewrite::unwrap(&once.text, shape, &wrapper, &by_hand).expect("it is undone");
        assert_eq!(back.text, text);
        let twice = rewrite::wrap(&once.text, shape, &wrapper).expect("it is wrapped");
        assert_eq!((&twice.text, twice.changes.len()), (&once.text, 0));
        same_commands(text, &once, shape, options);
        for change in &once.changes {
            let _ = change.lines();
        }
    }

    fn same_commands(text: &str, once: &Rewritten, shape: Shape<'_>, options: &[String]) {
        let plain = |text: &str| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let before =
            format::entries(shape.format, &plain(text), shape.tables).expect("it was read");
        let after = format::entries(shape.format, &plain(&once.text), shape.tables);
        let after = after.expect("it is as well written as it was");
        assert_eq!(before.len(), after.len());
        let mut changed = 0;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.key(), after.key());
            let (old, new) = (words(before), words(after));
            if old == new {
                continue;
            }
            changed += 1;
            let (old, new) = (
                old.expect("it had a command"),
                new.expect("it has a command"),
            );
            assert_eq!(new[0], PATH);
            let is_agent = before.path[0] == "agent_servers";
            let host = ["host".to_owned()];
            let new = match is_agent {
                true => new[1..].strip_prefix(&host[..]).expect("it is behind `host`"),
                false => &new[1..],
            };
            let new = new.strip_prefix(options).expect("they are there");
            let rest = new
                .strip_prefix(&["--".to_owned()])
                .filter(|rest| *rest == old);
            assert_eq!(rest.unwrap_or(new), old);
        }
        assert_eq!(changed, once.changes.len());
    }

    /// The words of a command; what is no text counts as an empty one.
    fn words(entry: &Entry) -> Option<Vec<String>> {
        let command = entry.command.as_ref().ok()?;
        let list: &[Node] = match &command.args {
            Args::Missing { .. } => &[],
            Args::List { elements, .. } => elements,
        };
        let words = std::iter::once(&command.program).chain(list);
        Some(
            words
                .map(|word| word.as_text().unwrap_or_default().to_owned())
                .collect(),
        )
    }
}

fuzz_target!(|bytes: &[u8]| {
    use mcp_lifecycle_core::document::Format;

    let Some((&first, text)) = bytes.split_first() else {
        return;
    };
    let options = ["--hardened", "--write=/a \"b\""].map(str::to_owned);
    if let Ok(text) = str::from_utf8(text) {
        wrap::check(
            text,
            if first.eq_ignore_ascii_case(&b't') {
                Format::Toml
            } else {
                Format::Json
            },
            match first.is_ascii_uppercase() {
                true => &options,
                false => &[],
            },
        );
    }
});
