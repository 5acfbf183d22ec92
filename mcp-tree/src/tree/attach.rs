//! The start of a tree by a command of the standard library, which forks.

use std::io;
use std::process::Command;

use super::guarded::{Guarded, Reap};
use super::start::{Place, UNDO_LIMIT};
use super::{Options, Tree};
use crate::cgroup::Leaf;
use crate::command::new_identity;
use crate::plan::Plan;
use crate::program::Attached;
use crate::{identity, sys};

/// A guardian that starts with the next start of a command.
///
/// # Drop
///
/// Undoes a start that has failed, which takes five seconds at most.
#[derive(Debug)]
pub(crate) struct Attaching(Option<(Attached, Place, String)>);

impl Attaching {
    pub(crate) fn new(command: &mut Command, options: &Options) -> io::Result<Self> {
        sys::own_servers()?;
        let plan = Plan::best(false, true).map_err(|why| {
            let why = format!("this machine has no guardian: {why}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let identity = new_identity().map_err(io::Error::other)?;
        let mark = identity
            .as_ref()
            .map_or_else(Default::default, |it| it.variable());
        command.env_remove(identity::KEEP);
        match &identity {
            Some(identity) => command.env(identity::VARIABLE, identity.to_string()),
            None => command.env_remove(identity::VARIABLE),
        };
        let name = command.get_program().to_string_lossy().into_owned();
        let place = Place::prepare(identity, plan).map_err(io::Error::other)?;
        let leaf = place.leaf.as_ref().ok();
        let attached = leaf.map(Leaf::open).transpose().and_then(|doors| {
            let cgroup = leaf.map(Leaf::name).zip(doors.as_ref());
            Attached::new(command, mark, cgroup, options.grace).map_err(io::Error::other)
        });
        match attached {
            Ok(attached) => Ok(Self(Some((attached, place, name)))),
            Err(error) => {
                place.vacate();
                Err(error)
            }
        }
    }

    /// Holds the guardian, which is this child, and returns when the program runs.
    pub(crate) fn hold(mut self, child: u32, reap: Reap) -> io::Result<Tree> {
        let (attached, place, name) = self.0.take().ok_or(io::ErrorKind::InvalidInput)?;
        let (guardian, pid) = match attached.hold(child, UNDO_LIMIT) {
            Ok(held) => held,
            Err((error, attached)) => {
                self.0 = Some((attached, place, name));
                // Before the owner of the child, which may kill the guardian when it is dropped.
                drop(self);
                return Err(error);
            }
        };
        let tree = Tree::of(Guarded::new(guardian, place));
        let guarded = &tree.guarded;
        *guarded.reap.lock() = Some(reap);
        let _ = guarded.program.set(name);
        guarded.note_start(pid);
        if let Err(error) = guarded.watch() {
            guarded.end_and_wait(UNDO_LIMIT);
            return Err(error);
        }
        Ok(tree)
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        if let Some((attached, place, _)) = self.0.take()
            && attached.undo(UNDO_LIMIT)
        {
            place.vacate();
        }
    }
}
