use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls an application's callback and logs a panic in it.
pub(crate) fn guarded<T>(what: &str, server: &str, callback: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(value) => Some(value),
        Err(panic) => {
            report(what, server, message(&*panic));
            None
        }
    }
}

#[cfg(feature = "client")]
pub(crate) async fn guarded_async<T>(
    what: &str,
    server: &str,
    future: impl Future<Output = T>,
) -> Result<T, String> {
    let caught = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(future)).await;
    caught.map_err(|panic| {
        let message = message(&*panic);
        report(what, server, message);
        message.to_owned()
    })
}

fn report(what: &str, server: &str, message: &str) {
    let log = || tracing::error!(server, "{what} panicked: {message}");
    drop(catch_unwind(AssertUnwindSafe(log)));
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}
