//! The thread that owns operations which must outlive their caller: creations in flight, attached
//! streams, removals. One per process, started with the first launch.

use std::io;

use mcp_lifecycle_core::backend::control::Control;
use mcp_lifecycle_core::launch::BoxError;
use tokio::task::JoinHandle;

static CONTROL: Control = Control::new("mcp-docker");

/// [`Control::spawn`].
pub(crate) fn spawn<F>(future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    CONTROL.spawn(future)
}

/// [`Control::run`].
pub(crate) async fn run<T, E, F>(future: F) -> Result<T, BoxError>
where
    T: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    CONTROL.run(future).await
}
