//! Credentials that a program gives: `exec` in a kubeconfig.
//!
//! It is run here and not by the client library, whose errors quote its command line, its
//! environment and its answer, and which lets one that hangs live on beside the next.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::ExecConfig;
use mcp_lifecycle_host::helper;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tower::BoxError;
use tower::filter::AsyncPredicate;

/// How long the program may take. It is killed then.
const LIMIT: Duration = Duration::from_secs(10);

/// A token is asked for anew this long before it expires.
const BEFORE: SignedDuration = SignedDuration::from_secs(10);

/// A token that the API server does not accept is asked for anew, but not more often.
const AGAIN: Duration = Duration::from_secs(10);

/// So much of what the program complains of is told, in characters.
const COMPLAINT: usize = 300;

/// What is told in place of what may be secret.
const HIDDEN: &str = "(hidden)";

/// Words of so few characters are no secrets.
const SHORT: usize = 3;

/// The reason that a program gave no credentials. Neither its arguments nor its environment are
/// in it, nor what it has answered.
#[derive(Debug, Clone, Error)]
#[error("the program `{program}` gives no credentials: {problem}")]
pub(crate) struct NoCredentials {
    program: String,
    problem: String,
}

/// A program that is asked one time at once. A clone is the same.
#[derive(Clone)]
pub(super) struct Credentials(Arc<Shared>);

struct Shared {
    exec: ExecConfig,
    /// Held while the program runs.
    state: Mutex<State>,
    is_refused: AtomicBool,
}

#[derive(Default)]
struct State {
    given: Option<Given>,
    failed: Option<(Instant, NoCredentials)>,
}

/// What the program has given.
#[derive(Clone)]
struct Given {
    token: Option<HeaderValue>,
    certificate: Option<Certificate>,
    expires: Option<Timestamp>,
    at: Instant,
}

/// A client's certificate and its key, in PEM.
#[derive(Clone)]
pub(super) struct Certificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// `client.authentication.k8s.io`, as far as it is read.
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

    /// The client's certificate, if the program gives one. It is used as long as the connection
    /// lasts, whenever it expires.
    pub(super) async fn certificate(&self) -> Result<Option<Certificate>, NoCredentials> {
        Ok(self.given().await?.certificate)
    }

    /// Takes note of an answer: a token that is not accepted is asked for anew.
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
        // Who has waited for another's answer has it as well.
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

/// Runs the program. It ends with the future.
async fn run(exec: &ExecConfig) -> Result<Given, NoCredentials> {
    let program = exec.command.clone().unwrap_or_default();
    let failed = |problem: String| NoCredentials {
        program: program.clone(),
        problem,
    };
    let answer = timeout(LIMIT, helper::ask(command(&program, exec), b"")).await;
    let late = || {
        format!(
            "it did not answer within {} s and was killed",
            LIMIT.as_secs()
        )
    };
    let answer = answer.map_err(|_| failed(late()))?;
    let answer = answer.map_err(|error| {
        let hint = exec.install_hint.as_deref().unwrap_or_default();
        failed(
            format!("{error}. {hint}")
                .trim_end_matches([' ', '.'])
                .to_owned(),
        )
    })?;
    if !answer.status.success() {
        let complaint = hidden(&answer.complaint, secrets(exec, &answer.said));
        let complaint: String = complaint.trim().chars().take(COMPLAINT).collect();
        let words = if complaint.is_empty() { "" } else { ": " };
        let status = answer.status;
        return Err(failed(format!("it failed ({status}){words}{complaint}")));
    }
    given(&answer.said).map_err(|problem| failed(problem.to_owned()))
}

/// What a complaint may repeat and nobody else is to read: lines of the arguments and of the
/// variables that the program was given, and words of its answer. The longest come first.
fn secrets(exec: &ExecConfig, said: &[u8]) -> Vec<String> {
    // As it is written in JSON.
    let said = String::from_utf8_lossy(said).replace("\\n", "\n");
    let arguments = exec.args.iter().flatten();
    let values = arguments.flat_map(|argument| {
        let option = argument.split_once('=');
        [Some(&**argument), option.map(|(_, value)| value)]
    });
    let variables = exec.env.iter().flatten();
    let variables = variables.filter_map(|variable| Some(&**variable.get("value")?));
    let given = values.flatten().chain(variables).flat_map(str::lines);
    let is_between = |c: char| !c.is_alphanumeric() && !"-_.+/=~".contains(c);
    let mut secrets: Vec<&str> = given.map(str::trim).chain(said.split(is_between)).collect();
    secrets.retain(|secret| secret.chars().count() > SHORT);
    secrets.sort_unstable_by_key(|secret| (Reverse(secret.len()), *secret));
    secrets.dedup();
    secrets.into_iter().map(str::to_owned).collect()
}

/// A complaint without these words, also where the last of them was cut.
fn hidden(complaint: &[u8], secrets: Vec<String>) -> String {
    let complaint = String::from_utf8_lossy(complaint);
    let mut complaint = complaint
        .trim_end_matches(char::REPLACEMENT_CHARACTER)
        .to_owned();
    for secret in secrets {
        complaint = complaint.replace(&secret, HIDDEN);
        let longest = complaint.len().min(secret.len() - 1);
        let mut cuts = (SHORT + 1..=longest).rev();
        let is_end = |cut: &usize| {
            secret
                .get(..*cut)
                .is_some_and(|head| complaint.ends_with(head))
        };
        if let Some(cut) = cuts.find(is_end) {
            complaint.truncate(complaint.len() - cut);
            complaint.push_str(HIDDEN);
        }
    }
    complaint
}

fn command(program: &str, exec: &ExecConfig) -> Command {
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    // Its standard input is nobody's: that of a host may be its protocol.
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command
}

/// What is in an answer. Errors of what reads it would quote it.
fn given(said: &[u8]) -> Result<Given, &'static str> {
    // Some programs answer in YAML, of which JSON is a part.
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
