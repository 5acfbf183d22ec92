//! `run`: a server in place of this process, which becomes its shim, or waits for its process group
//! or job object.

#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod writable;

use std::io;
use std::process::ExitCode;
use std::sync::Once;
#[cfg(target_os = "linux")]
use std::time::Duration;

use mcp_guardian::exit::ExitStatus;
use mcp_tree::direct::Start;
use mcp_tree::{Require, Wrapper};

use crate::failure::Failure;
use crate::options::{Level, Options};
#[cfg(unix)]
use crate::sys;

/// The longest wait for a dying predecessor.
#[cfg(target_os = "linux")]
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(30);

/// Starts a program that has the terminal.
pub(crate) fn host(options: Options) -> Result<ExitCode, Failure> {
    let asked = [
        (options.lazy, "--lazy"),
        (options.restart, "--restart"),
        (options.group, "--group"),
        (options.require == Some(Level::Pidns), "--require pidns"),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(Failure::wrapper(format_args!("`host` has no {what}")));
    }
    run(&Options {
        in_foreground: true,
        ..options
    })
}

/// Starts the server. Returns on failure, or at the end of a relay, a process group or a job.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    #[cfg(target_os = "linux")]
    {
        let is_relayed = options.sigkill_as_code;
        if (options.lazy || options.restart) && !is_relayed {
            return crate::lazy::run(options);
        }
        if is_relayed {
            // The relay blocks them.
            let _ = crate::lazy::signals().thread_unblock();
        }
    }
    #[cfg(not(target_os = "linux"))]
    refuse(options)?;
    let Some((program, args)) = options.command.split_first() else {
        return Err(Failure::wrapper("no program was named"));
    };
    let mut wrapper = Wrapper::new(program, args.iter().cloned());
    wrapper.name.clone_from(&options.name);
    wrapper.grace = options.grace;
    wrapper.mark = !options.no_mark;
    wrapper.log.clone_from(&options.log);
    wrapper.limits.memory = options.memory;
    wrapper.limits.pids = options.pids;
    wrapper.limits.cpus = options.cpus;
    wrapper.hardened = options.hardened;
    wrapper.keep.clone_from(&options.keep);
    wrapper.unrecorded = unrecorded;
    wrapper.in_foreground = options.in_foreground;
    wrapper.sigkill_as_code = options.sigkill_as_code;
    wrapper.require = match options.require {
        None => Require::Nothing,
        Some(Level::Group) => Require::Group,
        Some(Level::Guardian) => Require::Guardian,
        Some(Level::Cgroup) => Require::Cgroup,
        Some(Level::Pidns) => Require::PidNamespace,
    };
    #[cfg(target_os = "linux")]
    by_guardian(options, &mut wrapper)?;
    #[cfg(not(target_os = "linux"))]
    start_directly(options, &mut wrapper);
    let ended = wrapper.run();
    match ended.map_err(|error| Failure::launch(&error))? {
        // All 32 bits; `ExitCode` has only eight.
        #[cfg(windows)]
        ExitStatus::Code(code) => std::process::exit(code),
        #[cfg(unix)]
        ExitStatus::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(125))),
        #[cfg(unix)]
        ExitStatus::Signal(9) if wrapper.sigkill_as_code => Ok(ExitCode::from(137)),
        #[cfg(unix)]
        ExitStatus::Signal(number) => Ok(sys::die_of(number)),
        _ => Err(Failure::wrapper("the server's exit code is lost")),
    }
}

/// Reports once that a server has no record, also if its start is tried again.
fn unrecorded(why: &io::Error) {
    static REPORT: Once = Once::new();
    let what = "the server is not recorded, so `ps`, `stop` and `reap` may not find it";
    REPORT.call_once(|| Failure::wrapper(format_args!("{what}: {why}")).say());
}

/// Becomes the shim of the server. Returns where that has to be left to a process group.
#[cfg(target_os = "linux")]
fn by_guardian(options: &Options, wrapper: &mut Wrapper) -> Result<(), Failure> {
    let report = options.report.as_deref();
    wrapper.report = report.map(report::open).transpose()?;
    wrapper.writable = writable::listed(options)?;
    let words = options.command.iter();
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    wrapper.label = Some(crate::show::name::of(&words, "?").into());
    // A relay has asked for it, and is this process's parent.
    let path = options.path.filter(|_| !options.sigkill_as_code);
    wrapper.path = path.and_then(crate::options::path);
    if options.exclusive {
        wrapper.wait_for_predecessor(PREDECESSOR_LIMIT);
    }
    crate::containers::accompany(options, wrapper)?;
    start_directly(options, wrapper);
    if options.group {
        return Ok(());
    }
    let error = wrapper.exec();
    if !error.is_unavailable() {
        return Err(Failure::launch(&error));
    }
    // Prefer a server that may leave something behind to none, unless `--require` is given.
    let program = wrapper.program.display();
    Failure::wrapper(format_args!("{program} has a process group alone: {error}")).say();
    Ok(())
}

/// Puts the package in the place of its runner, or has this program record what the runner starts.
fn start_directly(options: &Options, wrapper: &mut Wrapper) {
    if options.no_direct {
        return;
    }
    let runner = wrapper.program.clone();
    let this = std::env::current_exe().ok();
    // A server that could write a record would choose what others start.
    let this = this.filter(|_| options.write.is_empty());
    let start = wrapper.start_directly(options.direct_age, this.as_deref());
    if start == (Start::Recorded { is_first: true }) {
        let runner = runner.display();
        let what = format_args!("{runner} looks the package up, and installs it if it is missing");
        Failure::wrapper(what).say();
    }
}

/// Refuses options that are not supported.
#[cfg(not(target_os = "linux"))]
fn refuse(options: &Options) -> Result<(), Failure> {
    use crate::options::Containers;
    let asked = [
        (options.in_foreground, "host"),
        (options.lazy, "--lazy"),
        (options.restart, "--restart"),
        (!options.watch.is_empty(), "--watch"),
        (options.exclusive, "--exclusive"),
        (options.path.is_some(), "--path login"),
        (options.report.is_some(), "--report"),
        (options.hardened, "--hardened"),
        (!options.write.is_empty(), "--write"),
        (!options.keep.is_empty(), "--keep"),
        (options.pids.is_some(), "--pids"),
        (options.cpus.is_some(), "--cpus"),
        (options.containers == Containers::Always, "--containers"),
        (options.group && cfg!(windows), "--group"),
        // A job object has what the lower levels have.
        (options.require == Some(Level::Pidns), "--require pidns"),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        let why = format_args!("{what} is not there on {}", std::env::consts::OS);
        return Err(Failure::wrapper(why));
    }
    Ok(())
}
