//! What a launcher declares and what the contract of its terminator says, each
//! by an experiment of its own.

use std::pin::Pin;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{ExitStatus, LaunchContext, Reach, ServerSpec};
use tokio::time::timeout;

use crate::Conformance;
use crate::failure::{Check, Failure, ensure};
use crate::fixture::Fixture;
use crate::polls::{LetGo, PollTimes};
use crate::server::Server;
use crate::stage::Stage;

type Running<'a> = Pin<Box<dyn Future<Output = Check> + Send + 'a>>;

/// One experiment.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// The fixture that it is made with.
    fixture: &'static str,
    run: for<'a> fn(&'a Stage) -> Running<'a>,
}

/// Every experiment, in the order of the report.
pub(crate) const ALL: &[Experiment] = &[
    Experiment {
        name: "end of file arrives, and no signal with it",
        fixture: "plain",
        run: |stage| Box::pin(eof_arrives(stage)),
    },
    Experiment {
        name: "the polite signal arrives",
        fixture: "ignore-eof",
        run: |stage| Box::pin(polite_signal_arrives(stage)),
    },
    Experiment {
        name: "a forced end reaches as far as declared",
        fixture: "plain",
        run: |stage| Box::pin(force_reaches(stage)),
    },
    Experiment {
        name: "the exit status is true, for many waiters and late ones",
        fixture: "crash-loop",
        run: |stage| Box::pin(exit_status_is_true(stage)),
    },
    Experiment {
        name: "gone needs no request when the server leaves by itself",
        fixture: "plain",
        run: |stage| Box::pin(gone_by_itself(stage)),
    },
    Experiment {
        name: "survivors names the living, and nobody after the end",
        fixture: "plain",
        run: |stage| Box::pin(survivors_are_named(stage)),
    },
    Experiment {
        name: "dropping a wait loses nothing",
        fixture: "plain",
        run: |stage| Box::pin(dropped_waits(stage)),
    },
    Experiment {
        name: "every primitive may be repeated after the end",
        fixture: "plain",
        run: |stage| Box::pin(repetition(stage)),
    },
    Experiment {
        name: "a program that does not exist is an error, and leaves nothing",
        fixture: "plain",
        run: |stage| Box::pin(missing_program(stage)),
    },
    Experiment {
        name: "reap_orphans spares the living",
        fixture: "plain",
        run: |stage| Box::pin(orphans_are_others(stage)),
    },
];

/// Makes one experiment, and judges what it leaves.
pub(crate) async fn perform(kit: &Conformance, experiment: &Experiment) -> Check {
    let Some(fixture) = Fixture::named(experiment.fixture) else {
        return Err(Failure::new("no such fixture"));
    };
    let stage = Stage::open(kit, fixture)?;
    let result = (experiment.run)(&stage).await;
    result.and(stage.close().await)
}

async fn eof_arrives(stage: &Stage) -> Check {
    let server = stage.start_unscripted().await?;
    if !server.terminator.semantics().stdin_eof {
        return Ok(());
    }
    let process = stage.listener.accept("server", stage.limit()).await?;
    drop(server.stdin);
    let status = within(stage, "the exit", server.terminator.exited()).await?;
    within(stage, "the proof", server.terminator.gone()).await??;
    process.wait_dead(stage.limit()).await?;
    ensure(process.events() == ["eof"], || {
        format!("not only the end of file arrived: {:?}", process.events())
    })?;
    ensure(status == ExitStatus::Code(0), || {
        format!("it exited with 0, reported was {status}")
    })
}

async fn polite_signal_arrives(stage: &Stage) -> Check {
    let server = stage.start_unscripted().await?;
    if !server.terminator.semantics().polite_signal {
        return Ok(());
    }
    let process = stage.listener.accept("server", stage.limit()).await?;
    // It answers when it is ready for signals.
    process.ping(stage.limit()).await?;
    server.terminator.request_end().await?;
    process.event("sigterm", stage.limit()).await?;
    let status = within(stage, "the exit", server.terminator.exited()).await?;
    within(stage, "the proof", server.terminator.gone()).await??;
    ensure(status == ExitStatus::Signal(15), || {
        format!("SIGTERM ended it, reported was {status}")
    })
}

async fn force_reaches(stage: &Stage) -> Check {
    let widest = match stage.kit.launcher.semantics().containment.on_terminate {
        Reach::Nothing => return Ok(()),
        Reach::Process => "ignore-eof-term",
        Reach::Group => "sh-wrapper-deaf",
        Reach::Marked => "double-fork",
        _ => "wiped-env",
    };
    let Some(fixture) = Fixture::named(widest) else {
        return Err(Failure::new("no such fixture"));
    };
    for synchronous in [false, true] {
        // Of its own, so that what it leaves is told apart.
        let stage = Stage::open(&stage.kit, fixture)?;
        let server = stage.start().await?;
        if synchronous {
            server.terminator.kill_now();
        } else {
            server.terminator.force_end().await?;
        }
        within(&stage, "the proof", server.terminator.gone()).await??;
        stage.all_dead_now().await?;
    }
    Ok(())
}

