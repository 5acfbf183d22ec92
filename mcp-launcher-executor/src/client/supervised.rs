use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Evidence, ExitStatus, Gone, LaunchedServer, ProcessTerminator, Remnant, ServerIdentity,
    StepError, TerminationSemantics,
};
use serde_json::json;

use super::Established;
use super::connection::Connection;
use super::process::{Remote, Status};
use crate::protocol::extension::SurvivorsResult;
use crate::protocol::method;
use crate::protocol::process::StartParams;
use crate::wire::remnant;
use crate::{ExecutorError, Result};

pub(super) async fn start(
    established: &Established,
    peer: String,
    params: StartParams,
) -> Result<LaunchedServer> {
    let wiring = established.connection.start(params).await?;
    let (connection, semantics) = (
        established.connection.clone(),
        established.semantics.clone(),
    );
    Ok(wiring.started(|remote| {
        Arc::new(Supervised {
            remote,
            connection,
            semantics,
            peer,
            signals: AtomicU64::new(0),
        })
    }))
}

#[derive(Debug)]
struct Supervised {
    remote: Arc<Remote>,
    connection: Connection,
    semantics: TerminationSemantics,
    peer: String,
    signals: AtomicU64,
}

impl Supervised {
    fn gone_without_word(&self, error: ExecutorError) -> Result<Gone> {
        let death = self.connection.death();
        let death = death.map(|(since, why)| (since.elapsed(), why));
        gone_with_its_session(error, death, self.connection.longest_after_loss())
    }
}

/// Decides whether the end of a process's session was reported, or must have come by the lease,
/// counted from the last attempt to resume. Pure.
fn gone_with_its_session(
    error: ExecutorError,
    death: Option<(Duration, &ExecutorError)>,
    bound: Option<Duration>,
) -> Result<Gone> {
    match (death, bound) {
        (Some((_, over @ ExecutorError::SessionOver { reason, unproven })), _) => match unproven {
            0 => Ok(Gone::proven_by(Evidence::RemoteReported(reason.clone()))),
            _ => Err(over.clone()),
        },
        (Some((since, _)), Some(bound)) if since >= bound => Ok(Gone::proven_by(Evidence::Other(
            "its executor has not heard of us for longer than its lease, and ends what it does \
             not hear of unless it is itself stopped"
                .into(),
        ))),
        _ => Err(error),
    }
}

#[async_trait]
impl ProcessTerminator for Supervised {
    fn identity(&self) -> ServerIdentity {
        self.remote.identity(&self.peer)
    }

    fn semantics(&self) -> TerminationSemantics {
        self.semantics.clone()
    }

    async fn exited(&self) -> ExitStatus {
        let mut status = self.remote.status.subscribe();
        let over =
            |error: &ExecutorError| matches!(error, ExecutorError::SessionOver { unproven: 0, .. });
        let told = |s: &Status| s.failed.as_ref().is_some_and(over);
        tokio::select! {
            biased;
            exit = exit_of(&self.remote) => exit,
            Ok(_) = status.wait_for(told) => ExitStatus::Unknown,
        }
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let id = self.signals.fetch_add(1, Ordering::Relaxed);
        let params = json!({"processId": self.remote.id, "signal": "terminate", "signalId": id});
        let asked = self.connection.call(method::SIGNAL, params).await;
        asked.map(drop).map_err(step(ASK))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let params = json!({"processId": self.remote.id});
        let forced = self.connection.call(method::TERMINATE, params).await;
        forced.map(drop).map_err(step(FORCE))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.proof().await.map_err(step(PROVE))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        self.alive().await.map_err(step(LIST))
    }

    fn kill_now(&self) {
        let over = self.remote.status.borrow().gone.is_some();
        if !over {
            self.connection.terminate_now(&self.remote.id);
        }
    }
}

impl Supervised {
    async fn proof(&self) -> Result<Gone> {
        let mut status = self.remote.status.subscribe();
        let over = |status: &Status| status.gone.is_some() || status.failed.is_some();
        let status = match status.wait_for(over).await {
            Ok(status) => status.clone(),
            Err(_) => Status::default(),
        };
        match status {
            Status {
                gone: Some(proof), ..
            } => match proof.failure {
                Some(what) => Err(ExecutorError::Unproven { what }),
                None => {
                    let words = match proof.evidence.is_empty() {
                        true => "nothing is left".to_owned(),
                        false => proof.evidence.join("; "),
                    };
                    let evidence = Evidence::RemoteReported(words);
                    let swept = proof.swept.into_iter().map(remnant);
                    let mut gone = Gone::proven_by(evidence).swept(swept);
                    gone.swept_count = gone.swept_count.max(proof.swept_count as usize);
                    Ok(gone)
                }
            },
            Status {
                failed: Some(error),
                ..
            } => self.gone_without_word(error),
            Status { .. } => Err(ExecutorError::lost("the session is over")),
        }
    }

    async fn alive(&self) -> Result<Vec<Remnant>> {
        // A daemon forgets a proof once it is acknowledged.
        let proven = |status: &Status| status.gone.as_ref().is_some_and(|p| p.failure.is_none());
        let failed = {
            let status = self.remote.status.subscribe();
            let status = status.borrow();
            if proven(&status) {
                return Ok(Vec::new());
            }
            status.failed.clone()
        };
        if let Some(error) = failed {
            return self.gone_without_word(error).map(|_| Vec::new());
        }
        let params = json!({"processId": self.remote.id});
        let result = self.connection.call(method::SURVIVORS, params).await?;
        let result: SurvivorsResult = super::session::parse(method::SURVIVORS, &result)?;
        Ok(result.alive.into_iter().map(remnant).collect())
    }
}

pub(super) const ASK: &str = "ask the remote server to end";
pub(super) const FORCE: &str = "end the remote server by force";
pub(super) const PROVE: &str = "prove that the remote server is gone";
pub(super) const LIST: &str = "name what is left of the remote server";

pub(super) fn step(what: &'static str) -> impl Fn(ExecutorError) -> StepError {
    move |error| StepError::new(what, error)
}

/// Waits for the exit status; for ever if the process cannot be followed any more.
pub(super) async fn exit_of(remote: &Remote) -> ExitStatus {
    let mut status = remote.status.subscribe();
    let exited = status.wait_for(|status| status.exit.is_some()).await;
    match exited.ok().and_then(|status| status.exit) {
        Some(exit) => exit,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> ExecutorError {
        let reason = "test".to_owned();
        ExecutorError::Lost { reason }
    }

    fn over(unproven: u64) -> ExecutorError {
        let reason = "said".to_owned();
        ExecutorError::SessionOver { reason, unproven }
    }

    fn is_gone(death: Option<(u64, &ExecutorError)>, bound: Option<u64>) -> bool {
        let death = death.map(|(since, why)| (Duration::from_secs(since), why));
        gone_with_its_session(lost(), death, bound.map(Duration::from_secs)).is_ok()
    }

    #[test]
    fn the_bound_counts_from_the_end_of_the_session() {
        assert!(is_gone(Some((31, &lost())), Some(31)));
        assert!(!is_gone(Some((30, &lost())), Some(31)));
        assert!(!is_gone(None, Some(0)), "it goes on, without the process");
        assert!(!is_gone(Some((999, &lost())), None), "there is no lease");
    }

    #[test]
    fn what_the_daemon_could_not_prove_is_not_proven_by_time() {
        assert!(is_gone(Some((0, &over(0))), None));
        assert!(!is_gone(Some((999, &over(1))), Some(0)));
    }
}
