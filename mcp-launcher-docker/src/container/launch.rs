//! Turns a plan into a running container, in a task that its caller cannot abandon.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchContext, LaunchedServer};
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::drain::{self, Signals};
use super::remove::{Entry, Unfinished};
use super::watch::{Waits, watch};
use super::{Container, Known, remove_until_absent};
use crate::engine::{CreateError, Engine, EngineError, NEXT_EXIT, Pull, REMOVED, Result};
use crate::host::Host;
use crate::labels::Mark;
use crate::options::{Plan, PullPolicy};
use crate::supervised::{self, Delivery};

/// Longest wait of a failed launch for the proof of its clean-up, which then continues in its task.
const UNDO_LIMIT: Duration = Duration::from_secs(10);

/// Time in which a creation with a lost response may still take effect: of 100 with a dropped client,
/// 43 became visible only after an immediate check.
pub(crate) const LATE_CREATE: Duration = Duration::from_secs(120);

pub(crate) struct Job {
    pub(crate) engine: Arc<Engine>,
    pub(crate) host: Host,
    pub(crate) mark: Mark,
    pub(crate) plan: Plan,
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) unfinished: Unfinished,
    pub(crate) pull: PullPolicy,
    pub(crate) pull_limit: Duration,
    pub(crate) context: LaunchContext,
}

/// The resources of a container that was not started, held until it is proven gone.
type Undoing = (Host, Arc<Entry>);

type Launched = Result<LaunchedServer, Arc<EngineError>>;

/// Launches; cancelled at any point, undoes it.
pub(crate) async fn launch(mut job: Job, cancelled: CancellationToken) -> Launched {
    let cancellation = || Err(Arc::new(EngineError::Cancelled));
    let delivery = tokio::select! {
        biased;
        () = cancelled.cancelled() => return cancellation(),
        prepared = prepare_with_init(&mut job) => prepared?,
    };
    let mut undoing = begin(&job, &cancelled)?;
    let id = match create(&job, &undoing).await {
        // Checked only now: usually it exists, which saves a request.
        Err(error) if matches!(*error, EngineError::Absent(_)) => {
            drop(undoing);
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return cancellation(),
                fetched = fetch(&job) => fetched?,
            }
            undoing = begin(&job, &cancelled)?;
            create(&job, &undoing).await?
        }
        created => created?,
    };
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => cancellation(),
        started = start(&job, &id, delivery) => started.map_err(Arc::new),
    };
    if let Err(error) = &result {
        debug!(container = id, %error, "launch undone");
        undo(&job.engine, &id, undoing).await;
    }
    result
}

/// Prepares the creation. Fetches the image if it is always pulled or determines process 1.
async fn prepare_with_init(job: &mut Job) -> Result<Option<Delivery>, Arc<EngineError>> {
    let Some(supervision) = job.plan.supervision else {
        if job.pull == PullPolicy::Always {
            fetch(job).await?;
        }
        return Ok(None);
    };
    prepare(job).await?;
    let image = job.engine.image_facts(&job.plan.image).await?;
    // An engine on this machine sees its files.
    let is_local = job.engine.endpoint.local_socket().is_some();
    let local = is_local.then_some(&*job.host.ledger);
    let delivery = supervision.wrap(&mut job.plan.body, image, local)?;
    Ok(Some(delivery))
}

pub(crate) async fn prepare(job: &Job) -> Result<(), Arc<EngineError>> {
    let present = match job.pull {
        PullPolicy::Always => false,
        _ => job.engine.has_image(&job.plan.image).await?,
    };
    match present {
        true => Ok(()),
        false => fetch(job).await,
    }
}

async fn fetch(job: &Job) -> Result<(), Arc<EngineError>> {
    let image = &job.plan.image;
    if job.pull == PullPolicy::Never {
        return Err(Arc::new(EngineError::Image(format!(
            "image `{image}` is not present, and not to be pulled: the pull policy is `never`, or it is named by its ID; pull it first"
        ))));
    }
    let pull = Pull {
        image: image.clone(),
        platform: job.plan.platform.clone(),
        limit: job.pull_limit,
        context: job.context.clone(),
    };
    Ok(job.engine.pull(pull).await?)
}

