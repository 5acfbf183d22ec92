use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lock::Lock;

type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A thread with its own runtime, one per process and launcher. It starts with its first use and is
/// never joined, so that servers outlive the runtime of their caller.
#[derive(Debug)]
pub struct Control {
    name: &'static str,
    runtime: Lock<Option<Handle>>,
}

impl Control {
    /// Returns a thread that is not started yet.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            runtime: Lock::new(None),
        }
    }

    /// Runs `future` on the thread, independent of the caller.
    pub fn spawn<F>(&self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Ok(self.handle()?.spawn(future))
    }

    /// Runs `future` on the thread to its end, even if the caller is dropped, and returns its
    /// result.
    pub async fn run<T, E, F>(&self, future: F) -> Result<T, BoxError>
    where
        T: Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.spawn(future)?.await?.map_err(Into::into)
    }

    /// Runs `task` on the thread to its end. Dropping this future cancels the task's token, and its
    /// result is dropped.
    pub async fn cancellable<T, F>(
        &self,
        task: impl FnOnce(CancellationToken) -> F,
    ) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let cancelled = CancellationToken::new();
        let _guard = cancelled.clone().drop_guard();
        Ok(self.spawn(task(cancelled))?.await?)
    }

    fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock();
        if let Some(handle) = &*runtime {
            return Ok(handle.clone());
        }
        let handle = self.start().map_err(|error| {
            let problem = format!("the control thread cannot be started: {error}");
            io::Error::new(error.kind(), problem)
        })?;
        *runtime = Some(handle.clone());
        Ok(handle)
    }

    fn start(&self) -> io::Result<Handle> {
        let own = Builder::new_current_thread().enable_all().build()?;
        let handle = own.handle().clone();
        std::thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || own.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    }
}
