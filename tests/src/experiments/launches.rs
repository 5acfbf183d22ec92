//! Experiments on what a launch does to its host.

use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{LaunchContext, ServerSpec};

use crate::census::Census;
use crate::contract;
use crate::failure::{Check, Failure, ensure};
#[cfg(unix)]
use crate::host::Host;
use crate::server::Server;
use crate::stage::Stage;

/// Longer than a runtime of the kit keeps a thread without work.
const THREADS_END: Duration = Duration::from_millis(400);

pub(super) async fn outlives_its_thread(stage: &Stage) -> Check {
    let threads = Census::take().thread_count();
    let (server, process) = stage.start_one(&stage.spec()?).await?;
    // Nothing tells of a thread's end: it is looked at again and again.
    let (begun, limit) = (Instant::now(), THREADS_END * 5);
    tokio::time::sleep(THREADS_END).await;
    while Census::take().thread_count() > threads && begun.elapsed() < limit {
        tokio::time::sleep(THREADS_END / 10).await;
    }
    if let Err(error) = process.ping(stage.limit()).await {
        let exit = server.terminator.exited();
        let exit = stage.within("the exit", &contract::EXIT, exit).await?;
        let after = "it has ended when a thread of its host had, and nobody has asked for it";
        return Err(Failure::from(error).during(format_args!("{after} ({exit})")));
    }
    Ok(())
}

/// Kills a host whose first thread had ended before it launched.
#[cfg(unix)]
pub(super) async fn a_host_without_first_thread(stage: &Stage) -> Check {
    // What is declared may be known by the first launch only.
    stage.subject.warm_up().await?;
    let mut host = Host::start_headless(stage)?;
    stage.listener.accept("host", stage.limit()).await?;
    stage.wait_for_all().await?;
    let declares = stage.listener.accept("declared", stage.limit()).await;
    declares.map_err(|error| Failure::from(error).during("the host's reap_orphans and launch"))?;
    host.kill()?;
    stage.close().await
}

#[cfg(windows)]
pub(super) async fn a_host_without_first_thread(_: &Stage) -> Check {
    let why = "a process ends with its first thread, or does not depend on it";
    Err(Failure::NotApplicable(why.to_owned()))
}

pub(super) async fn blocks_nobody(stage: &Stage) -> Check {
    const LAUNCHES: usize = 5;
    const LONG: Duration = Duration::from_millis(100);
    // The best of some: a machine under load takes a thread away for as long.
    let mut best = Duration::MAX;
    for _ in 0..LAUNCHES {
        let (spec, context) = (stage.spec()?, LaunchContext::new());
        let mut launch = pin!(stage.subject.launcher.launch(&spec, &context));
        let mut longest = Duration::ZERO;
        let polled = poll_fn(|cx| {
            let begun = Instant::now();
            let poll = launch.as_mut().poll(cx);
            longest = longest.max(begun.elapsed());
            poll
        });
        drop(
            stage
                .within("the launch", &contract::STARTS, polled)
                .await??,
        );
        best = best.min(longest);
        if best < LONG {
            return Ok(());
        }
    }
    Err(Failure::new(format!(
        "each of {LAUNCHES} launches has held the thread that polled it for {best:.0?} or longer"
    )))
}

pub(super) async fn missing_program(stage: &Stage) -> Check {
    const PROGRAM: &str = "/no/such/directory/no-such-program";
    let spec = ServerSpec::builder("missing", PROGRAM).build()?;
    let context = LaunchContext::new();
    let launch = stage.subject.launcher.launch(&spec, &context);
    match stage.within("the error", &contract::ERRORS, launch).await? {
        Err(error) => ensure(error.to_string().contains("no-such-program"), || {
            format!("the error does not name the program {PROGRAM}: {error}")
        }),
        Ok(_) => Err(Failure::new("a program that does not exist was launched")),
    }
}

/// Ends servers in order, and by dropping them: what is kept of each is kept of all.
pub(super) async fn nothing_is_kept(stage: &Stage) -> Check {
    if cfg!(not(target_os = "linux")) {
        return Err(Failure::NotApplicable(
            "what a process holds on to is counted on Linux only".to_owned(),
        ));
    }
    for _ in 0..2 {
        let mut server = stage.start().await?;
        let _drains = server.drain();
        let policy = stage.fixture.policy(stage.limit());
        server.terminate(&policy).await?;
    }
    for _ in 0..2 {
        drop::<Server>(stage.start().await?);
    }
    Ok(())
}
