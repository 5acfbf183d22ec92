//! Texts that several verbs share. Pure, but for the width of the terminal.
//!
//! - `name`: what people call a server, by its command line
//! - `out`: standard output
//! - [`runner`]: programs that run others
//! - [`text`]: texts of others
//! - `table`: columns that fit the terminal
//! - `unknown`: what could not be looked at
//! - `units`: times and sizes in few characters
//! - `watch`: printed once, or again and again

#[cfg(target_os = "linux")]
pub(crate) mod name;
#[cfg(target_os = "linux")]
pub(crate) mod out;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "what a runner runs is asked by lists alone")
)]
pub(crate) mod runner;
#[cfg(target_os = "linux")]
pub(crate) mod table;
pub(crate) mod text;
#[cfg(target_os = "linux")]
pub(crate) mod units;
#[cfg(target_os = "linux")]
pub(crate) mod unknown;
#[cfg(target_os = "linux")]
pub(crate) mod watch;
