//! Launches that fail when the server runs already: nothing of it is left.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use tokio::runtime::{Builder, Runtime};

use crate::shortage::{every_descriptor_but, limit_descriptors};
use crate::stage::{LIMIT, Stage, leaves, perform, plays};

const LEVELS: [Isolation; 3] = [
    Isolation::Guardian,
    Isolation::PidNamespace,
    Isolation::ProcessGroup,
];

fn launcher(isolation: Isolation) -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::builder().isolation(isolation).build())
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(THREAD)
        .enable_all()
        .build()
        .unwrap()
}

/// The name of its threads, also of those that launch.
const THREAD: &str = "launching";

/// One launch and its end: what all launches share is there afterwards, and
/// nothing else.
fn warmed_up(stage: &Stage, isolation: Isolation) -> Census {
    let spec = stage.spec(&["ignore-eof-term"]);
    let server = stage.wait(
        "the launch",
        launcher(isolation).launch(&spec, &LaunchContext::new()),
    );
    let terminator = Arc::clone(server.unwrap().terminator());
    stage.wait("the proof", terminator.gone()).unwrap();
    drop(terminator);
    stage.nobody_is_left();
    // Its descriptors are closed a moment after the proof.
    until("the warm-up is over", || {
        let census = Census::take().without_threads();
        (census.fds_of("anon_inode:[pidfd]") == 0 && census.child_count() == 0).then_some(census)
    })
}

/// Looks again until it is so.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

/// No child, no descriptor and no process more than before.
#[track_caller]
fn nothing_is_left(stage: &Stage, before: &Census, what: &str) {
    let kinds = ["pipe:", "socket:", "anon_inode:[pidfd]"];
    let more = || {
        let now = Census::take();
        let more = kinds.map(|kind| now.fds_of(kind) > before.fds_of(kind));
        (more.contains(&true) || now.child_count() > 0).then(|| before.difference(&now))
    };
    let deadline = Instant::now() + LIMIT;
    while let Some(difference) = more() {
        assert!(Instant::now() < deadline, "{what}: {difference:?}");
        std::thread::yield_now();
    }
    stage.nobody_is_left();
    // The kernel finishes exits a moment after they were reaped.
    until(what, || leaves().is_empty().then_some(()));
}

#[test]
fn a_runtime_without_io_is_an_error_and_starts_nothing() {
    perform("half_launched::without_io");
}

#[test]
#[ignore = "a role"]
fn without_io() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    for isolation in LEVELS {
        let before = warmed_up(&stage, isolation);
        let spec = stage.spec(&["ignore-eof-term"]);
        let mute = Builder::new_multi_thread().enable_time().build().unwrap();
        let launched = mute.block_on(launcher(isolation).launch(&spec, &LaunchContext::new()));
        let text = ErrorChain(&launched.unwrap_err()).to_string();
        // Within the error already, so no time is given.
        let children = Census::take().child_count();
        assert_eq!(children, before.child_count(), "{isolation:?}: {text}");
        assert!(text.contains("enable_io"), "{text}");
        drop(mute);
        nothing_is_left(&stage, &before, "without I/O");
    }
}

#[test]
fn a_runtime_that_goes_away_in_the_middle_of_a_launch_leaves_nothing() {
    perform("half_launched::warm_shutdown");
}

/// How a runtime ends: whether it waits for the thread that launches.
const ENDS: [fn(Runtime); 2] = [Runtime::shutdown_background, |runtime| {
    runtime.shutdown_timeout(Duration::from_micros(200))
}];

#[test]
#[ignore = "a role"]
fn warm_shutdown() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let spec = stage.spec(&["ignore-eof-term"]);
    for isolation in LEVELS {
        let before = warmed_up(&stage, isolation);
        for step in 0..60_u64 {
            let runtime = runtime();
            let (launcher, spec) = (launcher(isolation), spec.clone());
            let _launch =
                runtime.spawn(async move { launcher.launch(&spec, &LaunchContext::new()).await });
            // The instant is the experiment.
            std::thread::sleep(Duration::from_micros(step * 50));
            ENDS[(step % 2) as usize](runtime);
        }
        nothing_is_left(&stage, &before, "a warm host");
    }
}

