//! A command as the transport: its last words, and what it leaves behind.

use crate::prelude::*;

async fn error(script: &str) -> String {
    let config = ExecutorLauncher::command("/bin/sh", ["-c", script]);
    let error = within(ExecutorLauncher::connect(config)).await.unwrap_err();
    ErrorChain(&error).to_string()
}

#[tokio::test]
async fn the_last_words_of_a_command_are_in_the_error() {
    let denied = "echo 'Warning: first' >&2; sleep 0.1; exec >&-; sleep 0.1; \
                  echo 'x@box: Permission denied (publickey).' >&2; exit 255";
    let error = error(denied).await;
    for words in [
        "`/bin/sh`",
        "255",
        "Warning: first",
        "Permission denied (publickey).",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_command_that_says_much_or_goes_on_is_cut_short() {
    let flood = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); printf 'line %s %0500d\\n' $i 0; \
                 done >&2; exit 3";
    let long = error(flood).await;
    assert!(
        long.contains("line 2000") && !long.contains("line 1997 "),
        "{long}"
    );
    assert!(long.len() < 2000, "{long}");
    let silent = error("exec >&-; sleep 1000").await;
    assert!(silent.contains("closed its standard output"), "{silent}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    let config = ExecutorLauncher::command("/no/such/ssh", ["box"]);
    let error = within(ExecutorLauncher::connect(config)).await.unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.contains("`/no/such/ssh`: No such file"), "{error}");
}

/// A shell around the transport goes on when it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_command_is_left() {
    let mark = marker("transport");
    let script = format!("{DAEMON} --stdio; sh -c 'sleep 1000; : {mark}'");
    let launcher = launcher(ExecutorLauncher::command("/bin/sh", ["-c", &script])).await;
    let server = launch(&launcher, sh("exec cat")).await;
    assert!(!alive(&mark).is_empty());
    server.end(&without_haste()).await.unwrap();
    drop((server, launcher));
    vanished(&mark, Duration::from_secs(20)).await;
}
