//! The output that arrives after the word that the server has exited.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// Time for which the end of the output waits for the word that the server has exited, and that
/// word for more output, after the last message that was taken.
pub(super) const LATE_EXIT: Duration = Duration::from_secs(5);

/// Time after that word in which output may arrive.
pub(super) const LATE_OUTPUT: Duration = Duration::from_secs(60);

/// The output that arrives after the word that the server has exited.
#[derive(Default)]
pub(super) struct Late {
    /// Told of each message that was taken.
    pub(super) taken: Notify,
    pub(super) cut: OnceLock<Cut>,
}

/// Why the session is ended after its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// No output was taken for [`LATE_EXIT`].
    Quiet,
    /// Output arrived for [`LATE_OUTPUT`].
    Endless,
}

impl Cut {
    /// The words for whoever reads what was not lost.
    pub(super) fn words(self) -> String {
        match self {
            Self::Quiet => {
                let limit = LATE_EXIT.as_secs();
                format!("its last output is lost, for nobody took it for {limit} s")
            }
            Self::Endless => {
                let limit = LATE_OUTPUT.as_secs();
                format!("its output was still under way {limit} s after the server's exit")
            }
        }
    }
}

impl Late {
    /// Until no output was taken for a while, or it has lasted too long.
    pub(super) async fn is_over(&self) {
        let mut most = std::pin::pin!(sleep(LATE_OUTPUT));
        let cut = loop {
            tokio::select! {
                biased;
                () = &mut most => break Cut::Endless,
                () = self.taken.notified() => {}
                () = sleep(LATE_EXIT) => break Cut::Quiet,
            }
        };
        let _ = self.cut.set(cut);
    }
}
