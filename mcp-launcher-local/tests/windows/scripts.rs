//! Scripts of the command interpreter, and arguments of any kind: as the standard library passes them.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use tokio::io::AsyncReadExt;

use crate::cases::trial;
use crate::fixture::MARK;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "arguments_of_programs_arrive_as_the_standard_library_s_do",
            programs,
        ),
        trial(
            "arguments_of_scripts_arrive_as_the_standard_library_s_do",
            scripts,
        ),
        trial("npx_is_npx_cmd_and_not_the_script_beside_it", npx),
        trial("an_argument_that_no_script_can_get_is_refused", refused),
    ]
}

/// What is hard to pass on.
const ARGUMENTS: &[&str] = &[
    "plain",
    "",
    "with space",
    "tab\there",
    "\"quoted\"",
    "in\"side",
    r"back\slash",
    r"ends\",
    r"ends twice\\",
    r#"\"mixed\\" "#,
    "%PATH%",
    "100%",
    "%cd%",
    "a^b",
    "a&b",
    "a|b",
    "<in>",
    "(x)",
    "!v!",
    "ünï ✓",
    "a=b;c,d",
    "--k=v w",
];

/// What a program says to one argument, started by the standard library.
fn by_std(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same, started by the launcher.
async fn by_us(program: &Path, arguments: &[&str]) -> String {
    let spec = ServerSpec::builder("args", program)
        .args(arguments)
        .build()
        .unwrap();
    let launched = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap();
    let mut server = launched.into_parts();
    let mut text = Vec::new();
    server.stdout.read_to_end(&mut text).await.unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

async fn programs() {
    let program = std::env::current_exe().unwrap();
    let arguments: Vec<&str> = [MARK, "args"]
        .into_iter()
        .chain(ARGUMENTS.iter().copied())
        .collect();
    let ours = by_us(&program, &arguments).await;
    assert_eq!(ours, by_std(&program, &arguments));
    let expected: String = ARGUMENTS
        .iter()
        .map(|argument| format!("{argument:?}\n"))
        .collect();
    assert_eq!(ours.replace('\r', ""), expected);
}

/// A script in a directory with a space and a `%`, that passes its arguments on.
fn script(directory: &Path, name: &str) -> std::path::PathBuf {
    let directory = directory.join("with space, 100%");
    std::fs::create_dir_all(&directory).unwrap();
    let script = directory.join(name);
    let program = std::env::current_exe().unwrap();
    let text = format!("@\"{}\" {MARK} args %*\r\n", program.display());
    std::fs::write(&script, text).unwrap();
    script
}

async fn scripts() {
    let directory = tempfile::tempdir().unwrap();
    let script = script(directory.path(), "server.cmd");
    let mut arrived = 0;
    for argument in ARGUMENTS {
        let ours = by_us(&script, &[argument]).await;
        assert_eq!(ours, by_std(&script, &[argument]), "{argument:?}");
        arrived += usize::from(ours.trim_end() == format!("{argument:?}"));
    }
    // What a script's own `%*` makes of quotes is its own affair.
    println!(
        "{arrived} of {} arguments arrive unchanged",
        ARGUMENTS.len()
    );
    assert!(arrived > ARGUMENTS.len() / 2);
}

async fn npx() {
    let directory = tempfile::tempdir().unwrap();
    let cmd = script(directory.path(), "npx.cmd");
    std::fs::write(cmd.with_extension(""), "#!/bin/sh\nexit 1\n").unwrap();
    let path = cmd.parent().unwrap();
    let spec = ServerSpec::builder("npx", "npx")
        .arg("-y")
        .env("PATH", path);
    let spec = spec.build().unwrap();
    let launched = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap();
    let mut server = launched.into_parts();
    let mut text = String::new();
    server.stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(text.trim_end(), "\"-y\"");
}

async fn refused() {
    let directory = tempfile::tempdir().unwrap();
    let script = script(directory.path(), "server.bat");
    let spec = ServerSpec::builder("bat", script)
        .arg("one\ntwo")
        .build()
        .unwrap();
    let error = LocalLauncher::new()
        .launch(&spec, &LaunchContext::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("line break"), "{error}");
}
