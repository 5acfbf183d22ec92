//! Calls into what an application has plugged in, none of which may end one of our tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls an application's callback. A panic in it is logged, and ends nothing else.
pub(crate) fn guarded<T>(what: &str, server: &str, callback: impl FnOnce() -> T) -> Option<T> {
    // What the callback may leave half done is its own.
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(value) => Some(value),
        Err(panic) => {
            report(what, server, message(&*panic));
            None
        }
    }
}

/// Logs a panic, unless that panics too: the subscriber is the application's.
pub(crate) fn report(what: &str, server: &str, message: &str) {
    let log = || tracing::error!(server, "{what} panicked: {message}");
    drop(catch_unwind(AssertUnwindSafe(log)));
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}
