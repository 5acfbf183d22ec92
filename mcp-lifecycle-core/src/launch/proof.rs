//! The proof that nothing of a server is left.

use std::borrow::Cow;
use std::fmt;

use super::remnant::Remnant;

/// The evidence that a proof rests on.
///
/// Each launcher documents what its evidence cannot see: a process that has
/// left its group, say, is not in the group any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Evidence {
    /// Every process was reaped by its parent, or by the process that the
    /// kernel gives orphans of the server to.
    Reaped,
    /// The kernel says that the server's cgroup is empty.
    CgroupEmpty,
    /// The kernel says that the server's process group is empty.
    ProcessGroupEmpty,
    /// No process that could be looked at carries the server's identity. A
    /// process that wiped its environment, that is another user's, or that is
    /// not dumpable (a set-uid program, `PR_SET_DUMPABLE`) cannot be looked at.
    NoneMarked,
    /// No process that lost its parent, and was given to another one since the
    /// server was started, can be the server's.
    NoneAdopted,
    /// The first process of the server's PID namespace has ended, before which
    /// the kernel ends everybody inside.
    NamespaceEnded,
    /// The kernel says that no process of the server's job object is active (Windows).
    JobEmpty,
    /// The engine that ran the container says that there is none of this id.
    ContainerAbsent,
    /// Another machine has reported the end, in these words.
    RemoteReported(
        /// The statement, and its own evidence if it names any.
        String,
    ),
    /// Something else, in a few words that complete "on the evidence that".
    Other(Cow<'static, str>),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reaped => "every process was reaped",
            Self::CgroupEmpty => "the cgroup is empty",
            Self::ProcessGroupEmpty => "the process group is empty",
            Self::NoneMarked => "no process carries its identity",
            Self::NoneAdopted => "no process of it was given to another parent",
            Self::NamespaceEnded => "its PID namespace has ended",
            Self::JobEmpty => "its job object is empty",
            Self::ContainerAbsent => "the engine has no such container",
            Self::RemoteReported(words) => return write!(f, "the other machine reports: {words}"),
            Self::Other(words) => words,
        })
    }
}

/// The proof that [`ProcessTerminator::gone`](crate::launch::ProcessTerminator::gone) gives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gone {
    /// The evidence of the proof; never empty. More than one where one alone
    /// could be deceived, or where the server had parts of several kinds.
    pub evidence: Vec<Evidence>,
    /// Remnants that outlived the main process and had to be ended, as far as they have names.
    pub swept: Vec<Remnant>,
    /// The number of there that were; at least `swept.len()`.
    pub swept_count: usize,
    /// Remnants that the launcher found, that belong to the server, and by policy were left
    /// alone: a detached container that the user wants to keep.
    pub reported: Vec<Remnant>,
}

impl Gone {
    /// A proof that rests on `evidence`. Nothing had to be swept.
    pub fn proven_by(evidence: Evidence) -> Self {
        Self {
            evidence: vec![evidence],
            swept: Vec::new(),
            swept_count: 0,
            reported: Vec::new(),
        }
    }

    /// Adds evidence, if it is not there yet.
    #[must_use]
    pub fn with_evidence(mut self, evidence: Evidence) -> Self {
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
        self
    }

    /// Adds what was found and left alone.
    #[must_use]
    pub fn with_reported(mut self, reported: impl IntoIterator<Item = Remnant>) -> Self {
        self.reported.extend(reported);
        self
    }

    /// Adds what had to be swept.
    #[must_use]
    pub fn with_swept(mut self, swept: impl IntoIterator<Item = Remnant>) -> Self {
        let before = self.swept.len();
        self.swept.extend(swept);
        self.swept_count += self.swept.len() - before;
        self
    }
}

/// Evidence as one line of text.
pub(crate) struct EvidenceList<'a>(pub(crate) &'a [Evidence]);

impl fmt::Display for EvidenceList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, evidence) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{evidence}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_counts_what_was_swept_and_names_each_evidence_once() {
        let gone = Gone::proven_by(Evidence::Reaped)
            .with_evidence(Evidence::CgroupEmpty)
            .with_evidence(Evidence::Reaped)
            .with_swept([Remnant::process(7, "sh")])
            .with_swept([Remnant::process(8, "cat")]);
        assert_eq!(gone.evidence, [Evidence::Reaped, Evidence::CgroupEmpty]);
        assert_eq!((gone.swept.len(), gone.swept_count), (2, 2));
        assert_eq!(
            EvidenceList(&gone.evidence).to_string(),
            "every process was reaped; the cgroup is empty"
        );
    }
}
