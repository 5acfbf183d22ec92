//! Credentials from a program: `exec` in a kubeconfig. Not run by the client library: its errors quote
//! the command line, the environment and the answer, and it leaves a program that hangs running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::ExecConfig;
use mcp_lifecycle_core::backend::program;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tower::BoxError;
use tower::filter::AsyncPredicate;

use crate::error::NoCredentials;

const LIMIT: Duration = Duration::from_secs(10);

/// A token is renewed this long before it expires.
const BEFORE: SignedDuration = SignedDuration::from_secs(10);

/// Least interval between two renewals of a token that the API server rejects.
const AGAIN: Duration = Duration::from_secs(10);

/// The program and its last answer. Runs once at a time; clones share it.
#[derive(Clone)]
pub(super) struct Credentials(Arc<Shared>);

struct Shared {
    exec: ExecConfig,
    state: Mutex<State>,
    is_refused: AtomicBool,
}

#[derive(Default)]
struct State {
    given: Option<Given>,
    failed: Option<(Instant, NoCredentials)>,
}

#[derive(Clone)]
struct Given {
    token: Option<HeaderValue>,
    certificate: Option<Certificate>,
    expires: Option<Timestamp>,
    at: Instant,
}

#[derive(Clone)]
pub(super) struct Certificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Credentials {
    pub(super) fn new(exec: ExecConfig) -> Self {
        Self(Arc::new(Shared {
            exec,
            state: Mutex::default(),
            is_refused: AtomicBool::new(false),
        }))
    }

    pub(super) async fn certificate(&self) -> Result<Option<Certificate>, NoCredentials> {
        Ok(self.given().await?.certificate)
    }

    /// Notes the status of a response: after a 401 the token is renewed.
    pub(super) fn answered(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.0.is_refused.store(true, Ordering::Relaxed);
        }
    }

    async fn given(&self) -> Result<Given, NoCredentials> {
        let asked = Instant::now();
        let mut state = self.0.state.lock().await;
        if let Some(given) = state.given.as_ref().filter(|given| self.holds(given)) {
            return Ok(given.clone());
        }
        // A failure of a run that this caller waited for is its failure, too.
        if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        match run(&self.0.exec).await {
            Ok(given) => {
                self.0.is_refused.store(false, Ordering::Relaxed);
                state.given = Some(given.clone());
                Ok(given)
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn holds(&self, given: &Given) -> bool {
        let is_valid = |at| Timestamp::now() + BEFORE < at;
        let is_refused = self.0.is_refused.load(Ordering::Relaxed);
        given.expires.is_none_or(is_valid) && !(is_refused && given.at.elapsed() >= AGAIN)
    }
}

impl<B: Send + 'static> AsyncPredicate<Request<B>> for Credentials {
    type Future = BoxFuture<'static, Result<Request<B>, BoxError>>;
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Self::Future {
        let credentials = self.clone();
        Box::pin(async move {
            if let Some(token) = credentials.given().await?.token {
                request.headers_mut().insert(AUTHORIZATION, token);
            }
            Ok(request)
        })
    }
}

async fn run(exec: &ExecConfig) -> Result<Given, NoCredentials> {
    let program = exec.command.clone().unwrap_or_default();
    let failed = |problem: String| NoCredentials {
        program: program.clone(),
        problem,
    };
    let answer = timeout(LIMIT, program::ask(command(&program, exec), b"")).await;
    let late = || {
        format!(
            "it did not answer within {} s and was killed",
            LIMIT.as_secs()
        )
    };
    let answer = answer.map_err(|_| failed(late()))?;
    let (status, said) = answer.map_err(|error| {
        let hint = exec.install_hint.as_deref().unwrap_or_default();
        failed(
            format!("{error}. {hint}")
                .trim_end_matches([' ', '.'])
                .to_owned(),
        )
    })?;
    if !status.success() {
        // What it wrote to stderr may hold a secret.
        let words =
            format!("it failed ({status}); `kubectl get pods` runs it as well and shows why");
        return Err(failed(words));
    }
    given(&said).map_err(|problem| failed(problem.to_owned()))
}

fn command(program: &str, exec: &ExecConfig) -> Command {
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    // The host's stdin may be its protocol, so the program gets none.
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command
}

/// Parses an answer. The parser's errors are dropped, since they quote it.
fn given(said: &[u8]) -> Result<Given, &'static str> {
    // Some programs answer in YAML, a superset of JSON.
    let answer = serde_saphyr::from_slice::<ExecCredential>(said);
    let Status {
        expiration_timestamp,
        token,
        client_certificate_data,
        client_key_data,
    } = answer
        .map_err(|_| "what it answered is no ExecCredential with a status")?
        .status;
    let expires = expiration_timestamp.map(|at| at.parse());
    let expires = expires.transpose();
    let token = token.map(|token| {
        let mut token = HeaderValue::try_from(format!("Bearer {token}"))?;
        token.set_sensitive(true);
        Ok::<_, http::Error>(token)
    });
    let token = token.transpose();
    let given = Given {
        token: token.map_err(|_| "its token has characters that no token has")?,
        certificate: client_certificate_data
            .zip(client_key_data)
            .map(|(certificate, key)| Certificate { certificate, key }),
        expires: expires.map_err(|_| "it does not say when they expire in a form that is known")?,
        at: Instant::now(),
    };
    match given.token.is_none() && given.certificate.is_none() {
        true => Err("there is neither a token nor a certificate in its answer"),
        false => Ok(given),
    }
}

#[cfg(test)]
mod tests;
