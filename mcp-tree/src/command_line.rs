//! A command as the one string that Windows starts a program with, and its environment.
//!
//! The rules are the standard library's (`library/std/src/sys/args/windows.rs`), which cannot start
//! a process in a job. A test compares the two.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::iter::repeat_n;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::OwnedHandle;
use std::path::Path;

use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::command::Command;
use crate::sys::{self, Start};

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;
const PERCENT: u16 = b'%' as u16;
const SPACE: u16 = b' ' as u16;

/// Returns what starts `command` with these streams.
pub fn start(command: &Command, streams: [OwnedHandle; 3]) -> Result<Start<'_>, LaunchErrorKind> {
    let invalid =
        |error: io::Error| LaunchErrorKind::backend("the command cannot be passed on", error);
    let (program, line) = if is_script(&command.program) {
        let interpreter = sys::command_interpreter().map_err(invalid)?;
        let line = of_script(&command.program, &command.args);
        (interpreter, line.map_err(invalid)?)
    } else {
        let line = of_program(&command.arg0, &command.args);
        (command.program.clone(), line.map_err(invalid)?)
    };
    Ok(Start {
        program,
        command_line: line,
        environment: environment(&command.env).map_err(invalid)?,
        cwd: command.cwd.as_deref(),
        streams,
    })
}

fn is_script(program: &Path) -> bool {
    let extension = program.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("bat") || extension.eq_ignore_ascii_case("cmd")
}

/// Returns the command line of a program, which splits it by the rules of the C runtime.
fn of_program(program: &OsStr, args: &[OsString]) -> io::Result<Vec<u16>> {
    let mut line = vec![QUOTE];
    line.extend(units(program)?);
    line.push(QUOTE);
    for arg in args {
        line.push(SPACE);
        let bytes = arg.as_encoded_bytes();
        let is_quoted = bytes.is_empty() || bytes.iter().any(|byte| b" \t".contains(byte));
        push(&mut line, &units(arg)?, is_quoted, Reader::Program);
    }
    line.push(0);
    Ok(line)
}

/// Returns the command line of a script, which the command interpreter runs. An argument or a name
/// that cannot be passed on unchanged, as with a line break, is an error.
fn of_script(script: &Path, args: &[OsString]) -> io::Result<Vec<u16>> {
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let script = units(without_prefix(script.as_os_str()))?;
    if script.contains(&QUOTE) || script.last() == Some(&BACKSLASH) {
        return invalid("the name of a script can have no quote and no backslash at its end");
    }
    // The trick with `%` needs extensions; no delayed expansion; no AutoRun.
    let mut line: Vec<u16> = "cmd.exe /e:ON /v:OFF /d /c \"\"".encode_utf16().collect();
    line.extend(script);
    line.push(QUOTE);
    for arg in args {
        if arg
            .as_encoded_bytes()
            .iter()
            .any(|byte| b"\r\n".contains(byte))
        {
            return invalid("an argument of a script (.cmd, .bat) can have no line break");
        }
        line.push(SPACE);
        push(&mut line, &units(arg)?, script_quotes(arg), Reader::Script);
    }
    line.extend([QUOTE, 0]);
    Ok(line)
}

/// Returns `NAME=value` strings, each with a zero, in the order of Windows, and a zero at the end.
fn environment(env: &BTreeMap<OsString, OsString>) -> io::Result<Vec<u16>> {
    let mut sorted: Vec<_> = env.iter().collect();
    sorted.sort_by_key(|(name, _)| name.to_ascii_uppercase());
    let mut block = Vec::new();
    for (name, value) in sorted {
        block.extend(units(name)?);
        block.push(u16::from(b'='));
        block.extend(units(value)?);
        block.push(0);
    }
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Program,
    Script,
}

/// Appends an argument, in quotes if it needs them.
fn push(line: &mut Vec<u16>, arg: &[u16], is_quoted: bool, reader: Reader) {
    if is_quoted {
        line.push(QUOTE);
    }
    let mut backslashes = 0;
    for unit in arg {
        match *unit {
            BACKSLASH => backslashes += 1,
            other => {
                match (other, reader) {
                    // 2n + 1 of them are n, and a quote.
                    (QUOTE, Reader::Program) => line.extend(repeat_n(BACKSLASH, backslashes + 1)),
                    // 2n of them are n, and two quotes are one.
                    (QUOTE, Reader::Script) => {
                        line.extend(repeat_n(BACKSLASH, backslashes));
                        line.push(QUOTE);
                    }
                    // `%cd:~,%` is always empty, and the text after it names no variable.
                    (PERCENT, Reader::Script) => line.extend("%%cd:~,".encode_utf16()),
                    _ => {}
                }
                backslashes = 0;
            }
        }
        line.push(*unit);
    }
    if is_quoted {
        line.extend(repeat_n(BACKSLASH, backslashes));
        line.push(QUOTE);
    }
}

/// Returns whether an argument has a character that is not known to be harmless.
fn script_quotes(arg: &OsStr) -> bool {
    let bytes = arg.as_encoded_bytes();
    let is_harmless = |c: char| match c.is_ascii() {
        true => c.is_ascii_alphanumeric() || r"#$*+-./:?@\_".contains(c),
        false => !c.is_control(),
    };
    bytes.is_empty() || bytes.ends_with(b"\\") || !arg.to_string_lossy().chars().all(is_harmless)
}

/// Removes `\\?\` before a drive letter, which the command interpreter does not know.
fn without_prefix(path: &OsStr) -> &OsStr {
    match path.to_str().and_then(|path| path.strip_prefix(r"\\?\")) {
        Some(short) if short.as_bytes().get(1) == Some(&b':') => OsStr::new(short),
        _ => path,
    }
}

fn units(text: &OsStr) -> io::Result<Vec<u16>> {
    let units: Vec<u16> = text.encode_wide().collect();
    match units.contains(&0) {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a zero in an argument or in the environment",
        )),
        false => Ok(units),
    }
}
