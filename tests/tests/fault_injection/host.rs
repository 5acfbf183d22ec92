//! The host: launches and ends a server while one of its calls, or of its
//! guardian's, fails; then launches another one, which must go well.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::launch::{
    ErrorChain, LaunchContext, LaunchedServer, ServerLauncher, ServerSpec,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};
use nix::sys::resource::{Resource, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::seccomp;

/// Which calls fail, and how the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Any call from the launch to the proof.
    Ordered,
    /// Any call after the launch; the server is dropped.
    Dropped,
    /// Any call of a launch whose program cannot be executed.
    Missing,
}

/// Far more than a proof takes, also where many of these run at a time.
const LIMIT: Duration = Duration::from_secs(10);

/// The host's limit on the size of files.
const SIZE_MAX: u64 = 1 << 30;

/// The answer that asks for another census.
pub(crate) const AGAIN: u8 = b'a';

/// Kinds of descriptors that no end may leave behind.
const KINDS: [&str; 5] = [
    "pipe:",
    "socket:",
    "anon_inode:[pidfd]",
    "anon_inode:[eventpoll]",
    "anon_inode:[eventfd]",
];

/// Plays the host and ends the process. `directory` has the fifos `alive` and `never`.
pub(crate) fn play(isolation: Isolation, way: Way, directory: &Path) -> ! {
    // More than any file here has. Where there is none, no write is shielded from SIGXFSZ.
    setrlimit(Resource::RLIMIT_FSIZE, SIZE_MAX, SIZE_MAX).unwrap();
    // Panics are told over the channel.
    std::panic::set_hook(Box::new(|_| {}));
    let told = catch_unwind(AssertUnwindSafe(|| perform(isolation, way, directory)));
    if let Err(panic) = told {
        tell(&format!("panicked {}", said(&*panic)));
    }
    std::process::exit(0)
}

fn perform(isolation: Isolation, way: Way, directory: &Path) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let launcher = LocalLauncher::builder().isolation(isolation).build();
    let good = stubborn(directory);
    // Something to run that is found, is executable, and has no interpreter.
    let missing = ServerSpec::builder("missing", directory.join("broken"));
    let missing = missing.build().unwrap();
    match way {
        Way::Ordered => {
            begin();
            match launch(&runtime, &launcher, &good) {
                Ok(launched) => {
                    let contained = launched.terminator().semantics().containment;
                    tell(&format!("contained {contained}"));
                    tell(&end(&runtime, launched));
                }
                Err(error) => {
                    tell(&format!("failed {error}"));
                }
            }
        }
        Way::Missing => {
            begin();
            match launch(&runtime, &launcher, &missing) {
                Ok(_) => {
                    tell("panicked a broken program was launched");
                }
                Err(error) => {
                    tell(&format!("failed {error}"));
                }
            }
        }
        Way::Dropped => {
            let launched = launch(&runtime, &launcher, &good).unwrap();
            begin();
            drop(launched);
            tell("dropped");
        }
    }
    // No fault any more: this one is as good as ever.
    let next = match launch(&runtime, &launcher, &good) {
        Ok(launched) => end(&runtime, launched),
        Err(error) => format!("failed {error}"),
    };
    drop(runtime);
    tell(&format!("next {next}"));
    // Threads that are on their way out still hold something: asked again.
    while tell(&format!(
        "census {}",
        serde_json::to_string(&census()).unwrap()
    )) == AGAIN
    {
        std::thread::yield_now();
    }
}

/// From here on calls fail.
fn begin() {
    tell("begin");
}

fn launch(
    runtime: &Runtime,
    launcher: &LocalLauncher,
    spec: &ServerSpec,
) -> Result<LaunchedServer, String> {
    // A host's own task that panics is caught by its runtime.
    let launched = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(launcher.launch(spec, &LaunchContext::new()))
    }));
    match launched {
        Ok(Ok(launched)) => Ok(launched),
        Ok(Err(error)) => Err(ErrorChain(&error).to_string()),
        Err(panic) => panic!("the launch panicked: {}", said(&*panic)),
    }
}

/// The whole ladder: the server heeds neither end of file nor SIGTERM.
fn end(runtime: &Runtime, launched: LaunchedServer) -> String {
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_millis(5))
        .term_grace(Duration::from_millis(5))
        .kill_confirmation(LIMIT);
    let parts = launched.into_parts();
    let (handle, stdin) = ServerHandle::new("stubborn", parts.stdin, parts.terminator);
    let handle = Arc::new(handle);
    let ended = runtime.block_on(handle.terminate(&policy, EndReason::Shutdown));
    drop(stdin);
    match ended {
        Ok(_) => "gone".to_owned(),
        Err(error) => format!("unproven {}", ErrorChain(&error)),
    }
}

/// Holds the fifo `alive` open in two processes, for ever.
fn stubborn(directory: &Path) -> ServerSpec {
    let script = "trap '' TERM; exec 9>\"$0/alive\"; (read -r line <\"$0/never\") & \
                  read -r line <\"$0/never\"";
    ServerSpec::builder("stubborn", "/bin/sh")
        .args(["-c", script])
        .arg(directory)
        .build()
        .unwrap()
}

fn census() -> BTreeMap<&'static str, usize> {
    let census = Census::take();
    KINDS.map(|kind| (kind, census.fds_of(kind))).into()
}

/// Says something, waits until it was judged, and returns the answer.
fn tell(line: &str) -> u8 {
    let mut channel = seccomp::channel();
    let line = line.replace('\n', " ");
    channel.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = [0];
    channel.read_exact(&mut answer).unwrap();
    answer[0]
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}
