//! Spare guardians, where none are made: other Unix than Linux.

use super::Plan;

/// None is ever made.
#[derive(Debug)]
pub(crate) struct Spares;

impl Spares {
    pub(crate) fn new(_most: usize) -> Self {
        Self
    }

    pub(crate) fn warm_up(&self, plan: &Plan) -> usize {
        plan.no_spares()
    }

    pub(crate) fn launching(&self) -> Launching {
        Launching
    }

    pub(crate) fn launched(&self) {}

    pub(crate) fn give_up(&self) {}
}

/// A start during which none is made.
#[derive(Debug)]
pub(crate) struct Launching;
