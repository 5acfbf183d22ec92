//! Where the proxy's answers may differ from the engine's: all of them, by name.

use super::normal::Normal;
use super::request::{Fault, Framing, Request};

/// A request, and what the engine and the proxy answered to it.
struct Case<'a> {
    request: &'a Request,
    straight: &'a [Normal],
    proxied: &'a [Normal],
}

/// The name of a difference, and the test by which it is told.
type Exception = (&'static str, fn(&Case<'_>) -> bool);

const EXCEPTIONS: &[Exception] = &[
    (
        "what is no HTTP is refused without words of the engine's",
        |case| case.is_refused_unread() && case.is_no_http() && case.changes_nothing(),
    ),
    (
        "a body that does not come to its end is told to the engine as the end of the connection",
        |case| case.has_no_end() && case.proxied.iter().all(|one| one.status >= 400),
    ),
    ("what follows a `#` is no part of a target", |case| {
        case.request.target.contains('#')
    }),
    (
        "a redirected commit shows the labels that it takes away",
        |case| case.request.kind == "commit" && case.all(|one| one.status == 301),
    ),
    (
        "a create whose body is no JSON object is refused in the proxy's words",
        |case| case.is_refused_create() && case.straight.iter().all(|one| one.status >= 300),
    ),
    (
        "an empty create is not empty any more when it has labels",
        |case| case.all(|one| one.status == 400) && case.straight_says("Config cannot be empty"),
    ),
    (
        "the engine panics at a create without a configuration, and not at one with labels",
        |case| case.is_lost_create() && case.proxied.iter().all(|one| one.status == 400),
    ),
    (
        "of several networks the engine names another first",
        |case| case.all(|one| one.status == 400 && one.body.contains("to network endpoints: ")),
    ),
    (
        "of several fields of a wrong type another one is named",
        |case| case.all(|one| one.body.contains("json: cannot unmarshal")),
    ),
    (
        "the engine itself has reset a connection whose request it had not read",
        |case| case.is_reset(),
    ),
    (
        "the engine gives up a prune whose client has stopped sending, when it notices in time",
        |case| case.is_prune_of_who_left() && case.all(|one| one.status == 200),
    ),
    ("empty lines before a request are skipped", |case| {
        case.request.fault == Some(Fault::EmptyLinesBefore)
    }),
];

/// Why these answers may differ, if they may.
pub(super) fn explain(
    request: &Request,
    straight: &[Normal],
    proxied: &[Normal],
) -> Option<&'static str> {
    let case = Case {
        request,
        straight,
        proxied,
    };
    let mut all = EXCEPTIONS.iter();
    all.find(|(_, holds)| holds(&case)).map(|(why, _)| *why)
}

impl Case<'_> {
    /// The proxy's parser has refused it, and nothing reached the engine.
    fn is_refused_unread(&self) -> bool {
        let is_bare = |one: &Normal| {
            (400..=499).contains(&one.status) && one.headers.is_empty() && one.body.is_empty()
        };
        self.proxied.iter().all(is_bare)
    }

    fn is_no_http(&self) -> bool {
        let odd = |c: char| "|^`{}\"<>\\".contains(c) || !c.is_ascii_graphic();
        self.request.fault.is_some_and(is_syntax)
            || self.request.target.contains(odd)
            || !self.request.target.starts_with(['/', 'h'])
    }

    fn has_no_end(&self) -> bool {
        match self.request.fault {
            Some(Fault::ShortBody | Fault::BadChunk | Fault::UnknownCoding) => true,
            // Chunks are announced, and none comes.
            Some(Fault::LengthAndChunks) => self.request.framing == Framing::None,
            _ => false,
        }
    }

    fn is_refused_create(&self) -> bool {
        let words = "a create that cannot be tied to the MCP server";
        let is_ours = |one: &Normal| one.status == 400 && one.body.contains(words);
        self.proxied.iter().all(is_ours)
    }

    /// The connection of a create has ended without an answer of the engine's.
    fn is_lost_create(&self) -> bool {
        let is_lost = |one: &Normal| one.status == 0 && one.body == "unexpected end of file";
        self.request.kind == "create" && self.straight.iter().all(is_lost)
    }

    /// The same answers, but for the end of the connection: the straight one's, or of
    /// what Go's server refuses by itself.
    fn is_reset(&self) -> bool {
        let whole = |one: &Normal| Normal {
            body: one.body.trim_end_matches(" CUT").to_owned(),
            ..one.clone()
        };
        let is_cut = |one: &Normal| one.body.ends_with(" CUT");
        let is_refused = |one: &Normal| one.body.starts_with("400 Bad Request");
        let left = self.straight.iter().map(whole);
        (self.straight.iter().any(is_cut) || self.proxied.iter().all(is_refused))
            && left.eq(self.proxied.iter().map(whole))
    }

    fn is_prune_of_who_left(&self) -> bool {
        let target = self.request.target.split('?').next();
        self.request.fault == Some(Fault::ShortBody)
            && target.is_some_and(|target| target.ends_with("/prune"))
    }

    fn changes_nothing(&self) -> bool {
        let method = &*self.request.method;
        ["GET", "HEAD"].contains(&method) || self.straight.iter().all(|one| one.status >= 300)
    }

    fn straight_says(&self, words: &str) -> bool {
        self.straight.iter().all(|one| one.body.contains(words))
    }

    fn all(&self, holds: impl Fn(&Normal) -> bool) -> bool {
        self.straight.iter().chain(self.proxied).all(holds)
    }
}

fn is_syntax(fault: Fault) -> bool {
    use Fault::*;
    matches!(
        fault,
        FoldedHeader
            | SpaceBeforeColon
            | ControlByte
            | BadHeaderName
            | DifferingLengths
            | SignedLength
            | IdentityCoding
            | UnknownCoding
            | UnknownVersion
            | SpaceInTarget
            | BadMethod
            | HugeHead
    )
}