async fn exit_status_is_true(stage: &Stage) -> Check {
    let spec = stage.spec_of(&["crash-loop", "--code", "42"])?;
    let server = Server::own(stage.launch_spec(&spec).await?);
    let mut waiters = Vec::new();
    for _ in 0..8 {
        let terminator = Arc::clone(&server.terminator);
        waiters.push(tokio::spawn(async move { terminator.exited().await }));
    }
    let mut statuses = Vec::new();
    for waiter in waiters {
        statuses.push(within(stage, "the exit", waiter).await??);
    }
    within(stage, "the proof", server.terminator.gone()).await??;
    statuses.push(within(stage, "the exit, again", server.terminator.exited()).await?);
    let is_true = |status: &ExitStatus| *status == ExitStatus::Code(42);
    ensure(statuses.iter().all(is_true), || {
        format!("it exited with 42, reported were {statuses:?}")
    })
}

async fn gone_by_itself(stage: &Stage) -> Check {
    let mut server = stage.start_unscripted().await?;
    server.say_exit(stage.limit()).await?;
    within(stage, "the proof", server.terminator.gone()).await??;
    stage.all_dead_now().await
}

async fn survivors_are_named(stage: &Stage) -> Check {
    let server = stage.start().await?;
    let living = server.terminator.survivors().await?;
    ensure(!living.is_empty(), || {
        "a living server is not named".to_owned()
    })?;
    server
        .terminate(&stage.fixture.policy(stage.limit()))
        .await?;
    let left = server.terminator.survivors().await?;
    ensure(left.is_empty(), || {
        let left: Vec<_> = left.iter().map(ToString::to_string).collect();
        format!("named after the proof: {}", left.join(", "))
    })
}

async fn dropped_waits(stage: &Stage) -> Check {
    let server = stage.start().await?;
    for _ in 0..3 {
        let (exited, gone) = (server.terminator.clone(), server.terminator.clone());
        let early = poll_once(async move { exited.exited().await }).await;
        ensure(early.is_none(), || "exited although it lives".to_owned())?;
        let early = poll_once(async move { gone.gone().await }).await;
        ensure(early.is_none(), || "gone although it lives".to_owned())?;
    }
    server
        .terminate(&stage.fixture.policy(stage.limit()))
        .await?;
    stage.all_dead_now().await
}

async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let polled = PollTimes {
        future,
        left: 1,
        let_go: LetGo::AtOnce,
    };
    polled.await
}

async fn repetition(stage: &Stage) -> Check {
    let server = stage.start().await?;
    let policy = stage.fixture.policy(stage.limit());
    let first = server.terminate(&policy).await?;
    let again = server.terminate(&policy).await?;
    ensure(Arc::ptr_eq(&first, &again), || {
        "a repeated termination is another one".to_owned()
    })?;
    let terminator = &server.terminator;
    for _ in 0..2 {
        if terminator.semantics().polite_signal {
            within(stage, "a late request", terminator.request_end()).await??;
        }
        within(stage, "a late order", terminator.force_end()).await??;
        terminator.kill_now();
        within(stage, "the proof, again", terminator.gone()).await??;
        let status = within(stage, "the exit, again", terminator.exited()).await?;
        ensure(status == first.exit, || {
            format!("the exit was {}, and is {status} now", first.exit)
        })?;
    }
    Ok(())
}

async fn missing_program(stage: &Stage) -> Check {
    let spec = ServerSpec::builder("missing", "/no/such/directory/no-such-program").build()?;
    let context = LaunchContext::new();
    let launch = stage.kit.launcher.launch(&spec, &context);
    match within(stage, "the error", launch).await? {
        Err(_) => Ok(()),
        Ok(_) => Err(Failure::new("it was launched")),
    }
}

async fn orphans_are_others(stage: &Stage) -> Check {
    let server = stage.start_unscripted().await?;
    let process = stage.listener.accept("server", stage.limit()).await?;
    within(stage, "the search", stage.kit.launcher.reap_orphans()).await??;
    process.ping(stage.limit()).await?;
    server
        .terminate(&stage.fixture.policy(stage.limit()))
        .await?;
    Ok(())
}

async fn within<F: Future>(stage: &Stage, what: &str, future: F) -> Check<F::Output> {
    match timeout(stage.limit(), future).await {
        Ok(output) => Ok(output),
        Err(_) => Err(Failure::new(format!("{what} does not come"))),
    }
}
