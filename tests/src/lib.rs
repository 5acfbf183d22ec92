//! The conformance kit that any launcher runs.
//!
//! The pieces, from the ground up:
//!
//! * [`alive`]: the observer. Every process of the fixture holds a connection
//!   to it; end of file on the connection proves that every holder is dead.
//! * [`census`]: what this process itself holds on to (descriptors, threads,
//!   children), to be the same after as before.
//! * [`deadline`]: a suite that overruns aborts instead of hanging.
//!
//! The program under observation is `mcp-fixture`, a binary of this package:
//! one misbehaviour per subcommand.

pub mod alive;
pub mod census;
pub mod deadline;
