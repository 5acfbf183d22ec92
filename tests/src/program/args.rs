//! The command line: one shape, then `--name value` options that any shape takes.

use std::time::Duration;

use crate::program::alive::Address;

/// The parsed command line.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    /// The misbehaviour, by name.
    pub(crate) shape: String,
    /// Where the observer listens.
    pub(crate) alive: Option<Address>,
    /// The name that this process gives the observer.
    pub(crate) role: String,
    /// Which protocol eras the server speaks.
    pub(crate) era: Era,
    /// End of file on stdin changes nothing.
    pub(crate) ignore_eof: bool,
    /// SIGTERM changes nothing.
    pub(crate) ignore_term: bool,
    /// When the misbehaviour sets in.
    pub(crate) at: Stage,
    /// The exit code of shapes that exit.
    pub(crate) code: i32,
    /// Text for standard error.
    pub(crate) stderr: Option<String>,
    /// The size of whatever the shape produces.
    pub(crate) bytes: usize,
    /// How many processes the shape starts.
    pub(crate) count: u32,
    /// The hard cap on births of a self-replicating shape.
    pub(crate) total: Option<u32>,
    /// An upper bound on a wait that the observer otherwise ends.
    pub(crate) linger: Option<Duration>,
    /// After this the process ends itself, come what may.
    pub(crate) lifetime: Duration,
    /// The acts that `acts` does before it serves, in order.
    pub(crate) acts: Vec<String>,
}

/// Which protocol eras the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize`, revisions up to 2025-11-25.
    Legacy,
    /// `server/discover`, revision 2026-07-28.
    Modern,
    /// Either, as the client likes.
    Both,
}

/// When a misbehaviour sets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From the first byte on.
    Handshake,
    /// With the first `tools/call`, or right after the handshake.
    Call,
}

impl Args {
    pub(crate) fn parse(mut argv: impl Iterator<Item = String>) -> Result<Self, String> {
        let shape = argv.next().ok_or("which shape?")?;
        let role = match shape.as_str() {
            "sh-wrapper" => "wrapper",
            _ => "server",
        };
        let mut args = Self {
            role: role.to_owned(),
            alive: None,
            era: Era::Both,
            // Settled here: from its hello on a server is what its shape says.
            ignore_eof: ["ignore-eof", "ignore-eof-term"].contains(&shape.as_str()),
            ignore_term: shape == "ignore-eof-term",
            shape,
            at: Stage::Call,
            code: 1,
            stderr: None,
            bytes: 8 << 20,
            count: 199,
            total: None,
            linger: None,
            lifetime: Duration::from_secs(300),
            acts: Vec::new(),
        };
        while let Some(name) = argv.next() {
            let mut value = || argv.next().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--alive" => args.alive = Some(value()?.parse()?),
                "--role" => args.role = value()?,
                "--era" => args.era = era(&value()?)?,
                "--ignore-eof" => args.ignore_eof = true,
                "--ignore-term" => args.ignore_term = true,
                "--at" => args.at = stage(&value()?)?,
                "--code" => args.code = number(&name, &value()?)?,
                "--stderr" => args.stderr = Some(value()?),
                "--bytes" => args.bytes = number(&name, &value()?)?,
                "--count" => args.count = number(&name, &value()?)?,
                "--total" => args.total = Some(number(&name, &value()?)?),
                "--linger-ms" => {
                    args.linger = Some(Duration::from_millis(number(&name, &value()?)?));
                }
                "--act" => args.acts.push(value()?),
                "--lifetime-s" => args.lifetime = Duration::from_secs(number(&name, &value()?)?),
                // It tells what it has got, whatever became of its words on the way.
                _ if args.shape == "report" => {}
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(args)
    }

    /// The command line for a process of the same family: the observer's
    /// address travels here and not in the environment, which one shape wipes.
    pub(crate) fn for_child(&self, shape: &str, role: &str) -> Vec<String> {
        let words = [super::INSIDE, shape, "--role", role];
        let mut argv = words.map(str::to_owned).to_vec();
        if let Some(alive) = &self.alive {
            argv.extend(["--alive".to_owned(), alive.to_string()]);
        }
        let era = match self.era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
            Era::Both => "both",
        };
        argv.extend(["--era".to_owned(), era.to_owned()]);
        if self.ignore_eof {
            argv.push("--ignore-eof".to_owned());
        }
        if self.ignore_term {
            argv.push("--ignore-term".to_owned());
        }
        let lifetime = self.lifetime.as_secs().to_string();
        argv.extend(["--lifetime-s".to_owned(), lifetime]);
        argv
    }
}

fn era(text: &str) -> Result<Era, String> {
    match text {
        "legacy" => Ok(Era::Legacy),
        "modern" => Ok(Era::Modern),
        "both" => Ok(Era::Both),
        _ => Err(format!("--era is legacy, modern or both, not {text}")),
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    match text {
        "handshake" => Ok(Stage::Handshake),
        "call" => Ok(Stage::Call),
        _ => Err(format!("--at is handshake or call, not {text}")),
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name} takes a number, not {text}"))
}
