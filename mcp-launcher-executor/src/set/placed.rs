//! A process of a set's member, which gives its place back when it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{ExitStatus, Gone, Remnant, ServerIdentity, TerminationSemantics};

use super::members::Members;
use crate::{ExecutorError, RemoteProcess};

/// A place in a member's capacity. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    members: Arc<Members>,
    index: usize,
    given_back: AtomicBool,
}

impl Place {
    /// A place that has been counted already.
    pub(super) fn new(members: Arc<Members>, index: usize) -> Self {
        Self {
            members,
            index,
            given_back: AtomicBool::new(false),
        }
    }

    fn give_back(&self) {
        if !self.given_back.swap(true, Ordering::Relaxed) {
            self.members.release(self.index);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[derive(Debug)]
pub(super) struct Placed {
    process: Arc<dyn RemoteProcess>,
    place: Place,
}

impl Placed {
    pub(super) fn new(process: Arc<dyn RemoteProcess>, place: Place) -> Self {
        Self { process, place }
    }

    /// A connection that was lost says something about the member, so that what
    /// is started next goes elsewhere.
    fn heard<T>(&self, outcome: Result<T, ExecutorError>) -> Result<T, ExecutorError> {
        if let Err(error @ (ExecutorError::Lost { .. } | ExecutorError::SessionOver { .. })) =
            &outcome
        {
            self.place.members.heard(self.place.index, Some(error));
        }
        outcome
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl RemoteProcess for Placed {
    fn identity(&self) -> ServerIdentity {
        self.process.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        self.process.semantics()
    }

    async fn wait(&self) -> ExitStatus {
        self.process.wait().await
    }

    async fn signal(&self) -> Result<(), ExecutorError> {
        self.heard(self.process.signal().await)
    }

    async fn terminate(&self) -> Result<(), ExecutorError> {
        self.heard(self.process.terminate().await)
    }

    async fn gone(&self) -> Result<Gone, ExecutorError> {
        let gone = self.heard(self.process.gone().await);
        if gone.is_ok() {
            self.place.give_back();
        }
        gone
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, ExecutorError> {
        self.heard(self.process.survivors().await)
    }

    fn terminate_now(&self) {
        self.process.terminate_now();
    }
}