/// Registers the creation in advance, so that callers can find it.
fn begin(job: &Job, cancelled: &CancellationToken) -> Result<Undoing, Arc<EngineError>> {
    let entry = job.unfinished.begin(&job.name, &job.server, cancelled);
    if cancelled.is_cancelled() {
        return Err(Arc::new(EngineError::Cancelled));
    }
    Ok((job.host.clone(), Arc::new(entry)))
}

/// Creates the container. Must not be interrupted: the daemon creates it in any case, and only its
/// response has the ID.
async fn create(job: &Job, undoing: &Undoing) -> Result<String, Arc<EngineError>> {
    let platform = job.plan.platform.as_deref();
    let created = job
        .engine
        .create(&job.name, platform, job.plan.body.clone());
    let CreateError { error, may_exist } = match created.await {
        Ok(id) => return Ok(id),
        Err(error) => error,
    };
    if may_exist {
        let (engine, label) = (Arc::clone(&job.engine), job.mark.filter());
        let kept = undoing.clone();
        drop(tokio::spawn(async move {
            remove_late(&engine, &label).await;
            drop(kept);
        }));
        return Err(Arc::new(EngineError::UnderWay {
            name: job.name.clone(),
            source: Box::new(error),
        }));
    }
    Err(Arc::new(error))
}

/// Removes a container that may be created late. By its label: another one may take its name.
async fn remove_late(engine: &Engine, label: &str) {
    let late = Instant::now() + LATE_CREATE;
    let (mut pause, longest) = (Duration::from_millis(100), Duration::from_secs(3));
    loop {
        let found = engine.list(&[label.to_owned()]).await;
        let is_known = found.is_ok();
        for container in found.into_iter().flatten() {
            remove_until_absent(engine, &container.id, |_| {}).await;
        }
        if is_known && Instant::now() >= late {
            return;
        }
        sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}

async fn start(job: &Job, id: &str, delivery: Option<Delivery>) -> Result<LaunchedServer> {
    let engine = &job.engine;
    if delivery == Some(Delivery::Archive) {
        engine.unpack(id, supervised::archive()).await?;
    }
    // Registered before the start, or a server that exits at once loses its exit code. Polled
    // throughout the attach, since the first poll does not send a request.
    let mut waits = Waits {
        exit: engine.wait(id, NEXT_EXIT).await?,
        removed: engine.wait(id, REMOVED).await?,
        out_of_memory: match job.plan.limits_memory() {
            true => Some(engine.out_of_memory(id).await?),
            false => None,
        },
    };
    // Attached before the start, or the first line is lost.
    let attached = tokio::select! {
        attached = engine.attach(id) => attached?,
        never = waits.register() => match never {},
    };
    let container = Arc::new(Container {
        id: id.to_owned(),
        name: job.name.clone(),
        engine: Arc::clone(engine),
        supervised: delivery.is_some(),
        known: channel::Sender::new(Known::default()),
        force: CancellationToken::new(),
        signals: Signals::default(),
        host: job.host.clone(),
    });
    let mut known = container.known.subscribe();
    let exited = async move {
        let _ = known.wait_for(|known| known.exit.is_some()).await;
    };
    let signals = container.signals.clone();
    let (stdin, [stdout, stderr], drain) = drain::split(attached, signals, exited);
    tokio::spawn(drain);
    engine.start(id).await?;
    tokio::spawn(watch(Arc::clone(&container), waits));
    Ok(LaunchedServer::new(stdin, stdout, Some(stderr), container))
}

/// Removes what was created. The error should include the proof; a daemon that is too slow for that
/// is handled by a task.
async fn undo(engine: &Arc<Engine>, id: &str, undoing: Undoing) {
    let (engine, container) = (Arc::clone(engine), id.to_owned());
    let removal = tokio::spawn(async move {
        remove_until_absent(&engine, &container, |_| {}).await;
        drop(undoing);
    });
    if timeout(UNDO_LIMIT, removal).await.is_err() {
        warn!(container = id, "a failed launch is still being undone");
    }
}
