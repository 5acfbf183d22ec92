//! The thread that owns what must not end with a caller: creates in flight,
//! attach streams, removals.
//!
//! One per process, started with the first launch, never joined: a container
//! is taken care of also after the runtime of whoever launched it has gone.

use std::io;
use std::sync::{Mutex, PoisonError};

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

fn handle() -> io::Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*runtime {
        return Ok(handle.clone());
    }
    let own = Builder::new_current_thread().enable_all().build()?;
    let handle = own.handle().clone();
    std::thread::Builder::new()
        .name("mcp-docker".to_owned())
        .spawn(move || own.block_on(std::future::pending::<()>()))?;
    *runtime = Some(handle.clone());
    Ok(handle)
}
