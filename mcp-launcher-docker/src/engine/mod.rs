//! The connection to one daemon. All of bollard that the crate uses is below.

mod connect;
mod container;
mod create;
mod credentials;
mod error;
mod image;
mod last_order;
mod quiet;
mod transport;
mod who;

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

pub(crate) use container::{Attached, Condition, Found, OomStream, State, WaitStream};
pub(crate) use create::CreateError;
pub(crate) use error::{EngineError, Meaning, is_between};
pub(crate) use image::{ImageFacts, Progress, Pull, PullEvent, Pulls};

use crate::endpoint::Endpoint;
use quiet::quietly;

/// The longest time a daemon may take to say its version.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// The longest time a daemon may take to begin to answer anything else. A container
/// that is stuck in the daemon must not hold us for bollard's two minutes.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The longest time a create or a start may take: the daemon mounts and runs.
const SLOW_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// The first pause before a question is asked again, and the longest.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(800)];

/// One daemon. Used on the control thread only: bollard's connections belong
/// to the runtime that opened them.
#[derive(Debug)]
pub(crate) struct Engine {
    endpoint: Endpoint,
    greeted: OnceCell<who::Greeted>,
    pub(crate) pulls: Pulls,
}

/// Bounds a request and the whole of its answer: bollard bounds only how long the
/// answer takes to begin.
async fn whole<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = |_| Err(Error::RequestTimeoutError);
    timeout(limit, request).await.unwrap_or_else(late)
}

impl Engine {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            greeted: OnceCell::new(),
            pulls: Pulls::default(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client, with the version of the API negotiated: without that,
    /// bollard speaks whatever version it was generated from.
    async fn docker(&self, limit: Duration) -> Result<Docker, EngineError> {
        let greeted = self.greeted().await?;
        Ok(greeted.docker.clone().with_timeout(limit))
    }

    /// The daemon, as it said with the first connection.
    async fn greeted(&self) -> Result<&who::Greeted, EngineError> {
        self.greeted.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<who::Greeted, EngineError> {
        let docker = connect::open(&self.endpoint)?;
        let greeting = || docker.clone().negotiate_version();
        let docker = self.ask(HELLO_LIMIT, greeting).await?;
        self.greet(docker).await
    }

    /// Asks a question, its answer whole and in no log; and for a moment again where
    /// something in between has answered in the engine's place. All within the limit.
    async fn ask<T, A>(&self, limit: Duration, question: impl Fn() -> A) -> Result<T, EngineError>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let [mut pause, longest] = AGAIN;
        let asked = async {
            loop {
                match quietly(question()).await {
                    Err(Error::DockerResponseServerError { status_code, .. })
                        if is_between(status_code) && pause <= longest => {}
                    answer => return answer,
                }
                sleep(pause).await;
                pause *= 2;
            }
        };
        whole(limit, asked).await.map_err(|error| self.error(error))
    }

    fn error(&self, error: Error) -> EngineError {
        EngineError::new(&self.endpoint, error)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::fake::{FakeEngine, within};

    /// A connection that dies without an end: half an answer, and then nothing.
    #[test]
    fn half_an_answer_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let length = client.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..length]);
                let whole = request.contains("/version ") || request.contains("/info ");
                let body = if whole {
                    r#"{"ApiVersion":"1.41"}"#
                } else {
                    "{"
                };
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n";
                client
                    .write_all(format!("{head}{body}").as_bytes())
                    .unwrap();
                // Open for as long as the process lives.
                std::mem::forget(client);
            }
        });
        let engine = Engine::new(Endpoint::Unix(path));
        let state = within("it is bounded", engine.state("x"));
        assert!(
            matches!(state, Err(EngineError::Silent { .. })),
            "{state:?}"
        );
    }

    #[test]
    fn a_box_that_takes_its_time_to_answer_does_not_lengthen_the_limit() {
        let slow = FakeEngine::start(|_| {
            std::thread::sleep(ANSWER_LIMIT * 7 / 10);
            Some((504, "{}".to_owned()))
        });
        let engine = Engine::new(slow.endpoint());
        let begun = std::time::Instant::now();
        within("it fails", engine.state("x")).unwrap_err();
        assert!(
            begun.elapsed() < ANSWER_LIMIT * 3 / 2,
            "{:?}",
            begun.elapsed()
        );
    }
}
