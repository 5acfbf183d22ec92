//! Experiments: one for each thing that a launcher declares and that the contract says.

mod delivery;
mod ends;
mod launches;
mod orphans;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::contract::{self, Rule};
use crate::failure::{Check, Failure};
use crate::fixture::Fixture;
use crate::stage::{Stage, Subject};
use crate::ways::Way;

type Running<'a> = Pin<Box<dyn Future<Output = Check> + Send + 'a>>;

/// One experiment.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// The fixture that it is made with.
    fixture: &'static str,
    /// The sentence that is broken when it fails, unless it names a better one.
    rule: &'static Rule,
    /// This process must hold on to nothing afterwards.
    counted: bool,
    run: for<'a> fn(&'a Stage) -> Running<'a>,
}

impl Experiment {
    /// Returns the cell of the matrix that is skipped for the same reasons, for an experiment on a host, which it kills.
    pub(crate) fn like(&self) -> Option<(Fixture, Way)> {
        let is_on_host = self.name.starts_with("a host ");
        Some((Fixture::named(self.fixture)?, Way::HostKilled)).filter(|_| is_on_host)
    }
}

macro_rules! experiments {
    ($($name:literal, $fixture:literal, $rule:ident, $counted:literal, $run:path;)*) => {
        &[$(Experiment {
            name: $name,
            fixture: $fixture,
            rule: &contract::$rule,
            counted: $counted,
            run: |stage| Box::pin($run(stage)),
        }),*]
    };
}

/// Every experiment, in the order of the report: first what others build on.
#[rustfmt::skip]
pub(crate) const ALL: &[Experiment] = experiments! {
    "a server answers on its streams", "plain", STREAMS, false, delivery::streams_are_connected;
    "arguments, directory and environment are delivered", "plain", STARTS, false, delivery::all_is_delivered;
    "the identity is that of the server", "plain", IDENTITY, false, delivery::identity_is_true;
    "a server outlives the thread that started it", "plain", NO_THREAD, false, launches::outlives_its_thread;
    "a host whose first thread has ended is one like any other", "plain", NO_THREAD, false, launches::a_host_without_first_thread;
    "a launch blocks no thread of the runtime", "plain", NO_BLOCKING, false, launches::blocks_nobody;
    "a program that does not exist is an error, and leaves nothing", "plain", ERRORS, true, launches::missing_program;
    "a server that has ended leaves nothing in its host", "plain", NOTHING_KEPT, true, launches::nothing_is_kept;
    "end of file arrives, and no signal with it", "plain", END_OF_FILE, false, ends::eof_arrives;
    "the polite signal arrives", "ignore-eof", REQUEST, false, ends::polite_signal_arrives;
    "a forced end reaches as far as declared", "plain", REACH, false, ends::force_reaches;
    "the last resort needs no runtime", "ignore-eof-term", LAST_RESORT, false, ends::last_resort_needs_no_runtime;
    "the exit status is true, for many waiters and late ones", "crash-loop", EXIT, false, ends::exit_status_is_true;
    "gone needs no request when the server leaves by itself", "plain", PROOF, false, ends::gone_by_itself;
    "survivors names the living, and nobody after the end", "plain", SURVIVORS, false, ends::survivors_are_named;
    "dropping a wait loses nothing", "plain", DROPPED_WAIT, false, ends::dropped_waits;
    "every primitive may be repeated after the end", "plain", ANY_ORDER, false, ends::repetition;
    "reap_orphans spares the living", "ignore-eof", LIVING, false, orphans::the_living_are_spared;
    "reap_orphans spares strangers with the same command line", "ignore-eof", NO_STRANGER, false, orphans::strangers_are_spared;
};

/// Makes one experiment, and judges what it leaves.
pub(crate) async fn perform(subject: Arc<Subject>, experiment: &Experiment) -> Check {
    let performed = async {
        let fixture = Fixture::named(experiment.fixture);
        let fixture = fixture.ok_or_else(|| Failure::new("no such fixture"))?;
        let stage = match experiment.counted {
            true => Stage::open_counted(&subject, fixture).await?,
            false => Stage::open(&subject, fixture)?,
        };
        let result = (experiment.run)(&stage).await;
        result.and(stage.close().await)
    };
    performed
        .await
        .map_err(|failure: Failure| failure.breaks(experiment.rule))
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
