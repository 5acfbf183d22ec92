//! The end of a session: its processes, in order, and what its client is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
use tokio_util::sync::CancellationToken;

use super::super::process::Process;
use super::{Session, Slot};

/// How long a client may take to receive the last events when the daemon
/// leaves.
const DELIVERY: Duration = Duration::from_secs(2);

impl Session {
    /// Is cancelled when every process has been ended, or that was tried.
    pub(in crate::daemon) fn finished(&self) -> CancellationToken {
        self.finished.clone()
    }

    /// Ends every process in order, in parallel, and gives the client the time
    /// to take what there is to tell.
    pub(in crate::daemon) async fn wind_down(&self) {
        self.closing.store(true, Ordering::Release);
        let running = self.stop_launches();
        self.end_each(&running, &EndReason::Shutdown).await;
        self.launching.close();
        self.launching.wait().await;
        if self.has_ended() {
            // Its end may have taken the processes out of the table before.
            return self.finished.cancelled().await;
        }
        let deliver = async {
            loop {
                let mut taken = std::pin::pin!(self.delivered.notified());
                taken.as_mut().enable();
                if !self.outbox.lock().attached || running.iter().all(|p| p.is_told()) {
                    return;
                }
                taken.await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(DELIVERY, deliver) => {}
            () = self.hurry.cancelled() => {}
        }
    }

    /// Ends these in parallel: in order, until there is hurry.
    async fn end_each(&self, running: &[Arc<Process>], reason: &EndReason) {
        let ends = running.iter().map(async |process| {
            tokio::select! {
                () = process.end(&self.limits.orphans, reason.clone()) => {}
                () = self.hurry.cancelled() => {
                    let _ = process.terminator.force_end().await;
                    process.end(&TerminationPolicy::immediate(), reason.clone()).await;
                }
            }
        });
        futures_util::future::join_all(ends).await;
    }

    /// Cancels what is being launched; what runs.
    fn stop_launches(&self) -> Vec<Arc<Process>> {
        let mut running = Vec::new();
        self.processes.lock().retain(|_, slot| match slot {
            Slot::Starting { cancel, .. } => {
                cancel.cancel();
                false
            }
            Slot::Running(process) => {
                running.push(Arc::clone(process));
                true
            }
        });
        running
    }

    /// Ends everything, in parallel, and waits for it, whoever asked first.
    ///
    /// Cancel safe: the end goes on.
    pub(in crate::daemon) async fn end(self: &Arc<Self>, reason: EndReason) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.audit.over(&reason, self.processes.lock().len());
            let session = Arc::clone(self);
            // Also by a panic: whoever waits must not wait for ever.
            let finished = self.finished.clone().drop_guard();
            tokio::spawn(async move {
                session.end_processes(reason).await;
                drop(finished);
            });
        }
        self.finished.cancelled().await;
    }

    async fn end_processes(&self, reason: EndReason) {
        let running = self.stop_launches();
        self.processes.lock().clear();
        self.launching.close();
        running.iter().for_each(|process| process.abandon());
        self.end_each(&running, &reason).await;
        self.launching.wait().await;
        let (waker, ready) = {
            let mut outbox = self.outbox.lock();
            (outbox.waker.take(), std::mem::take(&mut outbox.ready))
        };
        drop(ready);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
