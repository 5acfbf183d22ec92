//! The host's conclusion about a server whose guardian cannot give one: it was killed,
//! or somebody holds it. Pure; the model test includes this file by path.

use std::borrow::Cow;

use mcp_lifecycle_core::launch::Evidence;

/// The main process, when the guardian was found dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Main {
    /// The guardian has not said that there is one.
    NotSeen,
    /// It has ended: nothing has its pid and its start time.
    Ended,
    /// It lives where it was put.
    Inside,
    /// It lives, and has left its cgroup or never had one.
    Outside,
    /// Nobody can tell.
    Unknown,
    /// It was the init of a PID namespace and has ended, before which the kernel
    /// has ended everybody inside.
    InitEnded,
    /// It would be the init of a PID namespace, and the guardian has not said
    /// that there is one. Nothing of the server is elsewhere, and init carries
    /// the mark: it runs our program.
    InitNotSeen,
}

/// The cgroup of the server, after the host has tried to empty it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cgroup {
    /// The server had none.
    None,
    /// The kernel says that nobody is inside, and it is removed.
    Empty,
    /// It could not be emptied, or nobody could look.
    Failed(String),
}

/// Who carries the server's identity, after that. In these words the search has
/// ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Marked {
    /// Nobody who can be looked at.
    Nobody,
    /// So many processes, which were ended.
    Somebody(usize),
    /// Nobody could look.
    Unknown(String),
}

/// Who was given to another parent, after that, and may be the server's
/// ([`adopted`](super::adopted)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Adopted {
    Nobody,
    /// These, by pid and name.
    Somebody(String),
    /// Nobody could look.
    Unknown(String),
}

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) main: Main,
    pub(super) cgroup: Cgroup,
    pub(super) marked: Marked,
    pub(super) adopted: Adopted,
}

/// What proves that nothing is left of a server whose guardian has reaped
/// everybody, or why that is not enough.
///
/// What has entered a foreign PID namespace, and lost its parent there, is no
/// descendant of the guardian's any more. It is inside of the cgroup, or found by
/// the search that comes after this.
pub(super) fn concluded(cgroup: &Cgroup) -> Result<Vec<Evidence>, Cow<'static, str>> {
    match cgroup {
        Cgroup::None => Ok(vec![Evidence::Reaped]),
        Cgroup::Empty => Ok(vec![Evidence::Reaped, Evidence::CgroupEmpty]),
        Cgroup::Failed(error) => Err(Cow::Owned(format!("{REAPED_BUT}: {error}"))),
    }
}

impl Findings {
    /// What proves that nothing is left, or why nothing does.
    pub(super) fn verdict(&self) -> Result<Vec<Evidence>, Cow<'static, str>> {
        if let Cgroup::Failed(error) = &self.cgroup {
            return Err(Cow::Owned(format!("{NOT_EMPTIED}: {error}")));
        }
        match (&self.main, &self.marked) {
            (Main::InitEnded, _) => return Ok(vec![Evidence::NamespaceEnded]),
            // Whoever was found has been waited for.
            (Main::InitNotSeen, Marked::Nobody | Marked::Somebody(_)) => {
                return Ok(vec![Evidence::NoneMarked]);
            }
            _ => {}
        }
        // Whoever left the cgroup, had none, or wiped its environment, or was started
        // by one of them, has another parent since the guardian has gone.
        match (&self.marked, &self.adopted) {
            (Marked::Unknown(error), _) => Err(Cow::Owned(format!("{NOT_SEARCHED}: {error}"))),
            (_, Adopted::Unknown(error)) => Err(Cow::Owned(format!("{NOT_SEARCHED}: {error}"))),
            (_, Adopted::Somebody(names)) => Err(Cow::Owned(format!("{ADOPTED}: {names}"))),
            (Marked::Nobody | Marked::Somebody(_), Adopted::Nobody) => {
                let cgroup = (self.cgroup == Cgroup::Empty).then_some(Evidence::CgroupEmpty);
                let evidence = [Evidence::NoneMarked, Evidence::NoneAdopted];
                Ok(cgroup.into_iter().chain(evidence).collect())
            }
        }
    }

    /// Returns whether the main process is known to have ended.
    pub(super) fn main_has_ended(&self) -> bool {
        match self.main {
            Main::Ended | Main::InitEnded => true,
            Main::Inside | Main::NotSeen if self.cgroup == Cgroup::Empty => true,
            _ => self.verdict().is_ok(),
        }
    }
}

