//! Requests about one container, and lists of containers by label.

use std::collections::HashMap;
use std::pin::Pin;

use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, EventsOptionsBuilder, InspectContainerOptions,
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, UploadToContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use futures_util::stream::{FusedStream, pending, repeat};
use mcp_lifecycle_core::launch::ExitStatus;

use super::{ANSWER_LIMIT, Engine, EngineError, Meaning, Result, SLOW_ANSWER_LIMIT, whole};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Created,
    Running,
    Ended(ExitStatus),
}

/// The next exit of the main process; requested before the start.
pub(crate) const NEXT_EXIT: &str = "next-exit";
pub(crate) const NOT_RUNNING: &str = "not-running";
pub(crate) const REMOVED: &str = "removed";

#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) labels: HashMap<String, String>,
    pub(crate) runs: bool,
    pub(crate) image: String,
}

/// The response to a wait: the exit code, once; then `Err(Meaning::Unknown)`.
pub(crate) type WaitStream = Pin<Box<dyn FusedStream<Item = Result<i64, Meaning>> + Send>>;

/// Kills for lack of memory. Without an end, also if the connection ends.
pub(crate) type OomStream = Pin<Box<dyn FusedStream<Item = ()> + Send>>;

impl Engine {
    /// Watches for out-of-memory kills. The first poll sends the request.
    pub(crate) async fn out_of_memory(&self, id: &str) -> Result<OomStream> {
        let filter = |key: &str, value: &str| (key.to_owned(), vec![value.to_owned()]);
        let filters = [("type", "container"), ("container", id), ("event", "oom")];
        let filters = filters.map(|(key, value)| filter(key, value));
        let options = EventsOptionsBuilder::default()
            .filters(&HashMap::from(filters))
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let events = docker.events(Some(options));
        let events = events.filter_map(async |event| event.ok().map(drop));
        Ok(Box::pin(events.chain(pending()).fuse()))
    }

    pub(crate) async fn unpack(&self, id: &str, archive: Vec<u8>) -> Result<()> {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let docker = self.docker(SLOW_ANSWER_LIMIT).await?;
        let body = bollard::body_full(archive.into());
        let unpacked = docker.upload_to_container(id, Some(options), body);
        let unpacked = whole(SLOW_ANSWER_LIMIT, unpacked).await;
        unpacked.map_err(|error| self.error(error))
    }

    pub(crate) async fn attach(&self, id: &str) -> Result<AttachContainerResults> {
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let attached = docker.attach_container(id, Some(options)).await;
        attached.map_err(|error| self.error(error))
    }

    pub(crate) async fn start(&self, id: &str) -> Result<()> {
        let docker = self.docker(SLOW_ANSWER_LIMIT).await?;
        let started = docker.start_container(id, None::<StartContainerOptions>);
        let started = whole(SLOW_ANSWER_LIMIT, started).await;
        started.map_err(|error| self.error(error))
    }

    pub(crate) async fn wait(&self, id: &str, until: &str) -> Result<WaitStream> {
        let options = WaitContainerOptionsBuilder::default()
            .condition(until)
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let answers = docker.wait_container(id, Some(options));
        // bollard turns every code but 0 into an error.
        let codes = answers.map(|answer| match answer {
            Ok(response) => Ok(response.status_code),
            Err(Error::DockerContainerWaitError { code, .. }) => Ok(code),
            Err(error) => Err(Meaning::of(&error)),
        });
        Ok(Box::pin(codes.chain(repeat(Err(Meaning::Unknown))).fuse()))
    }

    /// Sends a signal. Succeeds if the container does not run or exist.
    pub(crate) async fn kill(&self, id: &str, signal: &str) -> Result<()> {
        let options = KillContainerOptionsBuilder::default()
            .signal(signal)
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let killed = docker.kill_container(id, Some(options));
        self.unless_gone(whole(ANSWER_LIMIT, killed).await)
    }

    pub(crate) async fn ask_to_end(&self, id: &str) -> Result<()> {
        self.ask_if(id, |_| true).await.map(drop)
    }

