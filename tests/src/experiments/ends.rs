//! Experiments on the end of a server: the primitives of its terminator.

use std::sync::Arc;

use mcp_lifecycle_core::launch::{ExitStatus, Reach};

use crate::contract;
use crate::failure::{Check, Failure, ensure};
use crate::fixture::{self, Fixture};
use crate::polls::{LetGo, PollTimes};
use crate::server::Server;
use crate::stage::Stage;

/// The end of a process that minds a request and does nothing about it: SIGTERM, or
/// `STATUS_CONTROL_C_EXIT`.
#[cfg(unix)]
const ASKED: ExitStatus = ExitStatus::Signal(15);
#[cfg(windows)]
const ASKED: ExitStatus = ExitStatus::Code(0xC000_013A_u32.cast_signed());

pub(super) async fn eof_arrives(stage: &Stage) -> Check {
    let (server, process) = stage.start_one(&stage.spec()?).await?;
    if !server.terminator.semantics().stdin_eof {
        return Err(Failure::NotApplicable(
            "`stdin_eof` is not claimed".to_owned(),
        ));
    }
    drop(server.stdin);
    let exit = stage.within("the exit", &contract::EXIT, server.terminator.exited());
    let Ok(status) = exit.await else {
        return Err(Failure::new(match &*process.events() {
            [] => {
                "its standard input was closed, and the server has seen no end of file: \
                   somebody holds the write end of the pipe"
            }
            _ => "the server has seen the end of file, and its exit is not told",
        }));
    };
    stage
        .within("the proof", &contract::PROOF, server.terminator.gone())
        .await??;
    process.wait_dead(stage.limit()).await?;
    ensure(process.events() == ["eof"], || {
        format!("not only the end of file arrived: {:?}", process.events())
    })?;
    ensure(status == ExitStatus::Code(0), || {
        format!("it exited with 0, reported was {status}")
    })
    .map_err(|failure| failure.breaks(&contract::EXIT))
}

pub(super) async fn polite_signal_arrives(stage: &Stage) -> Check {
    let (server, process) = stage.start_one(&stage.spec()?).await?;
    if !server.terminator.semantics().polite_signal {
        return Err(Failure::NotApplicable(
            "`polite_signal` is not claimed".to_owned(),
        ));
    }
    if !fixture::is_asked() {
        return Err(Failure::NotApplicable(
            "wine refuses CTRL_BREAK where there is no terminal".to_owned(),
        ));
    }
    server.terminator.request_end().await?;
    process.event("sigterm", stage.limit()).await?;
    let status = stage
        .within("the exit", &contract::EXIT, server.terminator.exited())
        .await?;
    let proof = stage.within("the proof", &contract::PROOF, server.terminator.gone());
    let proof = proof.await??;
    let words = stage.subject.loses_exits.as_deref();
    let mut evidence = proof.evidence.iter().map(ToString::to_string);
    let is_lost = status == ExitStatus::Unknown
        && words.is_some_and(|words| evidence.any(|evidence| evidence.contains(words)));
    ensure(is_lost || status == ASKED, || {
        format!("the request ended it ({ASKED}), reported was {status}")
    })
    .map_err(|failure| failure.breaks(&contract::EXIT))
}

pub(super) async fn force_reaches(stage: &Stage) -> Check {
    // A launcher may know only by its first launch.
    let plain = stage.start().await?;
    let widest = match plain.terminator.semantics().containment.on_terminate {
        Reach::Nothing => {
            let why = "a forced end is declared to reach nothing";
            return Err(Failure::NotApplicable(why.to_owned()));
        }
        Reach::Process => "ignore-eof-term",
        Reach::Group => "sh-wrapper-deaf",
        Reach::Marked => "double-fork",
        _ => "wiped-env",
    };
    drop(plain);
    let Some(fixture) = Fixture::named(widest) else {
        return Err(Failure::new("no such fixture"));
    };
    for synchronous in [false, true] {
        // Of its own, so that what it leaves is told apart.
        let stage = Stage::open(&stage.subject, fixture)?;
        let server = stage.start().await?;
        if synchronous {
            server.terminator.kill_now();
        } else {
            server.terminator.force_end().await?;
        }
        stage
            .within("the proof", &contract::PROOF, server.terminator.gone())
            .await??;
        stage.all_dead_now().await?;
    }
    Ok(())
}

/// Outside of a runtime, on a plain thread: the order alone, without an owner.
pub(super) async fn last_resort_needs_no_runtime(stage: &Stage) -> Check {
    let (server, process) = stage.start_one(&stage.spec()?).await?;
    let terminator = Arc::clone(&server.terminator);
    let killed = std::thread::spawn(move || terminator.kill_now()).join();
    killed.map_err(|_| Failure::new("`kill_now` has panicked"))?;
    Ok(process.wait_dead(stage.limit()).await?)
}

pub(super) async fn exit_status_is_true(stage: &Stage) -> Check {
    let spec = stage.spec_of(&["crash-loop", "--code", "42"])?;
    let server = Server::own(stage.launch_spec(&spec).await?);
    let mut waiters = Vec::new();
    for _ in 0..8 {
        let terminator = Arc::clone(&server.terminator);
        waiters.push(tokio::spawn(async move { terminator.exited().await }));
    }
    let mut statuses = Vec::new();
    for waiter in waiters {
        statuses.push(stage.within("the exit", &contract::EXIT, waiter).await??);
    }
    stage
        .within("the proof", &contract::PROOF, server.terminator.gone())
        .await??;
    statuses.push(
        stage
            .within(
                "the exit, again",
                &contract::EXIT,
                server.terminator.exited(),
            )
            .await?,
    );
    let is_true = |status: &ExitStatus| *status == ExitStatus::Code(42);
    ensure(statuses.iter().all(is_true), || {
        format!("it exited with 42, reported were {statuses:?}")
    })
}

pub(super) async fn gone_by_itself(stage: &Stage) -> Check {
    let mut server = stage.start_unscripted().await?;
    server.say_exit(stage.limit()).await?;
    stage
        .within("the proof", &contract::PROOF, server.terminator.gone())
        .await??;
    stage.all_dead_now().await
}

pub(super) async fn survivors_are_named(stage: &Stage) -> Check {
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

pub(super) async fn dropped_waits(stage: &Stage) -> Check {
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

pub(super) async fn repetition(stage: &Stage) -> Check {
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
            stage
                .within(
                    "a late request",
                    &contract::ANY_ORDER,
                    terminator.request_end(),
                )
                .await??;
        }
        stage
            .within("a late order", &contract::ANY_ORDER, terminator.force_end())
            .await??;
        terminator.kill_now();
        stage
            .within("the proof, again", &contract::PROOF, terminator.gone())
            .await??;
        let status = stage
            .within("the exit, again", &contract::EXIT, terminator.exited())
            .await?;
        ensure(status == first.exit, || {
            format!("the exit was {}, and is {status} now", first.exit)
        })?;
    }
    Ok(())
}
