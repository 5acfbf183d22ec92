//! [`ProcessTerminator`]: what a launcher supplies to end one server.

use std::fmt;

use async_trait::async_trait;

use super::error::step::StepError;
use super::exit::ExitStatus;
use super::identity::ServerIdentity;
use super::proof::Gone;
use super::remnant::Remnant;
use super::semantics::TerminationSemantics;

/// The means to watch and end one server, as primitives.
///
/// # Contract
///
/// Implemented by launchers, called by [`ServerHandle`](crate::terminate::ServerHandle),
/// which owns the order, the waits and the report. Users call the handle.
///
/// * Every method takes `&self`, may be called by many tasks at once, in any
///   order, again after it succeeded, and after the server has gone.
/// * Dropping a returned future undoes nothing and loses nothing.
/// * *Server* means all of it: the main process and whatever it started, as far
///   as [`semantics`](Self::semantics) declares.
/// * No method waits longer than the event it waits for; none has a timeout. The clocks
///   are those of the [`TerminationPolicy`](crate::terminate::TerminationPolicy): a request or an
///   order that is acknowledged late has the whole wait of its step (`eof_grace`,
///   `term_grace`, `kill_confirmation`), and is dropped when the next step follows. A
///   request that *fails* is followed by the next step at once. An order to force that
///   fails, or is not acknowledged in half its wait, is followed by
///   [`kill_now`](Self::kill_now). Names and exit statuses have `report_limit`.
#[async_trait]
pub trait ProcessTerminator: fmt::Debug + Send + Sync + 'static {
    /// The identity of the server: fit for logs and for the operator's eyes.
    fn identity(&self) -> ServerIdentity;

    /// The steps of an end that this very server allows, and their reach.
    fn semantics(&self) -> TerminationSemantics;

    /// Completes when the main process has ended, however that came about.
    ///
    /// Event driven. [`ExitStatus::Unknown`] when the launcher lost the means
    /// to know *and* knows that the process has ended.
    async fn exited(&self) -> ExitStatus;

    /// Asks the whole server to end: SIGTERM (and SIGCONT, for a stopped one).
    ///
    /// Returns once the request is delivered. Not called where
    /// [`TerminationSemantics::polite_signal`] is `false`.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the request could not be delivered. A server that has
    /// gone already is `Ok`.
    async fn request_end(&self) -> Result<(), StepError>;

    /// Forces the whole server to end: SIGKILL, or the launcher's equivalent.
    ///
    /// Returns once the order is given; [`gone`](Self::gone) tells when it is done.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the order could not be given.
    async fn force_end(&self) -> Result<(), StepError>;

    /// Completes on proof that nothing of the server is left.
    ///
    /// Event driven, and does nothing to the server by itself: processes ended
    /// and reaped, container absent, remote process reported closed.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the proof can no longer be had, for instance because
    /// the connection to the other machine is lost.
    async fn gone(&self) -> Result<Gone, StepError>;

    /// Names what of the server is alive now. Empty is not a proof: only
    /// [`gone`](Self::gone) is.
    ///
    /// # Errors
    ///
    /// [`StepError`] when nobody can tell.
    async fn survivors(&self) -> Result<Vec<Remnant>, StepError>;

    /// The last resort: forces the server to end, synchronously.
    ///
    /// Works in `Drop`, during a panic, outside a runtime and after the runtime
    /// has gone. Does not block for longer than giving the order takes, does
    /// not panic, and leaves no zombie: the launcher reaps by its own means.
    fn kill_now(&self);
}
