//! `run`: a server in place of this process.

#[cfg(target_os = "linux")]
mod report;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::run;
#[cfg(windows)]
pub(crate) use windows::run;

/// Refuses options that are not supported.
#[cfg(not(target_os = "linux"))]
fn refuse(options: &crate::options::Options) -> Result<(), crate::failure::Failure> {
    use crate::options::{Containers, Level};
    let asked = [
        (options.lazy, "--lazy"),
        (options.restart, "--restart"),
        (options.path.is_some(), "--path login"),
        (options.report.is_some(), "--report"),
        (!options.keep.is_empty(), "--keep"),
        (options.containers == Containers::Always, "--containers"),
        (options.group && cfg!(windows), "--group"),
        // A job object has what the lower levels have.
        (options.require == Some(Level::Pidns), "--require pidns"),
    ];
    match asked.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => {
            let why = format_args!("{what} is not there on {}", std::env::consts::OS);
            Err(crate::failure::Failure::wrapper(why))
        }
        None => Ok(()),
    }
}
