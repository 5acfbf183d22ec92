//! Faults of ends.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::*;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::launcher::semantics;

/// A server of the guide's launcher with a fault.
#[derive(Debug)]
pub(crate) struct PlantedServer {
    inner: Arc<dyn ProcessTerminator>,
    fault: String,
}

impl PlantedServer {
    pub(crate) fn around(
        inner: Arc<dyn ProcessTerminator>,
        fault: &str,
    ) -> Arc<dyn ProcessTerminator> {
        let fault = fault.to_owned();
        Arc::new(Self { inner, fault })
    }

    /// Has the rest of the group killed, later.
    fn kill_helpers(&self) {
        let ServerIdentity::Process { pid, .. } = self.inner.identity() else {
            return;
        };
        if self.fault == "helpers-die-later" {
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
            });
        }
    }
}

#[async_trait]
impl ProcessTerminator for PlantedServer {
    fn identity(&self) -> ServerIdentity {
        match &*self.fault {
            "is-pid-1" => ServerIdentity::process(1, None),
            _ => self.inner.identity(),
        }
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics(&self.fault)
    }

    async fn exited(&self) -> ExitStatus {
        match (self.inner.exited().await, &*self.fault) {
            (_, "exits-with-0") => ExitStatus::Code(0),
            (status, _) => status,
        }
    }

    async fn request_end(&self) -> Result<(), StepError> {
        match &*self.fault {
            "polite-is-sigkill" => self.inner.force_end().await,
            _ => self.inner.request_end().await,
        }
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.kill_helpers();
        self.inner.force_end().await
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        match &*self.fault {
            "never-gone" => std::future::pending().await,
            _ => self.inner.gone().await,
        }
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        match &*self.fault {
            "names-no-survivors" => Ok(Vec::new()),
            _ => self.inner.survivors().await,
        }
    }

    fn kill_now(&self) {
        let without_a_runtime = tokio::runtime::Handle::try_current().is_err();
        if self.fault != "kills-in-a-runtime-only" || !without_a_runtime {
            self.kill_helpers();
            self.inner.kill_now();
        }
    }
}
