//! A guardian that is the host's own program, executed again: macOS.
//!
//! ```text
//! order ───── the variable that makes a process a guardian. Pure
//! protocol ── what host and guardian say to each other. Pure
//! course ──── what a guardian does next. Pure
//! serve ───── the guardian
//! program ─── the program that is executed again
//! host ────── how the host starts one
//! server ──── the primitives that end its server
//! ```
//!
//! Pure parts are tested on Linux. The rest compiles for macOS and was run on none. The design, and what is not
//! guaranteed, is in `docs/lineage.md`.

#[cfg(any(target_os = "macos", all(unix, test)))]
mod course;
#[cfg(target_os = "macos")]
mod host;
#[cfg(any(target_os = "macos", all(unix, test)))]
mod order;
#[cfg(target_os = "macos")]
mod program;
#[cfg(any(target_os = "macos", all(unix, test)))]
mod protocol;
#[cfg(target_os = "macos")]
mod serve;
#[cfg(target_os = "macos")]
mod server;

#[cfg(target_os = "macos")]
pub(crate) use self::host::{containment, ready, spawn};

/// Lets this program be the guardian of servers that it launches, on macOS. To be called first in `main`.
///
/// ```no_run
/// mcp_launcher_local::serve_as_guardian();
/// // ... the program
/// ```
///
/// A library cannot bring a program of its own to macOS. So, where this was called,
/// [`LocalLauncher`](crate::LocalLauncher) executes the host's program a second time for each server: that process is the server's
/// parent, and ends what it has seen of the server's descendants when the host has died. In such a process the call does not return;
/// in every other it does so at once. What comes before it in `main` is done by each guardian as well: it must start no thread
/// and change neither the environment nor the standard streams.
///
/// Without this call, servers on macOS are in process groups with a pipe watcher. On other systems the call does nothing: they need no
/// such guardian.
///
/// Compiled for macOS, and not run on one yet: `docs/lineage.md` in the repository.
pub fn serve_as_guardian() {
    #[cfg(target_os = "macos")]
    serve::serve();
}
