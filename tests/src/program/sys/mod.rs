//! Everything that needs `unsafe`, or the kernel's own vocabulary.

#[cfg(unix)]
mod attack;
#[cfg(target_os = "linux")]
pub(crate) mod hostile;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use attack::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
