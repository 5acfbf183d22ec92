//! The end of an owner that has forgotten to ask for it.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use crate::failure::{Check, Failure};
use crate::server::Server;
use crate::stage::Stage;

pub(super) async fn in_a_runtime(stage: &Stage) -> Check {
    drop(stage.start().await?);
    stage.all_dead().await
}

/// The server outlives the runtime that it was launched in, and its owner is
/// dropped by a panic on a thread that never had one.
pub(super) async fn without_a_runtime(stage: &Arc<Stage>) -> Check {
    let (done, outcome) = oneshot::channel();
    let remote = Arc::clone(stage);
    let thread = thread::Builder::new()
        .name("no-runtime".to_owned())
        .spawn(move || {
            let _ = done.send(launch_and_forget(&remote));
        })?;
    let launched = outcome.await?;
    // It has sent: what is left is to return.
    thread.join().map_err(|panic| describe(&*panic))?;
    launched?;
    stage.all_dead().await
}

fn launch_and_forget(stage: &Stage) -> Check {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let server = runtime.block_on(stage.start())?;
    drop(runtime);
    // `resume_unwind` panics without the message of one.
    let unwound = panic::catch_unwind(AssertUnwindSafe(|| drop_in_panic(server)));
    match unwound {
        Err(panic) if panic.is::<Planned>() => Ok(()),
        Err(panic) => Err(describe(&*panic)),
        Ok(()) => Err(Failure::new("the planned panic did not happen")),
    }
}

/// The payload of the planned panic.
struct Planned;

fn drop_in_panic(server: Server) {
    let _server = server;
    panic::resume_unwind(Box::new(Planned));
}

fn describe(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Failure::new(format!("a panic: {}", text.unwrap_or("of unknown content")))
}