#[test]
fn a_first_launch_whose_runtime_goes_away_leaves_nothing() {
    for _instant in 0..6 {
        perform("half_launched::cold_shutdown");
    }
}

#[test]
#[ignore = "a role"]
fn cold_shutdown() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let before = Census::take();
    let spec = stage.spec(&["ignore-eof-term"]);
    let level = LEVELS[std::process::id() as usize % LEVELS.len()];
    let runtime = runtime();
    for _server in 0..4 {
        let (launcher, spec) = (launcher(level), spec.clone());
        let _launch =
            runtime.spawn(async move { launcher.launch(&spec, &LaunchContext::new()).await });
    }
    let instant = u64::from(std::process::id()) * 997 % 9000;
    std::thread::sleep(Duration::from_micros(instant));
    ENDS[std::process::id() as usize % 2](runtime);
    until(
        &format!("nobody is left of {level:?}, {instant} us"),
        || {
            // A launch that has not come to its child yet is not over.
            let launching = fs::read_dir("/proc/self/task")
                .unwrap()
                .flatten()
                .any(|thread| {
                    fs::read_to_string(thread.path().join("comm"))
                        .is_ok_and(|name| name.starts_with(THREAD))
                });
            let childless = Census::take().child_count() == before.child_count();
            (!launching && childless && leaves().is_empty()).then_some(())
        },
    );
    stage.nobody_is_left();
}

#[test]
fn with_any_number_of_free_descriptors_a_launch_says_which_limit_or_succeeds() {
    perform("half_launched::few_descriptors");
}

#[test]
#[ignore = "a role"]
fn few_descriptors() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let spec = stage.spec(&["ignore-eof-term"]);
    limit_descriptors(128);
    for isolation in LEVELS {
        let before = warmed_up(&stage, isolation);
        let launcher = launcher(isolation);
        let (mut failed, mut free) = (0, 0);
        loop {
            let fillers = every_descriptor_but(free);
            let context = LaunchContext::new();
            let launched = stage.wait("the launch", launcher.launch(&spec, &context));
            drop(fillers);
            let what = format!("{isolation:?}, {free} free");
            match launched {
                Ok(server) => {
                    let terminator = Arc::clone(server.terminator());
                    drop(server);
                    stage.wait("the proof", terminator.gone()).unwrap();
                    drop(terminator);
                    nothing_is_left(&stage, &before, &what);
                    break;
                }
                Err(error) => {
                    let text = ErrorChain(&error).to_string();
                    assert!(text.contains("RLIMIT_NOFILE"), "{what}: {text}");
                    nothing_is_left(&stage, &before, &what);
                }
            }
            (failed, free) = (failed + 1, free + 1);
        }
        assert!(
            failed > 5,
            "{isolation:?}: it takes more descriptors than {failed}"
        );
    }
}

#[test]
fn a_launch_that_got_no_thread_is_not_made_later() {
    perform("half_launched::no_thread");
}

#[test]
#[ignore = "a role"]
fn no_thread() {
    // The limit binds ordinary users only: as root there is nothing to see.
    if !plays() || geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("started");
    let spec = ServerSpec::builder("s", "touch").arg(&file);
    let spec = spec.build().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
    setrlimit(Resource::RLIMIT_NPROC, 0, hard).unwrap();
    let launched =
        runtime.block_on(launcher(Isolation::ProcessGroup).launch(&spec, &LaunchContext::new()));
    let reaped = runtime.block_on(launcher(Isolation::ProcessGroup).reap_orphans());
    setrlimit(Resource::RLIMIT_NPROC, soft, hard).unwrap();
    let text = ErrorChain(&launched.unwrap_err()).to_string();
    assert!(text.contains("could not start a thread"), "{text}");
    let text = ErrorChain(&reaped.unwrap_err()).to_string();
    assert!(text.contains("could not start a thread"), "{text}");
    // The next thread of the runtime finds whatever is queued.
    let next = runtime.block_on(async { tokio::task::spawn_blocking(|| ()).await });
    next.unwrap();
    drop(runtime);
    let deadline = Instant::now() + Duration::from_millis(300);
    while Instant::now() < deadline {
        assert!(!file.exists(), "it was launched after its error");
        std::thread::yield_now();
    }
}
