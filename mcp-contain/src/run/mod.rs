//! `run`: a server in place of this process.

#[cfg(target_os = "linux")]
mod report;
#[cfg(windows)]
mod windows;

#[cfg(not(windows))]
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use crate::containers::accompany;
#[cfg(not(windows))]
use crate::failure::Failure;
#[cfg(not(windows))]
use crate::options::Options;
#[cfg(target_os = "linux")]
use crate::options::{Level, path};
#[cfg(target_os = "linux")]
use crate::show::name;

/// Starts the server. Returns only on failure, or at the end of a relay.
#[cfg(target_os = "linux")]
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    use mcp_tree::{Require, Wrapper};

    let is_relayed = options.sigkill_as_code;
    if (options.lazy || options.restart) && !is_relayed {
        return crate::lazy::run(options);
    }
    if is_relayed {
        crate::lazy::unblock_signals();
    }
    let Some((program, args)) = options.command.split_first() else {
        return Err(Failure::wrapper("no program was named"));
    };
    let mut wrapper = Wrapper::new(program, args.iter().cloned());
    wrapper.report = options.report.as_deref().map(report::open).transpose()?;
    wrapper.name.clone_from(&options.name);
    wrapper.grace = options.grace;
    let words = options.command.iter();
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    wrapper.label = Some(name::of(&words, "?").into());
    wrapper.mark = !options.no_mark;
    wrapper.log.clone_from(&options.log);
    wrapper.memory = options.memory;
    wrapper.keep.clone_from(&options.keep);
    wrapper.sigkill_as_code = options.sigkill_as_code;
    // A relay has asked for it, and is this process's parent.
    wrapper.path = options.path.filter(|_| !is_relayed).and_then(path);
    wrapper.require = match options.require {
        None => Require::Nothing,
        Some(Level::Guardian) => Require::Guardian,
        Some(Level::Cgroup) => Require::Cgroup,
        Some(Level::Pidns) => Require::PidNamespace,
    };
    accompany(options.containers, &mut wrapper)?;
    let error = wrapper.exec();
    if error.is_unavailable() {
        // Prefer a server that may be left behind to none, unless `--require` is given.
        let warning = format_args!("{} starts without containment: {error}", program.display());
        Failure::wrapper(warning).say();
        return Err(Failure::exec(program, &wrapper.exec_uncontained()));
    }
    Err(Failure::launch(&error))
}

#[cfg(windows)]
pub(crate) use windows::run;

#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn run(_: &Options) -> Result<ExitCode, Failure> {
    Err(Failure::wrapper(
        "servers can be started on Linux and Windows only",
    ))
}
