//! Direct start: a server behind `npx`, `npm exec`, `uvx` or `uv tool run` is executed as its runner
//! has executed it before, and the runner does not stay.
//!
//! The runner alone resolves and installs. At a first start, the [recorder](recorder::run) stands in
//! the place of the package: it has the arguments, the directory and the environment that the runner
//! gives to the package, writes a record of them, and executes the package. Later starts repeat
//! the record, until
//!
//! - it is older than the given age, or
//! - the command, the directory or the environment is another (variables of a session apart), or
//! - a file has changed that it rests on: the settings of the runner and of the project, the
//!   runner, the program of the package, its interpreter, or their directories.
//!
//! Then the runner runs again, and the record is renewed. A record has no argument of a server, and
//! of variables only those that the runner has set; if one may be a secret, there is no record.
//! Nothing is written into a runner's cache, and no registry is asked.
//!
//! `docs/contain-reference.md` lists what differs.

mod key;
mod package;
mod record;
mod recorder;
mod runner;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

pub use crate::command::Start;
pub use key::specification;
pub use package::package_of;
pub use recorder::run as run_recorder;

use crate::command::Command;
use record::Record;
use runner::Runner;

/// Returns whether [`replace`] may change this command.
pub(crate) fn may_replace(program: &OsStr, args: &[OsString]) -> bool {
    Runner::of(program, args).is_some()
}

/// Replaces the command of a runner by what the runner has executed less than `age` ago. Without
/// such a record, `recorder` writes one: a program that calls [`run_recorder`] first. Reads and
/// writes files of this user.
pub fn replace(command: &mut Command, age: Duration, recorder: Option<&Path>) -> Start {
    let Some(runner) = Runner::of(&command.arg0, &command.args) else {
        return Start::Unchanged;
    };
    let Some(file) = record::file_of(command) else {
        return Start::Unchanged;
    };
    if Record::read(&file, age).is_some_and(|record| record.repeat(command)) {
        return Start::Direct;
    }
    let is_first = !file.exists();
    let recorded = recorder.and_then(|recorder| runner.record(command, recorder, &file, age));
    recorded.map_or(Start::Unchanged, |()| Start::Recorded { is_first })
}
