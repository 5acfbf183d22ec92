//! The thread that owns what must not end with a caller: creates in flight,
//! attach streams, removals.
//!
//! One per process, started with the first launch, never joined: a container
//! is taken care of also after the runtime of whoever launched it has gone.

use std::io;
use std::sync::{Mutex, PoisonError};

use mcp_lifecycle_core::launch::BoxError;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// Runs `future` on the control thread, whatever becomes of the caller.
///
/// # Errors
///
/// When the thread is needed for the first time and cannot be started.
pub(crate) fn spawn<F>(future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    Ok(handle()?.spawn(future))
}

/// Runs `future` on the control thread, to its end also where the caller goes away before,
/// and returns what came of it.
///
/// # Errors
///
/// Also those of [`spawn`], and a panic of the future.
pub(crate) async fn run<T, E, F>(future: F) -> Result<T, BoxError>
where
    T: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    spawn(future)?.await?.map_err(Into::into)
}

fn handle() -> io::Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*runtime {
        return Ok(handle.clone());
    }
    let handle = start().map_err(|error| {
        let problem = format!("the control thread cannot be started: {error}");
        io::Error::new(error.kind(), problem)
    })?;
    *runtime = Some(handle.clone());
    Ok(handle)
}

fn start() -> io::Result<Handle> {
    let own = Builder::new_current_thread().enable_all().build()?;
    let handle = own.handle().clone();
    std::thread::Builder::new()
        .name("mcp-docker".to_owned())
        .spawn(move || own.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}
