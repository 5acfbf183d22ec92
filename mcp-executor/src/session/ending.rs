use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};

use super::{Process, Session, Slot};

/// Time limit for a client to receive the last events during a shutdown.
const DELIVERY: Duration = Duration::from_secs(2);

impl Session {
    /// Ends every process in parallel, in order, and gives the client time to receive their events.
    pub(crate) async fn wind_down(&self) {
        self.closing.store(true, Ordering::Release);
        let running = self.stop_launches();
        self.end_each(&running, &EndReason::Shutdown).await;
        self.launching.close();
        self.launching.wait().await;
        if self.has_ended() {
            // Its end may have emptied the table before.
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

    /// Ends these processes in parallel, without graces once a hurry is requested.
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

    /// Ends everything in parallel, or joins an end in progress. Cancel safe: the end continues.
    pub(crate) async fn end(self: &Arc<Self>, reason: EndReason) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.audit.over(&reason, self.processes.lock().len());
            let session = Arc::clone(self);
            // Set even after a panic, so that waiters are released.
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
        drop(self.change(|outbox| std::mem::take(&mut outbox.ready)));
    }
}
