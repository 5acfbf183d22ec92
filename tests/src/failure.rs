//! The reason an experiment has not passed.

use std::error::Error;
use std::fmt;

use mcp_lifecycle_core::launch::ErrorChain;

use crate::contract::Rule;
use crate::verdict::Verdict;

/// The result of a check.
pub(crate) type Check<T = ()> = Result<T, Failure>;

/// The reason an experiment has not passed.
///
/// Not an [`Error`] itself, so that `?` takes any error.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Something did not hold: what, and the sentence of the contract, once it is known.
    Broken(String, Option<&'static Rule>),
    /// The launcher does not promise it, or the kit cannot see it there.
    NotApplicable(String),
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Broken(what.into(), None)
    }

    /// Says what was being done.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Broken(why, rule) => Self::Broken(format!("{what}: {why}"), rule),
            other => other,
        }
    }

    /// Adds what the server has said, if it has said anything.
    pub(crate) fn followed_by(self, words: &str) -> Self {
        match self {
            Self::Broken(why, rule) if !words.is_empty() => {
                Self::Broken(format!("{why}; on standard error: {words}"), rule)
            }
            other => other,
        }
    }

    /// Names the sentence that is broken, unless that was done nearer to it.
    pub(crate) fn breaks(self, rule: &'static Rule) -> Self {
        match self {
            Self::Broken(why, None) => Self::Broken(why, Some(rule)),
            other => other,
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::NotApplicable(why) => Verdict::NotApplicable(why),
            Self::Broken(why, rule) => Verdict::Failed {
                rule: rule.map_or_else(|| why.clone(), |rule| rule.name.to_owned()),
                why: match rule {
                    Some(rule) => format!(
                        "{}\n  the contract ({}): {}\n  to do: {}",
                        why.trim_end(),
                        rule.place,
                        rule.sentence,
                        rule.advice
                    ),
                    None => why,
                },
            },
        }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(ErrorChain(&error).to_string())
    }
}

/// Fails unless `condition`.
pub(crate) fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Check {
    if condition {
        return Ok(());
    }
    Err(Failure::new(otherwise()))
}
