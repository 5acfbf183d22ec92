//! Experiments on the processes that a search for orphans must not end.

#[cfg(unix)]
mod strangers;

use crate::contract;
use crate::failure::{Check, Failure};
use crate::stage::Stage;

#[cfg(unix)]
pub(super) use strangers::strangers_are_spared;

pub(super) async fn the_living_are_spared(stage: &Stage) -> Check {
    let (_server, process) = stage.start_one(&stage.spec()?).await?;
    reap(stage).await?;
    let pinged = process.ping(stage.limit()).await;
    pinged.map_err(|error| Failure::from(error).during("a server of this host after the search"))
}

#[cfg(windows)]
pub(super) async fn strangers_are_spared(_: &Stage) -> Check {
    let why = "a shell starts the strangers, and there is none";
    Err(Failure::NotApplicable(why.to_owned()))
}

async fn reap(stage: &Stage) -> Check {
    let search = stage.subject.launcher.reap_orphans();
    stage
        .within("the search", &contract::LIVING, search)
        .await??;
    Ok(())
}
