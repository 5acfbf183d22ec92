//! The connection to one daemon. All use of bollard is below.

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

pub(crate) use container::{Found, NEXT_EXIT, NOT_RUNNING, OomStream, REMOVED, State, WaitStream};
pub(crate) use create::CreateError;
pub(crate) use error::{EngineError, Meaning, Result, is_between};
pub(crate) use image::{ImageFacts, Pull};

use crate::endpoint::Endpoint;
use quiet::quietly;

/// Time limit for a response to begin; bollard's is two minutes. Podman's service took over 10 s on
/// two processors at a load of 40.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Time limit of a creation or a start, in which the daemon mounts and runs.
const SLOW_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// One daemon. Used on the control thread only, since bollard's connections belong to the runtime
/// that opened them.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) endpoint: Endpoint,
    greeted: OnceCell<who::Greeted>,
}

/// Bounds a request including its whole response; bollard only bounds its beginning.
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
        }
    }

    /// Returns the client, with a negotiated API version.
    async fn docker(&self, limit: Duration) -> Result<Docker> {
        let greeted = self.greeted().await?;
        Ok(greeted.docker.clone().with_timeout(limit))
    }

    async fn greeted(&self) -> Result<&who::Greeted> {
        self.greeted.get_or_try_init(|| self.connect()).await
    }

    /// Fails if the daemon does not say within the limit what it is.
    pub(crate) async fn hello(&self, limit: Duration) -> Result<()> {
        let greeted = timeout(limit, self.greeted()).await;
        let late = |_| Err(self.error(Error::RequestTimeoutError));
        greeted.unwrap_or_else(late).map(drop)
    }

    async fn connect(&self) -> Result<who::Greeted> {
        let docker = transport::open(&self.endpoint).map_err(|error| self.error(error))?;
        let greeting = || docker.clone().negotiate_version();
        let docker = self.ask(ANSWER_LIMIT, greeting).await?;
        self.greet(docker).await
    }

    /// Sends a request, reads its whole response, and keeps it out of logs. Retries briefly if a
    /// gateway responds instead of the engine. All within the limit.
    async fn ask<T, A>(&self, limit: Duration, question: impl Fn() -> A) -> Result<T>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let (mut pause, longest) = (Duration::from_millis(100), Duration::from_millis(800));
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
    use std::sync::{Mutex, mpsc};

    use tokio::sync::mpsc as events;
    use tokio::time::{advance, pause, resume};

    use super::*;
    use crate::fake::{FakeEngine, within};

    /// A connection that dies without an end: half an answer, and then nothing.
    #[test]
    fn half_an_answer_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let (silent, mut silence) = events::unbounded_channel();
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
                if !whole {
                    silent.send(()).unwrap();
                }
                // Open for as long as the process lives.
                std::mem::forget(client);
            }
        });
        let engine = Engine::new(Endpoint::Unix(path));
        let passes = async {
            silence.recv().await;
            pause();
            advance(ANSWER_LIMIT).await;
        };
        let both = async { tokio::join!(engine.state("x"), passes) };
        let (state, ()) = within("it is bounded", both);
        assert!(
            matches!(state, Err(EngineError::Silent { .. })),
            "{state:?}"
        );
    }

    #[test]
    fn a_box_that_takes_its_time_to_answer_does_not_lengthen_the_limit() {
        let (asked, mut questions) = events::unbounded_channel();
        let (answer, answers) = mpsc::channel::<()>();
        let answers = Mutex::new(answers);
        let slow = FakeEngine::start(move |_| {
            asked.send(()).unwrap();
            // Until the test gives the word, or has ended.
            let _ = answers.lock().unwrap().recv();
            Some((504, "{}".to_owned()))
        });
        let engine = Engine::new(slow.endpoint());
        let mut count = 0;
        let passes = async {
            while questions.recv().await.is_some() {
                count += 1;
                pause();
                advance(ANSWER_LIMIT * 7 / 10).await;
                resume();
                answer.send(()).unwrap();
            }
        };
        let failed = async {
            tokio::select! {
                state = engine.state("x") => state,
                () = passes => unreachable!("the engine outlives its clients"),
            }
        };
        within("it fails", failed).unwrap_err();
        // The third one would begin after the limit.
        assert!(count <= 2, "asked {count} times");
    }
}
