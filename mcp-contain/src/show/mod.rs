//! Output that several verbs share.

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
