//! Runnable programs that compose the launchers; see the example targets.
