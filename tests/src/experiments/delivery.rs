//! Experiments on what reaches a server, and what comes back.

use mcp_lifecycle_core::launch::{BoxRead, ServerIdentity};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use crate::failure::{Check, Failure, ensure};
use crate::program::shapes::{ON_STDERR, WHEN_ASKED};
use crate::stage::Stage;
use crate::{births, contract};

/// Words that a shell, or a launcher that joins them, would change.
const WORDS: [&str; 8] = [
    "two words",
    "",
    "\"double\" and 'single'",
    "$HOME `id` $(id)",
    "*",
    "back\\slash",
    "semi;colon",
    "two\nlines",
];

/// There is one wherever there are processes, and nothing starts there by default.
#[cfg(unix)]
const DIRECTORY: &str = "/proc";
#[cfg(windows)]
const DIRECTORY: &str = r"C:\windows";

/// A variable that the spec names; nothing else with this beginning is for servers.
const OURS: &str = "MCP_CONFORMANCE_";
const VARIABLE: &str = "MCP_CONFORMANCE_VALUE";
const VALUE: &str = "two words, \"quotes\", $HOME and a = sign";

pub(super) async fn streams_are_connected(stage: &Stage) -> Check {
    let (mut server, _process) = stage.start_one(&stage.spec()?).await?;
    server.say_echo(stage.limit()).await?;
    let mut output = lines(server.take_output().0)?;
    let answer = stage.within(
        "an answer on standard output",
        &contract::STREAMS,
        output.next_line(),
    );
    let answer = answer.await??.unwrap_or_default();
    if answer.contains("\"result\"") {
        return Ok(());
    }
    let failure = format!("asked by its standard input, it answers {answer:?} on standard output");
    Err(stage.explained(Failure::new(failure), server).await)
}

pub(super) async fn all_is_delivered(stage: &Stage) -> Check {
    let address = stage.listener.address();
    let words = WORDS.iter().flat_map(|word| ["--word", word]);
    let asked = stage.subject.attaches_late;
    let args = ["report", "--alive", &address].into_iter().chain(words);
    let args = args.chain(asked.then_some(WHEN_ASKED));
    let spec = stage.subject.fixture.spec(args);
    let spec = spec.cwd(DIRECTORY).env(VARIABLE, VALUE).build()?;
    let (mut server, _process) = stage.start_one(&spec).await?;
    if asked {
        server.say_echo(stage.limit()).await?;
    }
    let (stdout, stderr) = server.take_output();
    let mut stdout = lines(stdout)?;
    let report = stage.within(
        "a line on standard output",
        &contract::STREAMS,
        stdout.next_line(),
    );
    let report = report.await??.unwrap_or_default();
    let apart = |what: &str| Err(Failure::new(what).breaks(&contract::STDERR));
    if report.contains(ON_STDERR) {
        return apart("what the server writes to standard error comes on standard output");
    }
    if let Some(stderr) = stderr {
        let mut stderr = lines(Some(stderr))?;
        let told = stage.within(
            "a line on standard error",
            &contract::STDERR,
            stderr.next_line(),
        );
        if told.await??.as_deref() != Some(ON_STDERR) {
            return apart("something else comes on standard error than the server writes there");
        }
    }
    let report: Value = serde_json::from_str(&report)?;
    let sent: Vec<_> = spec
        .args()
        .iter()
        .map(|arg| arg.to_string_lossy())
        .collect();
    ensure(report["args"] == serde_json::json!(sent), || {
        format!(
            "the arguments were {sent:?}, and the server has got {}",
            report["args"]
        )
    })?;
    ensure(report["cwd"] == DIRECTORY, || {
        format!(
            "the working directory is to be {DIRECTORY:?}, and is {}",
            report["cwd"]
        )
    })?;
    environment_is_ours(&report["env"]).map_err(|failure| failure.breaks(&contract::ENVIRONMENT))
}

fn environment_is_ours(env: &Value) -> Check {
    ensure(env[VARIABLE] == VALUE, || {
        format!(
            "the variable {VARIABLE} is to be {VALUE:?}, and is {}",
            env[VARIABLE]
        )
    })?;
    let names = env.as_object().into_iter().flat_map(|env| env.keys());
    let mut others = names.filter(|name| name.starts_with(OURS) && *name != VARIABLE);
    others.next().map_or(Ok(()), |name| {
        let what = "which no spec names and no list allows, has reached the server";
        Err(Failure::new(format!(
            "the host's environment variable {name}, {what}"
        )))
    })
}

pub(super) async fn identity_is_true(stage: &Stage) -> Check {
    let (server, process) = stage.start_one(&stage.spec()?).await?;
    let not_applicable = |why: &str| Err(Failure::NotApplicable(why.to_owned()));
    let ServerIdentity::Process { pid, .. } = server.terminator.identity() else {
        return not_applicable("the identity is no process on this machine");
    };
    // What it says itself is true where there are no namespaces.
    let said = cfg!(windows) && stage.subject.fixture.runs_here();
    let answering = process.pid_here().or(said.then(|| process.pid()));
    let Some(answering) = answering else {
        return not_applicable("the pid of the fixture cannot be seen from here");
    };
    // A wrapper's, too: whoever is between this process and the one that answers.
    let mut at = Some(answering);
    while let Some(process) = at.filter(|at| *at > 1 && *at != std::process::id()) {
        if process == pid {
            return Ok(());
        }
        at = births::parent(process);
    }
    Err(Failure::new(format!(
        "the identity is pid {pid}; the server that answers is pid {answering}"
    )))
}

fn lines(stream: Option<BoxRead>) -> Check<Lines<BufReader<BoxRead>>> {
    let stream = stream.ok_or_else(|| Failure::new("there is no such stream"))?;
    Ok(BufReader::new(stream).lines())
}
