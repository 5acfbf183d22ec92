//! Lives and ends of single servers.

use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{
    Evidence, ExitStatus, Gone, Guarantee, LaunchContext, LaunchedParts, Reach, ServerLauncher,
    ServerSpec,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::alive::{Alive, LIMIT};
use crate::fixture::{ADDRESS, MARK};
use crate::wine;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("bytes_go_both_ways_and_end_of_file_ends_the_server", bytes),
        trial(
            "a_tree_ends_at_one_order_and_the_empty_job_is_the_proof",
            tree,
        ),
        trial("a_server_that_is_dropped_is_ended_with_its_tree", dropped),
        trial("who_outlives_the_leader_is_swept_and_named", helper),
        trial("a_breakaway_is_refused", breakaway),
        trial(
            "a_server_with_a_job_of_its_own_ends_with_all_that_is_in_that",
            own_job,
        ),
        not_on_wine(
            "it refuses CTRL_BREAK where there is no terminal",
            trial("ctrl_break_asks_the_server_to_end", polite),
        ),
        trial(
            "a_program_that_is_missing_is_an_error_that_says_where_it_was_looked_for",
            missing,
        ),
        trial("the_level_promises_what_a_job_gives", promises),
    ]
}

/// A test that has a runtime, and an end.
pub(crate) fn trial<F: Future<Output = ()>>(
    name: &str,
    test: impl Fn() -> F + Send + 'static,
) -> Trial {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let done = runtime.block_on(async { timeout(10 * LIMIT, test()).await });
        done.map_err(|_| Failed::from("it takes too long"))
    };
    Trial::test(name, run)
}

/// Ignored where wine does not do what Windows does, which the lane lists and counts (tests/cross/wine-limits).
fn not_on_wine(why: &'static str, trial: Trial) -> Trial {
    match wine::is_here() {
        true => Trial::ignorable_test(trial.name(), move || Ok(Completion::ignored_with(why))),
        false => trial,
    }
}

pub(crate) fn spec(what: &str, alive: Option<&Alive>) -> ServerSpec {
    let program = std::env::current_exe().unwrap();
    let builder = ServerSpec::builder(what, program).args([MARK, what]);
    let builder = match alive {
        Some(alive) => builder.env(ADDRESS, alive.address().to_string()),
        None => builder,
    };
    builder.build().unwrap()
}

pub(crate) async fn launch(spec: &ServerSpec) -> LaunchedParts {
    let launched = LocalLauncher::new()
        .launch(spec, &LaunchContext::new())
        .await;
    launched.unwrap().into_parts()
}

async fn gone(server: &LaunchedParts) -> Gone {
    let gone = timeout(LIMIT, server.terminator.gone()).await;
    let gone = gone.expect("it is not gone in time").unwrap();
    assert_eq!(gone.evidence, [Evidence::JobEmpty]);
    gone
}

async fn bytes() {
    let alive = Alive::new();
    let mut server = launch(&spec("echo", Some(&alive))).await;
    let living = alive.next();
    let mut lines = BufReader::new(server.stdout).lines();
    for round in 0..200 {
        let line = format!("line {round}");
        server
            .stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(&*line));
    }
    // As much as no pipe holds, both ways at once.
    let long = "x".repeat(1 << 20);
    let mut stdin = server.stdin;
    let sent = async {
        stdin
            .write_all(format!("{long}\n").as_bytes())
            .await
            .unwrap();
        stdin
    };
    let (stdin, line) = tokio::join!(sent, lines.next_line());
    assert_eq!(line.unwrap().unwrap().len(), long.len());
    drop(stdin);
    assert_eq!(lines.next_line().await.unwrap(), None);
    living.ends();
    assert_eq!(server.terminator.exited().await, ExitStatus::Code(0));
    let gone = timeout(LIMIT, server.terminator.gone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(gone.swept_count, 0);
}

