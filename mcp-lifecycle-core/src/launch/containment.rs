use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

/// The reach of an action; a wider one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the reach has its name")]
pub enum Reach {
    #[displaydoc("nothing")]
    Nothing,
    #[displaydoc("process")]
    Process,
    /// The main process and everything that stayed in its process group.
    #[displaydoc("process group")]
    Group,
    /// The group, and every descendant that carries the launcher's mark in its environment or is
    /// below one that does: not an orphan that wiped its environment.
    #[displaydoc("process tree, as far as it is marked")]
    Marked,
    /// Every descendant, even after leaving the group or the session.
    #[displaydoc("process tree")]
    Tree,
    /// Everything inside, enforced by the kernel or the container engine.
    #[displaydoc("container")]
    Container,
}

/// The mechanism that holds a server's processes together, and its strength.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Containment {
    /// The mechanism in a word or two: `"process group"`, `"guardian"`.
    pub mechanism: Cow<'static, str>,
    /// The reach of a forced end.
    pub on_terminate: Reach,
    /// The reach of the end that follows when the host dies abruptly (SIGKILL, OOM kill), without
    /// waiting for a later `reap_orphans`.
    pub on_host_death: Reach,
    /// `true` if containment is complete before the server's first instruction,
    /// so that a host killed at any instant of a launch leaks nothing.
    pub placement_is_atomic: bool,
    /// `true` if the server cannot signal or trace its host and what holds it, nor leave that.
    pub is_hardened: bool,
    /// `true` if the server writes only what it was given.
    pub writes_are_limited: bool,
    /// The reason that a stronger mechanism was refused, if one was tried.
    pub fallback: Option<Cow<'static, str>>,
}

crate::setters! { Containment:
    /// Sets the reach of the host's death.
    #[must_use]
    host_death(reach: Reach) |it| it.on_host_death = reach;
    /// Claims that placement is complete before the server's first instruction.
    #[must_use]
    atomic_placement() |it| it.placement_is_atomic = true;
    /// Claims that the server cannot signal or trace its host and what holds it, nor leave that.
    #[must_use]
    hardened() |it| it.is_hardened = true;
    /// Records why a stronger mechanism is not in use.
    #[must_use]
    fallback(why: impl Into<Cow<'static, str>>) |it| it.fallback = Some(why.into());
}

impl Containment {
    /// Creates a containment with this reach on a forced end, and none for the death of the host.
    pub fn new(mechanism: impl Into<Cow<'static, str>>, on_terminate: Reach) -> Self {
        Self {
            mechanism: mechanism.into(),
            on_terminate,
            on_host_death: Reach::Nothing,
            placement_is_atomic: false,
            is_hardened: false,
            writes_are_limited: false,
            fallback: None,
        }
    }

    /// Turns a silent fallback into an error.
    ///
    /// # Errors
    ///
    /// [`ContainmentUnavailable`] when this containment does not give `wanted`.
    pub fn require(&self, wanted: Guarantee) -> Result<(), ContainmentUnavailable> {
        let has = match wanted {
            Guarantee::Terminate(reach) => self.on_terminate >= reach,
            Guarantee::HostDeath(reach) => self.on_host_death >= reach,
            Guarantee::AtomicPlacement => self.placement_is_atomic,
            Guarantee::Hardened => self.is_hardened,
            Guarantee::LimitedWrites => self.writes_are_limited,
        };
        if has {
            return Ok(());
        }
        Err(ContainmentUnavailable {
            wanted,
            got: self.clone(),
        })
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{} (terminate reaches: {}; host death reaches: {}; placement {})",
            if self.is_hardened { "hardened " } else { "" },
            self.mechanism,
            if self.writes_are_limited {
                ", limited writes"
            } else {
                ""
            },
            self.on_terminate,
            self.on_host_death,
            if self.placement_is_atomic {
                "atomic"
            } else {
                "not atomic"
            }
        )?;
        match &self.fallback {
            Some(why) => write!(f, "; fell back: {why}"),
            None => Ok(()),
        }
    }
}

/// A guarantee that a caller can require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, displaydoc::Display)]
#[non_exhaustive]
pub enum Guarantee {
    /// A forced end reaches at least this far.
    #[displaydoc("a forced end that reaches the {0}")]
    Terminate(Reach),
    /// The death of the host reaches at least this far.
    #[displaydoc("an end of the {0} when the host dies")]
    HostDeath(Reach),
    /// Containment is complete before the server's first instruction.
    #[displaydoc("placement before the first instruction")]
    AtomicPlacement,
    /// The server cannot signal or trace its host and what holds it, nor leave that.
    #[displaydoc("a server that cannot reach its host and what holds it")]
    Hardened,
    /// The server writes only what it was given.
    #[displaydoc("a server that writes only what it was given")]
    LimitedWrites,
}

/// A required guarantee that the machine or the launcher cannot give.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("containment cannot give {wanted}: this launcher has {got}")]
pub struct ContainmentUnavailable {
    wanted: Guarantee,
    got: Containment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn require_turns_a_fallback_into_an_error() {
        let group = Containment::new("process group", Reach::Group).fallback("memfd refused");
        assert!(group.require(Guarantee::Terminate(Reach::Group)).is_ok());
        let error = group
            .require(Guarantee::HostDeath(Reach::Tree))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("when the host dies"), "{text}");
        assert!(text.contains("memfd refused"), "{text}");
        let mut limited = group;
        assert!(limited.require(Guarantee::LimitedWrites).is_err());
        limited.writes_are_limited = true;
        assert!(limited.require(Guarantee::LimitedWrites).is_ok());
        assert!(limited.to_string().contains("limited writes"));
    }
}
