//! Hosts that are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::births::Births;
use crate::failure::{Check, Failure};
use crate::host::Host;
use crate::random::Random;
use crate::stage::Stage;

/// How many servers a host launches that is killed while it does.
const SERVERS: u32 = 8;

pub(super) async fn idle(stage: &Stage) -> Check {
    let mut host = Host::start(stage, 1)?;
    stage.listener.accept("host", stage.limit()).await?;
    stage.wait_for_all().await?;
    host.kill()?;
    stage.send_canaries().await?;
    stage.close().await
}

/// Kills hosts in the middle of their launches: when a process is born below them, and at
/// random instants.
pub(super) async fn spawning(stage: &Stage) -> Check {
    let (span, births) = measure(stage).await?;
    let mut random = Random::new(stage.subject.seed);
    for round in 0..stage.subject.rounds {
        let mut host = Host::start(stage, SERVERS)?;
        stage.listener.accept("host", stage.limit()).await?;
        let instant = if births > 0 && round % 2 == 0 {
            let birth = 1 + random.below(births as u64) as usize;
            let mut born = Births::below(host.pid());
            let deadline = Instant::now() + span * 4;
            while born.count() < birth && Instant::now() < deadline {}
            format!("at the birth of process {birth} below it")
        } else {
            let delay = span.mul_f64(random.fraction());
            // The random instant is the experiment: nothing is waited for here.
            thread::sleep(delay);
            format!("after {delay:?}")
        };
        host.kill()?;
        let judged = async {
            stage.send_canaries().await?;
            stage.close().await
        };
        let seed = stage.subject.seed;
        let place = |failure: Failure| {
            failure.during(format_args!(
                "round {round} of seed {seed}, host killed {instant}"
            ))
        };
        judged.await.map_err(place)?;
    }
    Ok(())
}

/// How long a host takes to launch its servers when it is left alone, and how many
/// processes are born below it meanwhile.
async fn measure(stage: &Stage) -> Check<(Duration, usize)> {
    let mut host = Host::start(stage, SERVERS)?;
    stage.listener.accept("host", stage.limit()).await?;
    let begun = Instant::now();
    let (pid, done) = (host.pid(), Arc::new(AtomicBool::new(false)));
    let counting = tokio::task::spawn_blocking({
        let done = Arc::clone(&done);
        move || {
            let mut born = Births::below(pid);
            while !done.load(Ordering::Relaxed) {
                born.count();
            }
            born.count()
        }
    });
    let arrived = async {
        for _ in 0..SERVERS {
            stage.wait_for_all().await?;
        }
        Ok(begun.elapsed())
    };
    let arrived: Check<Duration> = arrived.await;
    done.store(true, Ordering::Relaxed);
    let births = counting.await?;
    let span = arrived?;
    host.kill()?;
    stage.send_canaries().await?;
    stage.close().await?;
    Ok((span, births))
}