async fn tree() {
    let alive = Alive::new();
    let server = launch(&spec("tree", Some(&alive))).await;
    let living = [alive.next(), alive.next(), alive.next()];
    assert!(server.terminator.survivors().await.unwrap().len() >= 3);
    let begun = Instant::now();
    server.terminator.force_end().await.unwrap();
    let gone = gone(&server).await;
    let took = begun.elapsed();
    living.into_iter().for_each(|process| process.ends());
    assert!(gone.swept_count >= 2, "{gone:?}");
    assert!(server.terminator.survivors().await.unwrap().is_empty());
    println!("order to proof, three processes: {took:?}");
}

async fn dropped() {
    let alive = Alive::new();
    let spec = spec("tree", Some(&alive));
    let launched = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap();
    let living = [alive.next(), alive.next(), alive.next()];
    drop(launched);
    living.into_iter().for_each(|process| process.ends());
}

async fn helper() {
    let alive = Alive::new();
    let server = launch(&spec("leaves-a-helper", Some(&alive))).await;
    let helper = alive.next();
    drop(server.stdin);
    assert_eq!(server.terminator.exited().await, ExitStatus::Code(0));
    assert!(helper.lives());
    let still = timeout(Duration::from_millis(300), server.terminator.gone()).await;
    assert!(still.is_err(), "{still:?}");
    let survivors = server.terminator.survivors().await.unwrap();
    assert_eq!(survivors.len(), 1, "{survivors:?}");
    server.terminator.force_end().await.unwrap();
    helper.ends();
    let gone = timeout(LIMIT, server.terminator.gone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(gone.swept.len(), 1);
    assert!(gone.swept[0].name.ends_with(".exe"), "{gone:?}");
}

/// The first line that a server says.
async fn says(server: &mut LaunchedParts) -> String {
    let mut line = String::new();
    let mut output = BufReader::new(&mut server.stdout);
    timeout(LIMIT, output.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    line.trim_end().to_owned()
}

async fn breakaway() {
    let alive = Alive::new();
    let mut server = launch(&spec("breaks-away", Some(&alive))).await;
    assert_eq!(says(&mut server).await, "Err(Some(5))");
    drop(std::mem::replace(
        &mut server.stdin,
        Box::new(tokio::io::sink()),
    ));
    assert_eq!(gone(&server).await.swept_count, 0);
}

async fn own_job() {
    let alive = Alive::new();
    let mut server = launch(&spec("own-job", Some(&alive))).await;
    assert_eq!(says(&mut server).await, "true");
    let living = [alive.next(), alive.next(), alive.next()];
    server.terminator.force_end().await.unwrap();
    gone(&server).await;
    living.into_iter().for_each(|process| process.ends());
}

async fn polite() {
    let alive = Alive::new();
    let mut server = launch(&spec("polite", Some(&alive))).await;
    assert_eq!(says(&mut server).await, "ready");
    server.terminator.request_end().await.unwrap();
    let exit = timeout(LIMIT, server.terminator.exited()).await;
    assert_eq!(exit.unwrap(), ExitStatus::Code(7));
    gone(&server).await;
}

async fn missing() {
    let spec = ServerSpec::builder("none", "no-such-program")
        .build()
        .unwrap();
    let error = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no-such-program") && text.contains("system32"),
        "{text}"
    );
}

async fn promises() {
    let launcher = LocalLauncher::builder()
        .require(Guarantee::Terminate(Reach::Container))
        .require(Guarantee::HostDeath(Reach::Container))
        .require(Guarantee::AtomicPlacement)
        .build();
    let semantics = launcher.semantics();
    assert_eq!(semantics.containment.mechanism, "job object");
    assert!(semantics.stdin_eof && semantics.polite_signal);
    let launched = launcher
        .launch(&spec("echo", None), &LaunchContext::new())
        .await
        .unwrap();
    let server = launched.into_parts();
    drop(server.stdin);
    assert_eq!(server.terminator.exited().await, ExitStatus::Code(0));
    let report = launcher.reap_orphans().await.unwrap();
    assert!(report.is_complete() && report.ended.is_empty());
}
