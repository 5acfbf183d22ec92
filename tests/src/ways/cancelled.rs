//! Launches that nobody waits for any more.

use mcp_lifecycle_core::launch::LaunchContext;
use std::sync::Arc;

use tokio::time::timeout;

use crate::failure::{Check, Failure};
use crate::polls::{LetGo, PollTimes};
use crate::stage::Stage;

/// More polls than any launch has await points.
const MOST_POLLS: u32 = 256;

/// How often all of it is done. What a launcher leaves to other threads may be
/// done before a poll returns, so that one pass can miss an await point.
const PASSES: u32 = 3;

/// Drops the launch after every number of polls that does not complete it, at
/// once and when it was about to go on; and the launched server at last.
pub(super) async fn at_each_await(stage: &Stage) -> Check {
    for _ in 0..PASSES {
        for let_go in [LetGo::AtOnce, LetGo::WhenWoken] {
            let mut polls = 0;
            while !launch_polled(stage, polls, let_go).await? {
                polls += 1;
                if polls > MOST_POLLS {
                    return Err(Failure::new(format!("no launch in {MOST_POLLS} polls")));
                }
            }
        }
    }
    Ok(())
}

/// Returns whether so many polls complete the launch. Either way it is dropped.
async fn launch_polled(stage: &Stage, polls: u32, let_go: LetGo) -> Check<bool> {
    let spec = stage.spec()?;
    let launcher = Arc::clone(&stage.subject.launcher);
    let polled = PollTimes {
        future: async move { launcher.launch(&spec, &LaunchContext::new()).await },
        left: polls,
        let_go,
    };
    let launched = match timeout(stage.limit(), polled).await {
        Ok(polled) => polled.transpose()?,
        Err(_) => return Err(Failure::new("the launch does not return")),
    };
    let completed = launched.is_some();
    drop(launched);
    let judged = async {
        stage.send_canaries().await?;
        stage.close().await
    };
    let place = |failure: Failure| failure.during(format_args!("dropped after poll {polls}"));
    judged.await.map_err(place)?;
    Ok(completed)
}
