//! The guardian, spoken to directly: no launcher, no ladder, no runtime.
//!
//! What misbehaves is a shell script. Every process of a script holds a FIFO open, so that end of file on it is the proof that none is left;
//! everything else that is waited for is an event with a deadline too.

#![cfg(target_os = "linux")]

mod abandoned;
mod cgroup;
mod course;
mod ending;
mod footprint;
mod hardened;
mod host_death;
mod lab;
mod ladder;
mod parsing;
mod proc_missing;
mod session;
mod start;
