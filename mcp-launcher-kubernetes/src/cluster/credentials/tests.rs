//! Programs that give credentials, or do not: real ones, of `sh`.

use std::fs;
use std::path::Path;

use futures_util::future::join_all;
use serde_json::Value;

use crate::cluster::scripted::{Answer, Api, refused};
use crate::cluster::{Cluster, Kind, Listed};

use super::*;

const SECRET: &str = "hush-hush";

/// A user whose credentials such a script gives.
fn exec(script: &str) -> Value {
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script, SECRET], "env": [{"name": "KEY", "value": SECRET}],
        "interactiveMode": "Never"}})
}

fn token(name: &str, expires: &str) -> String {
    let status = json!({"token": name, "expirationTimestamp": expires});
    json!({"kind": "ExecCredential", "status": status}).to_string()
}

/// The token of whoever asks.
async fn start() -> Api {
    Api::start(async |asked| {
        let none = Answer::from((
            200,
            json!({"metadata": {"resourceVersion": "1"}, "items": []}),
        ));
        match asked.authorization {
            Some(token) if token.starts_with("Bearer good") => none,
            other => refused(401, "Unauthorized", &format!("{}", other.is_some())),
        }
    })
    .await
}

async fn list(cluster: &Cluster) -> Result<(), String> {
    let listed: Result<Listed<Value>, _> = cluster.list(Kind::Pod, "a").await;
    listed
        .map(drop)
        .map_err(|error| format!("{error} {error:?}"))
}

fn count(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_program_that_fails_is_told_without_its_secrets() {
    let api = start().await;
    api.user(&exec(&format!("echo {SECRET} | tee /dev/stderr; exit 3")));
    let text = list(&api.cluster()).await.unwrap_err();
    for word in ["`sh`", "exit status: 3", "kubectl"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_quoted() {
    let api = start().await;
    let answers = [
        SECRET.to_owned(),
        format!("status: {{token: [{SECRET}]}}"),
        "{}".to_owned(),
        format!("status: {{token: \"a\\n{SECRET}\"}}"),
        format!("status: {{expirationTimestamp: {SECRET}}}"),
    ];
    for answer in answers {
        api.user(&exec(&format!("cat <<'E'\n{answer}\nE")));
        let text = list(&api.cluster()).await.unwrap_err();
        assert!(text.contains("gives no credentials"), "{text}");
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// The first credentials are those of the connection; the next are asked for within a request.
#[tokio::test]
async fn a_program_that_fails_later_is_told_without_its_secrets() {
    let api = start().await;
    let directory = tempfile::tempdir().unwrap();
    let first = directory.path().join("first");
    let old = token("good", "2020-01-01T00:00:00Z");
    let script = format!(
        "if mkdir {}; then echo '{old}'; else echo {SECRET} | tee /dev/stderr; exit 3; fi",
        first.display()
    );
    api.user(&exec(&script));
    let text = list(&api.cluster()).await.unwrap_err();
    assert!(text.contains("exit status: 3"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn many_requests_ask_the_program_once_and_again_when_its_token_is_refused() {
    let api = start().await;
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let answer = token("good", "2099-01-01T00:00:00Z");
    let script = |answer: &str| format!("echo >>{}; sleep 0.3; echo '{answer}'", runs.display());
    api.user(&exec(&script(&answer)));
    let cluster = api.cluster();
    let all = join_all((0..20).map(|_| list(&cluster))).await;
    assert_eq!(all, vec![Ok(()); 20]);
    assert_eq!(count(&runs), 1);

    let refused = exec(&script(&token("old", "2099-01-01T00:00:00Z")));
    let exec: ExecConfig = serde_json::from_value(refused["exec"].clone()).unwrap();
    let credentials = Credentials::new(exec);
    credentials.given().await.unwrap();
    credentials.answered(StatusCode::UNAUTHORIZED);
    credentials.given().await.unwrap();
    assert_eq!(count(&runs), 2, "not twice within {AGAIN:?}");
    let long_ago = Instant::now().checked_sub(AGAIN).unwrap();
    credentials.0.state.lock().await.given.as_mut().unwrap().at = long_ago;
    credentials.given().await.unwrap();
    assert_eq!(count(&runs), 3);
}

/// What it has started in its process group ends with it: the pipe that all hold is at its end.
#[tokio::test]
async fn a_program_that_hangs_is_killed_and_all_who_wait_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let (fifo, runs) = (directory.path().join("fifo"), directory.path().join("runs"));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let script = format!(
        "echo >>{}; exec 9>{}; sleep 1000 & sleep 1000",
        runs.display(),
        fifo.display()
    );
    let opened = tokio::task::spawn_blocking(move || {
        let mut fifo = fs::File::open(fifo).unwrap();
        std::io::Read::read(&mut fifo, &mut [0]).unwrap()
    });
    let begun = Instant::now();
    let exec: ExecConfig = serde_json::from_value(exec(&script)["exec"].clone()).unwrap();
    let credentials = Credentials::new(exec);
    let (one, other) = tokio::join!(credentials.given(), credentials.given());
    for failed in [one, other] {
        let text = failed.err().unwrap().to_string();
        assert!(text.contains("within 10 s"), "{text}");
    }
    assert!(begun.elapsed() < LIMIT * 5, "{:?}", begun.elapsed());
    let read = timeout(Duration::from_secs(60), opened).await;
    assert_eq!(read.expect("the end of all that hold it").unwrap(), 0);
    assert_eq!(count(&runs), 1);
}

#[test]
fn a_certificate_is_taken_with_its_key() {
    let status = json!({"clientCertificateData": "C", "clientKeyData": "K"});
    let answer = json!({"kind": "ExecCredential", "status": status}).to_string();
    let certificate = given(answer.as_bytes()).unwrap().certificate.unwrap();
    assert_eq!((&*certificate.certificate, &*certificate.key), ("C", "K"));
    let yaml = "kind: ExecCredential\nstatus:\n  token: t\n";
    assert!(given(yaml.as_bytes()).unwrap().token.is_some());
}
