use std::fmt;

use async_trait::async_trait;

use super::{ExitStatus, Gone, Remnant, ServerIdentity, StepError, TerminationSemantics};

/// Primitives to watch and end one server.
///
/// # Contract
///
/// Implemented by launchers, called by [`ServerHandle`](crate::terminate::ServerHandle), which owns
/// the order, the waits and the report. Users call the handle.
///
/// * Every method takes `&self` and may be called concurrently, in any order, again after success,
///   and after the server has ended.
/// * Dropping a returned future undoes nothing and loses nothing.
/// * *Server* means the main process and whatever it started, as far as
///   [`semantics`](Self::semantics) declares.
/// * No method has a timeout. The clocks are those of the
///   [`TerminationPolicy`](crate::terminate::TerminationPolicy): a call has the whole wait of its
///   step (`eof_grace`, `term_grace`, `kill_confirmation`), and is dropped when the next step
///   follows. A request that *fails* is followed by the next step at once. A forced end that fails,
///   or is not acknowledged in half its wait, is followed by [`kill_now`](Self::kill_now).
#[async_trait]
pub trait ProcessTerminator: fmt::Debug + Send + Sync + 'static {
    /// Returns the server's identity, for logs and operators.
    fn identity(&self) -> ServerIdentity;

    /// Returns the steps of an end that this server supports, and their reach.
    fn semantics(&self) -> TerminationSemantics;

    /// Completes when the main process has ended for any reason.
    ///
    /// Event driven. [`ExitStatus::Unknown`] if the process is known to have ended but its status
    /// was lost.
    async fn exited(&self) -> ExitStatus;

    /// Asks the whole server to end: SIGTERM (and SIGCONT, for a stopped one).
    ///
    /// Returns once the request is delivered. Not called if [`TerminationSemantics::polite_signal`]
    /// is `false`.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the request could not be delivered. `Ok` if the server has ended already.
    async fn request_end(&self) -> Result<(), StepError>;

    /// Forces the whole server to end: SIGKILL or an equivalent.
    ///
    /// Returns once the order is given; [`gone`](Self::gone) confirms its completion.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the order could not be given.
    async fn force_end(&self) -> Result<(), StepError>;

    /// Completes on proof that nothing of the server is left.
    ///
    /// Event driven and passive. The proof: processes ended and reaped, container absent, remote
    /// process reported closed.
    ///
    /// # Errors
    ///
    /// [`StepError`] when no proof is possible any more, for instance because the connection to the
    /// other machine is lost.
    async fn gone(&self) -> Result<Gone, StepError>;

    /// Lists the living parts of the server. An empty list is no proof: only [`gone`](Self::gone)
    /// is.
    ///
    /// # Errors
    ///
    /// [`StepError`] when they cannot be determined.
    async fn survivors(&self) -> Result<Vec<Remnant>, StepError>;

    /// Forces the server to end, synchronously, as the last resort.
    ///
    /// Works in `Drop`, during a panic, and without or after a runtime. Blocks no longer than
    /// giving the order takes, does not panic, and leaves no zombie: the launcher reaps by its own
    /// means.
    fn kill_now(&self);
}
