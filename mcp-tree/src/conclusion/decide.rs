//! The host's verdict on a server whose guardian gives none: it was killed, or a tracer holds it.
//! Pure.

use std::borrow::Cow;

use mcp_lifecycle_core::launch::Evidence;

/// The main process, when the guardian was found dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Main {
    /// The guardian has not reported one.
    NotSeen,
    /// It has ended: no process has its pid and its start time.
    Ended,
    /// It lives in its cgroup.
    Inside,
    /// It lives, and has left its cgroup or never had one.
    Outside,
    /// It could not be looked at.
    Unknown,
    /// It was the init of a PID namespace and has ended, after all others inside.
    InitEnded,
    /// The guardian has not reported the init of the PID namespace, which would carry the mark.
    InitNotSeen,
}

/// The cgroup or the process group of the server, after the host has tried to empty it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The server had none.
    None,
    /// The kernel reports that it is empty. A cgroup is removed.
    Empty(Evidence),
    /// It could not be emptied, or not be read, for this reason.
    Failed(String),
}

/// The result of the search after that, which has ended all that carries the server's identity: the
/// reparented processes that may be the server's (`adopted`), or why it failed.
pub type Searched = Result<Option<String>, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    pub main: Main,
    pub holder: Holder,
    pub searched: Searched,
}

/// Returns what the holder adds to the evidence of a report, or why the report is no proof.
pub fn concluded(holder: &Holder) -> Result<Option<Evidence>, Cow<'static, str>> {
    match holder {
        Holder::None => Ok(None),
        Holder::Empty(evidence) => Ok(Some(evidence.clone())),
        Holder::Failed(why) => Err(Cow::Owned(why.clone())),
    }
}

impl Findings {
    pub fn verdict(&self) -> Result<Vec<Evidence>, Cow<'static, str>> {
        let emptied = concluded(&self.holder)?;
        match (&self.main, &self.searched) {
            (Main::InitEnded, _) => Ok(vec![Evidence::NamespaceEnded]),
            (_, Err(error)) => Err(Cow::Owned(format!("{NOT_SEARCHED}: {error}"))),
            // The search has waited for the end of each process that it found.
            (Main::InitNotSeen, Ok(_)) => Ok(vec![Evidence::NoneMarked]),
            // What lives of the server has, or is below, a process that was reparented when the
            // guardian ended.
            (_, Ok(Some(names))) => Err(Cow::Owned(format!("{ADOPTED}: {names}"))),
            (_, Ok(None)) => {
                let evidence = [Evidence::NoneMarked, Evidence::NoneAdopted];
                Ok(emptied.into_iter().chain(evidence).collect())
            }
        }
    }

    pub fn main_has_ended(&self) -> bool {
        match self.main {
            Main::Ended | Main::InitEnded => true,
            Main::Inside | Main::NotSeen if matches!(self.holder, Holder::Empty(_)) => true,
            _ => self.verdict().is_ok(),
        }
    }
}

/// Returns whether the host may end a guardian that a tracer holds. Its death sets free the
/// processes that it guards, so the cgroup must have been killed before.
pub fn may_replace(is_held: bool, cgroup_was_killed: bool) -> bool {
    is_held && cgroup_was_killed
}

const NOT_SEARCHED: &str = "what is left of the server could not be searched for";
const ADOPTED: &str = "what was known of the server was sent SIGKILL, but \
                       these processes have lost their parents since it was started and may be \
                       its (once they have gone, another attempt proves it)";

#[cfg(test)]
mod tests {
    use super::*;

    const CGROUP: Holder = Holder::Empty(Evidence::CgroupEmpty);

    fn found(main: Main) -> Findings {
        Findings {
            main,
            holder: CGROUP,
            searched: Ok(None),
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
            for holder in [CGROUP, Holder::None] {
                let findings = Findings {
                    holder,
                    ..found(main)
                };
                assert!(
                    findings.verdict().is_ok() && findings.main_has_ended(),
                    "{main:?}"
                );
                let left = Findings {
                    searched: Ok(Some("7 (daemon)".to_owned())),
                    ..findings.clone()
                };
                assert!(left.verdict().unwrap_err().contains("7 (daemon)"));
                let unsearched = Findings {
                    searched: Err("EMFILE".to_owned()),
                    ..findings
                };
                assert!(unsearched.verdict().unwrap_err().contains("EMFILE"));
            }
        }
    }

    #[test]
    fn a_cgroup_that_could_not_be_emptied_is_no_proof() {
        let findings = Findings {
            holder: Holder::Failed("EMFILE".to_owned()),
            ..found(Main::Ended)
        };
        assert!(findings.verdict().is_err() && findings.main_has_ended());
    }

    #[test]
    fn a_main_process_inside_ends_with_its_cgroup() {
        for main in [Main::Inside, Main::NotSeen] {
            let unsearched = Findings {
                searched: Err("EMFILE".to_owned()),
                ..found(main)
            };
            assert!(unsearched.verdict().is_err() && unsearched.main_has_ended());
            let occupied = Findings {
                holder: Holder::Failed("EMFILE".to_owned()),
                ..found(main)
            };
            assert!(!occupied.main_has_ended(), "{main:?}");
        }
    }

    #[test]
    fn the_end_of_an_init_is_the_end_of_its_namespace() {
        for holder in [Holder::None, CGROUP] {
            for searched in [Ok(None), Err("EMFILE".to_owned())] {
                let findings = Findings {
                    holder: holder.clone(),
                    searched,
                    ..found(Main::InitEnded)
                };
                assert_eq!(findings.verdict().unwrap(), [Evidence::NamespaceEnded]);
                assert!(findings.main_has_ended());
            }
        }
        let unseen = |searched| Findings {
            holder: Holder::None,
            searched,
            ..found(Main::InitNotSeen)
        };
        assert_eq!(unseen(Ok(None)).verdict().unwrap(), [Evidence::NoneMarked]);
        let unknown = unseen(Err("EMFILE".to_owned()));
        assert!(unknown.verdict().is_err() && !unknown.main_has_ended());
        let failed = Findings {
            holder: Holder::Failed("EMFILE".to_owned()),
            ..found(Main::InitEnded)
        };
        assert!(failed.verdict().is_err(), "it is to be removed");
    }

    #[test]
    fn the_word_of_a_guardian_is_not_enough_where_there_is_a_cgroup() {
        assert!(concluded(&Holder::None).is_ok());
        assert!(concluded(&CGROUP).is_ok());
        assert!(concluded(&Holder::Failed("EMFILE".to_owned())).is_err());
    }

    #[test]
    fn a_guardian_is_given_up_only_when_the_kernel_has_done_its_work() {
        assert!(may_replace(true, true));
        assert!(!may_replace(true, false));
        assert!(!may_replace(false, true));
    }
}
