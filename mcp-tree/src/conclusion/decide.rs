//! The host's verdict on a server whose guardian gives none: it was killed, or a tracer holds it.
//! Pure.

use std::borrow::Cow;

use mcp_lifecycle_core::launch::Evidence;

use super::{Emptied, Found, Holder};

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

impl Emptied {
    /// Returns the evidence that nothing is left, or why there is none.
    pub(crate) fn verdict(
        &self,
        searched: &Result<Found, String>,
    ) -> Result<Vec<Evidence>, Cow<'static, str>> {
        let emptied = self.holder.evidence()?;
        match (&self.main, searched) {
            (Main::InitEnded, _) => Ok(vec![Evidence::NamespaceEnded]),
            (_, Err(error)) => Err(Cow::Owned(format!("{NOT_SEARCHED}: {error}"))),
            // The search has waited for the end of each process that it found.
            (Main::InitNotSeen, Ok(_)) => Ok(vec![Evidence::NoneMarked]),
            (_, Ok(found)) => match &found.adopted {
                // What lives of the server has, or is below, a process that was reparented when the
                // guardian ended.
                Some(names) => Err(Cow::Owned(format!("{ADOPTED}: {names}"))),
                None => {
                    let evidence = [Evidence::NoneMarked, Evidence::NoneAdopted];
                    Ok(emptied.into_iter().chain(evidence).collect())
                }
            },
        }
    }

    pub(super) fn main_has_ended(&self, searched: &Result<Found, String>) -> bool {
        match self.main {
            Main::Ended | Main::InitEnded => true,
            Main::Inside | Main::NotSeen if matches!(self.holder, Holder::Empty(_)) => true,
            _ => self.verdict(searched).is_ok(),
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

    fn emptied(main: Main, holder: Holder) -> Emptied {
        Emptied {
            main,
            holder,
            inside: Default::default(),
        }
    }

    fn found(adopted: Option<&str>) -> Result<Found, String> {
        Ok(Found {
            ended: Default::default(),
            adopted: adopted.map(str::to_owned),
        })
    }

    fn unsearched() -> Result<Found, String> {
        Err("EMFILE".to_owned())
    }

    fn unempty() -> Holder {
        Holder::Failed("EMFILE".to_owned())
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
                let it = emptied(main, holder);
                let none = found(None);
                assert!(
                    it.verdict(&none).is_ok() && it.main_has_ended(&none),
                    "{main:?}"
                );
                let left = it.verdict(&found(Some("7 (daemon)")));
                assert!(left.unwrap_err().contains("7 (daemon)"));
                assert!(it.verdict(&unsearched()).unwrap_err().contains("EMFILE"));
            }
        }
    }

    #[test]
    fn a_cgroup_that_could_not_be_emptied_is_no_proof() {
        let it = emptied(Main::Ended, unempty());
        assert!(it.verdict(&found(None)).is_err() && it.main_has_ended(&found(None)));
    }

    #[test]
    fn a_main_process_inside_ends_with_its_cgroup() {
        for main in [Main::Inside, Main::NotSeen] {
            let it = emptied(main, CGROUP);
            assert!(it.verdict(&unsearched()).is_err() && it.main_has_ended(&unsearched()));
            let occupied = emptied(main, unempty());
            assert!(!occupied.main_has_ended(&found(None)), "{main:?}");
        }
    }

    #[test]
    fn the_end_of_an_init_is_the_end_of_its_namespace() {
        for holder in [Holder::None, CGROUP] {
            for searched in [found(None), unsearched()] {
                let it = emptied(Main::InitEnded, holder.clone());
                assert_eq!(it.verdict(&searched).unwrap(), [Evidence::NamespaceEnded]);
                assert!(it.main_has_ended(&searched));
            }
        }
        let unseen = emptied(Main::InitNotSeen, Holder::None);
        let verdict = unseen.verdict(&found(None));
        assert_eq!(verdict.unwrap(), [Evidence::NoneMarked]);
        assert!(unseen.verdict(&unsearched()).is_err());
        assert!(!unseen.main_has_ended(&unsearched()));
        let failed = emptied(Main::InitEnded, unempty());
        assert!(failed.verdict(&found(None)).is_err(), "it is to be removed");
    }

    #[test]
    fn the_word_of_a_guardian_is_not_enough_where_there_is_a_cgroup() {
        assert!(Holder::None.evidence().is_ok());
        assert!(CGROUP.evidence().is_ok());
        assert!(unempty().evidence().is_err());
    }

    #[test]
    fn a_guardian_is_given_up_only_when_the_kernel_has_done_its_work() {
        assert!(may_replace(true, true));
        assert!(!may_replace(true, false));
        assert!(!may_replace(false, true));
    }
}