/// Returns whether the host may end a guardian that somebody holds: that sets free what
/// it guards, so something else must have ended it before.
pub(super) fn may_replace(is_held: bool, cgroup_was_killed: bool) -> bool {
    is_held && cgroup_was_killed
}

const REAPED_BUT: &str = "the guardian has reaped everybody, but whether the server's cgroup is \
                          empty cannot be told";
const NOT_EMPTIED: &str = "the guardian was killed, and the server's cgroup could not be emptied";
const NOT_SEARCHED: &str = "the guardian was killed, and what is left of the server could not be \
                            searched for";
const ADOPTED: &str = "the guardian was killed; what was known of the server was sent SIGKILL, but \
                       these processes have lost their parents since it was started and may be \
                       its (once they have gone, another attempt proves it)";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(main: Main) -> Findings {
        Findings {
            main,
            cgroup: Cgroup::Empty,
            marked: Marked::Nobody,
            adopted: Adopted::Nobody,
        }
    }

    #[test]
    fn an_empty_cgroup_proves_nothing_about_who_has_left_it() {
        let all = [
            Main::Inside,
            Main::Ended,
            Main::NotSeen,
            Main::Outside,
            Main::Unknown,
        ];
        for main in all {
            for cgroup in [Cgroup::Empty, Cgroup::None] {
                let findings = Findings {
                    cgroup,
                    ..found(main)
                };
                assert!(
                    findings.verdict().is_ok() && findings.main_has_ended(),
                    "{main:?}"
                );
                let left = Findings {
                    adopted: Adopted::Somebody("7 (daemon)".to_owned()),
                    ..findings.clone()
                };
                assert!(left.verdict().unwrap_err().contains("7 (daemon)"));
                let unseen = Findings {
                    adopted: Adopted::Unknown("EMFILE".to_owned()),
                    ..findings.clone()
                };
                assert!(unseen.verdict().unwrap_err().contains("EMFILE"));
                let unsearched = Findings {
                    marked: Marked::Unknown("EMFILE".to_owned()),
                    ..findings
                };
                assert!(unsearched.verdict().unwrap_err().contains("EMFILE"));
            }
        }
    }

    #[test]
    fn who_was_found_by_its_mark_has_been_ended() {
        let findings = Findings {
            marked: Marked::Somebody(1),
            ..found(Main::Outside)
        };
        assert!(findings.verdict().is_ok());
    }

    #[test]
    fn a_cgroup_that_could_not_be_emptied_is_no_proof() {
        let findings = Findings {
            cgroup: Cgroup::Failed("EMFILE".to_owned()),
            ..found(Main::Ended)
        };
        assert!(findings.verdict().is_err() && findings.main_has_ended());
    }

    #[test]
    fn the_end_of_an_init_is_the_end_of_its_namespace() {
        for cgroup in [Cgroup::None, Cgroup::Empty] {
            for marked in [Marked::Nobody, Marked::Unknown("EMFILE".to_owned())] {
                let findings = Findings {
                    cgroup: cgroup.clone(),
                    marked,
                    ..found(Main::InitEnded)
                };
                assert_eq!(findings.verdict().unwrap(), [Evidence::NamespaceEnded]);
                assert!(findings.main_has_ended());
            }
        }
        let unseen = |marked| Findings {
            cgroup: Cgroup::None,
            marked,
            ..found(Main::InitNotSeen)
        };
        assert!(unseen(Marked::Nobody).verdict().is_ok());
        let unknown = unseen(Marked::Unknown("EMFILE".to_owned()));
        assert!(unknown.verdict().is_err() && !unknown.main_has_ended());
        let failed = Findings {
            cgroup: Cgroup::Failed("EMFILE".to_owned()),
            ..found(Main::InitEnded)
        };
        assert!(failed.verdict().is_err(), "it is to be removed");
    }

    #[test]
    fn the_word_of_a_guardian_is_not_enough_where_there_is_a_cgroup() {
        assert!(concluded(&Cgroup::None).is_ok());
        assert!(concluded(&Cgroup::Empty).is_ok());
        assert!(concluded(&Cgroup::Failed("EMFILE".to_owned())).is_err());
    }

    #[test]
    fn a_guardian_is_given_up_only_when_the_kernel_has_done_its_work() {
        assert!(may_replace(true, true));
        assert!(!may_replace(true, false));
        assert!(!may_replace(false, true));
    }
}
