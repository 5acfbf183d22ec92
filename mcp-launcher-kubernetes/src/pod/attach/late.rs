//! Output that arrives after the server's exit was reported.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// Time without output after which neither the exit report nor more output is waited for.
pub(super) const LATE_EXIT: Duration = Duration::from_secs(5);

/// Longest time after the exit report in which output may arrive.
pub(super) const LATE_OUTPUT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Late {
    pub(super) taken: Notify,
    pub(super) cut: OnceLock<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// No output was taken for [`LATE_EXIT`].
    Quiet,
    /// Output arrived for [`LATE_OUTPUT`].
    Endless,
}

impl Cut {
    pub(super) fn words(self) -> String {
        match self {
            Self::Quiet => {
                let limit = LATE_EXIT.as_secs();
                format!("the last output was dropped: not read within {limit} s")
            }
            Self::Endless => {
                let limit = LATE_OUTPUT.as_secs();
                format!("output still arrived {limit} s after the server's exit")
            }
        }
    }
}

impl Late {
    /// Completes when no output was read for a while, or output has lasted too long.
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
