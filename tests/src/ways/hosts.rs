//! Hosts that are killed.

use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Check, Failure};
use crate::host::Host;
use crate::random::Random;
use crate::stage::Stage;

/// How many servers a host launches that is killed while it does.
const SERVERS: u32 = 8;

pub(super) async fn idle(stage: &Stage) -> Check {
    let mut host = start_host(stage, 1)?;
    stage.listener.accept("host", stage.limit()).await?;
    stage.wait_for_all().await?;
    host.kill()?;
    stage.send_canaries().await?;
    stage.close().await
}

/// Kills hosts at random instants of their launches.
pub(super) async fn spawning(stage: &Stage) -> Check {
    let span = measure(stage).await?;
    let mut random = Random::new(stage.kit.seed);
    for round in 0..stage.kit.rounds {
        let mut host = start_host(stage, SERVERS)?;
        stage.listener.accept("host", stage.limit()).await?;
        let delay = span.mul_f64(random.fraction());
        // The random instant is the experiment: nothing is waited for here.
        thread::sleep(delay);
        host.kill()?;
        let judged = async {
            stage.send_canaries().await?;
            stage.close().await
        };
        let place = |failure: Failure| {
            failure.during(format_args!(
                "round {round} of seed {}, host killed after {delay:?}",
                stage.kit.seed
            ))
        };
        judged.await.map_err(place)?;
    }
    Ok(())
}

/// How long a host takes to launch its servers when it is left alone.
async fn measure(stage: &Stage) -> Check<Duration> {
    let mut host = start_host(stage, SERVERS)?;
    stage.listener.accept("host", stage.limit()).await?;
    let begun = Instant::now();
    for _ in 0..SERVERS {
        stage.wait_for_all().await?;
    }
    let span = begun.elapsed();
    host.kill()?;
    stage.send_canaries().await?;
    stage.close().await?;
    Ok(span)
}

fn start_host(stage: &Stage, servers: u32) -> Check<Host> {
    let Some(command) = &stage.kit.host else {
        return Err(Failure::new("no host command"));
    };
    Ok(command.start(&stage.listener.address(), stage.fixture.name(), servers)?)
}
