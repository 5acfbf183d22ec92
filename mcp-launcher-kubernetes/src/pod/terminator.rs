use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::backend::known::until;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Reach, Remnant, RemnantKind,
    ServerIdentity, StepError, TerminationSemantics,
};

use super::LivePod;
use crate::cluster::{Deletion, Kind, Patience};
use crate::control::CONTROL;
use crate::error::Meaning;

#[derive(Debug)]
pub(crate) struct PodTerminator {
    pub(super) pod: Arc<LivePod>,
}

/// Describes the containment. When the host dies, stdin ends with the connection: a polite server exits,
/// and a supervised init ends a stubborn one.
pub(crate) fn semantics(supervised: bool) -> TerminationSemantics {
    let containment = match supervised {
        true => Containment::new("pod with a supervised init", Reach::Container)
            .host_death(Reach::Container)
            .atomic_placement(),
        false => Containment::new("pod", Reach::Container),
    };
    TerminationSemantics::all(containment)
}

impl PodTerminator {
    fn remnant(&self) -> Remnant {
        let seen = self.pod.entry.seen();
        let seen = seen.borrow();
        let last = seen.last.as_ref();
        let node = last.and_then(|pod| pod.node.clone());
        let id = last.and_then(|pod| pod.server()?.id.clone());
        let on = node.map_or_else(String::new, |node| format!(" on node {node}"));
        let container = id.map_or_else(String::new, |id| format!(", container {id}"));
        let name = format!("{}{on}{container}", self.pod.name);
        Remnant::new(RemnantKind::Other("pod".into()), self.pod.uid.clone(), name)
    }
}

#[async_trait]
impl ProcessTerminator for PodTerminator {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Other(format!("pod {} (uid {})", self.pod.name, self.pod.uid))
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics(self.pod.supervised)
    }

    async fn exited(&self) -> ExitStatus {
        let known = until(&self.pod.known, |known| known.exit.is_some()).await;
        known.exit.unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.pod.discard.cancel();
        if self.pod.known.borrow().exit.is_some() {
            return Ok(());
        }
        let pod = Arc::clone(&self.pod);
        let asked = CONTROL.run(async move {
            pod.told().await;
            let what = Deletion {
                name: &pod.name,
                uid: Some(&pod.uid),
                grace: Some(pod.grace),
                ..Deletion::default()
            };
            let patience = Patience::new().until(pod.force.clone());
            let ask = || pod.cluster.delete(Kind::Pod, what);
            match patience.answered(ask).await {
                Err(error) if matches!(error.meaning, Meaning::Absent | Meaning::Conflict) => {
                    Ok(())
                }
                asked => asked,
            }
        });
        asked
            .await
            .map_err(|error| StepError::new("ask the pod to end", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.pod.force();
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        let known = until(&self.pod.known, |known| known.end.is_some()).await;
        match known.end {
            Some(Ok(evidence)) => Ok(Gone::proven_by(Evidence::Other(evidence.into()))),
            Some(Err(why)) => Err(StepError::new("prove that the pod has ended", why)),
            None => unreachable!("it was waited for"),
        }
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let known = self.pod.known.borrow().clone();
        if let Some(Ok(_)) = known.end {
            return Ok(Vec::new());
        }
        if let Some(refused) = known.refused {
            return Err(StepError::new("delete the pod", refused));
        }
        let lost = self.pod.entry.seen().borrow().lost.clone();
        let lost = lost.map(|lost| lost.words);
        match lost {
            Some(problem) => Err(StepError::new("look for the pod", problem)),
            None => Ok(vec![self.remnant()]),
        }
    }

    fn kill_now(&self) {
        if !matches!(self.pod.known.borrow().end, Some(Ok(_))) {
            self.pod.force();
        }
    }
}