    /// Sends the [stop signal](Self::ask_to_end) to a container without a client. Returns whether it did.
    pub(crate) async fn ask_if_detached(&self, id: &str) -> Result<bool> {
        let is_detached = |container: &ContainerInspectResponse| {
            let runs = container.state.as_ref().and_then(|state| state.running);
            let attached = container.config.as_ref().is_some_and(|config| {
                let streams = [
                    config.attach_stdin,
                    config.attach_stdout,
                    config.attach_stderr,
                ];
                streams.contains(&Some(true))
            });
            runs == Some(true) && !attached
        };
        self.ask_if(id, is_detached).await
    }

    async fn ask_if(
        &self,
        id: &str,
        is_meant: impl FnOnce(&ContainerInspectResponse) -> bool,
    ) -> Result<bool> {
        let container = match self.inspect(id).await {
            Ok(container) if is_meant(&container) => container,
            Ok(_) | Err(EngineError::Absent(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let signal = container.config.and_then(|config| config.stop_signal);
        let signal = signal.filter(|signal| !signal.is_empty());
        self.kill(id, signal.as_deref().unwrap_or("SIGTERM"))
            .await?;
        Ok(true)
    }

    /// Removes the container, even if it runs, with its anonymous volumes. `Ok` is no proof.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let removed = docker.remove_container(id, Some(options));
        self.unless_gone(whole(ANSWER_LIMIT, removed).await)
    }

    pub(crate) async fn state(&self, id: &str) -> Result<State> {
        let socket = self.socket_file();
        let mut is_certain = socket.is_some();
        loop {
            match self.inspect(id).await {
                Err(EngineError::Absent(_)) => self.is_same(socket).await?,
                answer => return answer.map(state_of),
            }
            if is_certain {
                return Ok(State::Absent);
            }
            is_certain = true;
        }
    }

    /// Lists all containers, running or not, that have all of these labels (`key` or `key=value`).
    pub(crate) async fn list(&self, labels: &[String]) -> Result<Vec<Found>> {
        let filters = HashMap::from([("label".to_owned(), labels.to_vec())]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let docker = self.docker(ANSWER_LIMIT).await?;
        let list = || docker.list_containers(Some(options.clone()));
        let socket = self.socket_file();
        if socket.is_none() {
            self.is_same(socket).await?;
        }
        let list = self.ask(ANSWER_LIMIT, list).await?;
        // Absence from another engine's list proves nothing.
        self.is_same(socket).await?;
        Ok(list.into_iter().filter_map(found).collect())
    }

    async fn inspect(&self, id: &str) -> Result<ContainerInspectResponse> {
        let docker = self.docker(ANSWER_LIMIT).await?;
        let question = || docker.inspect_container(id, None::<InspectContainerOptions>);
        self.ask(ANSWER_LIMIT, question).await
    }

    fn unless_gone(&self, answer: Result<(), Error>) -> Result<()> {
        match answer {
            Err(error) => match Meaning::of(&error) {
                Meaning::Absent | Meaning::AsAsked => Ok(()),
                Meaning::Refused | Meaning::Unknown => Err(self.error(error)),
            },
            Ok(()) => Ok(()),
        }
    }
}

fn state_of(answer: ContainerInspectResponse) -> State {
    use bollard::models::ContainerStateStatusEnum as Status;
    let state = answer.state.unwrap_or_default();
    match state.status {
        Some(Status::CREATED) => State::Created,
        Some(Status::EXITED | Status::DEAD | Status::REMOVING) => {
            let code = state.exit_code.unwrap_or(i64::MAX);
            State::Ended(match state.oom_killed {
                Some(true) if code == 137 => ExitStatus::OutOfMemory,
                _ => ExitStatus::from_shell_code(code),
            })
        }
        _ => State::Running,
    }
}

fn found(summary: ContainerSummary) -> Option<Found> {
    let names = summary.names.unwrap_or_default();
    let name = names.first().map(|name| name.trim_start_matches('/'));
    Some(Found {
        id: summary.id?,
        name: name.unwrap_or_default().to_owned(),
        labels: summary.labels.unwrap_or_default(),
        runs: matches!(
            summary.state,
            Some(ContainerSummaryStateEnum::RUNNING | ContainerSummaryStateEnum::PAUSED)
        ),
        image: summary.image_id.unwrap_or_default(),
    })
}
