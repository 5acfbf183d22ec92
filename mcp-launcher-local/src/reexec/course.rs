//! The course of a guardian: what it does next. Pure.
//!
//! ```text
//! Starting ──started──▶ Running ──kill, the host is gone, its grace is over──▶ Hunt ──nobody, twice──▶ Gone
//!    │  └─ the host is gone already ────────────────────────────────────────────▲                        ▲
//!    │                      └──── the server has ended, and nobody is left, twice ────────────────────────┤
//!    └──failed───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

/// What a guardian hears and sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The server is there, suspended, and watched.
    Started,
    /// There is no server.
    Failed,
    /// Somebody has forked or ended, or it is time to look.
    Noted,
    /// The main process has ended.
    Exited,
    /// The host asks the server to end.
    Terminate,
    /// The host ends the server.
    Kill,
    HostGone,
    /// The time that the server has without its host is over.
    GraceOver,
    /// After a look: so many live.
    Looked(usize),
}

/// What a guardian does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    TellStarted,
    TellFailed,
    TellExited,
    TellGone,
    /// Lets the server execute its first instruction.
    Resume,
    /// Looks, which leads to [`Event::Looked`].
    Look,
    /// SIGTERM to everybody.
    Ask,
    /// Holds and kills everybody who is found, which leads to [`Event::Looked`].
    Hunt,
    /// Begins the time that ends with [`Event::GraceOver`].
    BeginGrace,
    /// Reaps the main process, whose number is nobody's from then on.
    Reap,
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Running,
    Hunt,
    Gone,
}

/// How far a guardian has come.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    state: State,
    /// The server has a time without its host.
    has_grace: bool,
    has_exited: bool,
    /// Nobody has to run any more: said before there was a server.
    is_over: bool,
    /// Looks in a row that have found nobody.
    empty: u8,
}

/// So many looks in a row find nobody before nobody is said to be left.
const EMPTY_LOOKS: u8 = 2;

impl Course {
    pub(crate) fn new(has_grace: bool) -> Self {
        Self {
            state: State::Starting,
            has_grace,
            has_exited: false,
            is_over: false,
            empty: 0,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// Takes note of an event, and returns what is to be done, in this order.
    pub(crate) fn step(&mut self, event: Event) -> Vec<Act> {
        match (self.state, event) {
            (State::Gone, _) => Vec::new(),
            (State::Starting, Event::Started) => match self.is_over {
                true => {
                    let mut acts = vec![Act::TellStarted];
                    acts.extend(self.hunt());
                    acts
                }
                false => {
                    self.state = State::Running;
                    vec![Act::TellStarted, Act::Resume]
                }
            },
            (State::Starting, Event::Failed) => {
                self.state = State::Gone;
                vec![Act::TellFailed, Act::Leave]
            }
            // It has nothing yet that it would save.
            (State::Starting, Event::Terminate | Event::Kill | Event::HostGone) => {
                self.is_over = true;
                Vec::new()
            }
            (State::Starting, _) | (_, Event::Started | Event::Failed) => Vec::new(),
            (_, Event::Exited) => match std::mem::replace(&mut self.has_exited, true) {
                true => Vec::new(),
                false => vec![Act::TellExited, self.again()],
            },
            (_, Event::Noted) => vec![self.again()],
            (_, Event::Looked(living)) => self.looked(living),
            (State::Running, Event::Terminate) => vec![Act::Ask],
            (State::Running, Event::HostGone) if self.has_grace => vec![Act::BeginGrace, Act::Ask],
            (_, Event::Kill) | (State::Running, Event::HostGone | Event::GraceOver) => self.hunt(),
            (State::Hunt, Event::Terminate | Event::HostGone | Event::GraceOver) => Vec::new(),
        }
    }

    fn hunt(&mut self) -> Vec<Act> {
        self.state = State::Hunt;
        self.empty = 0;
        vec![Act::Hunt]
    }

    fn again(&self) -> Act {
        match self.state {
            State::Hunt => Act::Hunt,
            _ => Act::Look,
        }
    }

    fn looked(&mut self, living: usize) -> Vec<Act> {
        if living > 0 || !self.has_exited {
            self.empty = 0;
            return Vec::new();
        }
        self.empty += 1;
        if self.empty < EMPTY_LOOKS {
            return vec![self.again()];
        }
        self.state = State::Gone;
        vec![Act::TellGone, Act::Reap, Act::Leave]
    }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
