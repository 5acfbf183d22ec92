//! The common parts of launchers that talk to an engine or a cluster. Internal to this workspace: it changes
//! without notice.
//!
//! * [`control`]: a thread for operations that outlive their caller.
//! * [`random`]: random unique names.
//! * [`output`]: the engine's messages as a byte stream.
//! * [`fields`]: raw fields of the engine's request, merged over options.
//! * [`helper`]: runs programs that provide credentials.

pub mod control;
pub mod fields;
pub mod helper;
pub mod output;
pub mod random;
