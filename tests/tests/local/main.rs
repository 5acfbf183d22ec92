//! The local launcher and the lifecycle client against real processes.

mod bad_input;
mod calls;
mod eras;
mod host_ends;
mod ownership;
mod real_servers;
mod shutdown;
mod support;
mod transport;
