use std::borrow::Cow;

use super::Remnant;

/// The evidence that a proof rests on. Each launcher documents its limits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum Evidence {
    #[displaydoc("every process was reaped")]
    Reaped,
    #[displaydoc("the cgroup is empty")]
    CgroupEmpty,
    #[displaydoc("the process group is empty")]
    ProcessGroupEmpty,
    /// No readable process carries the server's identity. Not readable is one that wiped its
    /// environment, is another user's, or is not dumpable.
    #[displaydoc("no process carries its identity")]
    NoneMarked,
    /// No process that was reparented since the server's start can be the server's.
    #[displaydoc("no process of it was given to another parent")]
    NoneAdopted,
    #[displaydoc("its PID namespace has ended")]
    NamespaceEnded,
    /// The kernel says that no process of the server's job object is active (Windows).
    #[displaydoc("its job object is empty")]
    JobEmpty,
    /// The engine that ran the container reports that the ID does not exist.
    #[displaydoc("the engine has no such container")]
    ContainerAbsent,
    /// Another machine has reported the end with this text.
    #[displaydoc("the other machine reports: {0}")]
    RemoteReported(String),
    /// Something else; completes "on the evidence that".
    #[displaydoc("{0}")]
    Other(Cow<'static, str>),
}

/// The proof that [`ProcessTerminator::gone`](crate::launch::ProcessTerminator::gone) gives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gone {
    /// The evidence; never empty.
    pub evidence: Vec<Evidence>,
    /// Remnants that outlived the main process and had to be ended, as far as they are named.
    pub swept: Vec<Remnant>,
    /// The number of such remnants; at least `swept.len()`.
    pub swept_count: usize,
    /// Remnants that policy leaves alone, such as a detached container.
    pub reported: Vec<Remnant>,
}

crate::setters! { Gone:
    /// Adds evidence, without duplicates.
    #[must_use]
    evidence(evidence: Evidence) |it| {
        if !it.evidence.contains(&evidence) {
            it.evidence.push(evidence);
        }
    };
    /// Adds remnants that were left alone.
    #[must_use]
    reported(reported: impl IntoIterator<Item = Remnant>) |it| it.reported.extend(reported);
    /// Adds remnants that had to be swept.
    #[must_use]
    swept(swept: impl IntoIterator<Item = Remnant>) |it| {
        let before = it.swept.len();
        it.swept.extend(swept);
        it.swept_count += it.swept.len() - before;
    };
}

impl Gone {
    /// Creates a proof that rests on `evidence`, with nothing swept.
    pub fn proven_by(evidence: Evidence) -> Self {
        Self {
            evidence: vec![evidence],
            swept: Vec::new(),
            swept_count: 0,
            reported: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::remnant::list;

    #[test]
    fn a_proof_counts_what_was_swept_and_names_each_evidence_once() {
        let gone = Gone::proven_by(Evidence::Reaped)
            .evidence(Evidence::CgroupEmpty)
            .evidence(Evidence::Reaped)
            .swept([Remnant::process(7, "sh")])
            .swept([Remnant::process(8, "cat")]);
        assert_eq!(gone.evidence, [Evidence::Reaped, Evidence::CgroupEmpty]);
        assert_eq!((gone.swept.len(), gone.swept_count), (2, 2));
        assert_eq!(
            list(&gone.evidence, "; "),
            "every process was reaped; the cgroup is empty"
        );
    }
}
