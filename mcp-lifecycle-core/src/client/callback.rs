//! Futures of what an application has plugged in, none of which may end one of our tasks.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::terminate::callback::{message, report};

/// Runs an application's future; the message of a panic in it is the error.
pub(crate) async fn guarded_async<T>(
    what: &str,
    server: &str,
    future: impl Future<Output = T>,
) -> Result<T, String> {
    let caught = AssertUnwindSafe(future).catch_unwind().await;
    caught.map_err(|panic| {
        let message = message(&*panic);
        report(what, server, message);
        message.to_owned()
    })
}
