//! From a plan to a running container, in a task that nobody can abandon.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchedServer;
use tokio::sync::{oneshot, watch as channel};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::drain::{self, Signals, Streams};
use super::unfinished::{Entry, Unfinished};
use super::watch::{Waits, watch};
use super::{Container, DockerTerminator, Known, remove_until_absent};
use crate::control;
use crate::engine::{Condition, CreateError, Engine, EngineError, Progress, Pull};
use crate::last_will::{Included, LastWill};
use crate::lease::Lease;
use crate::options::{Plan, PullPolicy};
use crate::supervised::{self, Delivery};

/// How long a failed launch waits for the proof that nothing is left, before
/// it reports the failure and leaves the rest to its task.
const UNDO_LIMIT: Duration = Duration::from_secs(10);

/// How long a create whose answer was lost may still come true: an engine may be
/// stopped, or wait for a disk. 43 of 100 creates whose client had gone were visible
/// only after an immediate look.
pub(crate) const LATE_CREATE: Duration = Duration::from_secs(120);

/// The first pause between two looks for it, and the longest.
const LATE_PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];

/// All that one launch needs.
pub(crate) struct Job {
    pub(crate) engine: Arc<Engine>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) plan: Plan,
    /// True where the engine sees the files of this machine.
    pub(crate) is_local: bool,
    pub(crate) name: String,
    /// The server's name.
    pub(crate) server: String,
    /// The callers that ask what is left of launches that failed.
    pub(crate) unfinished: Unfinished,
    pub(crate) pull: PullPolicy,
    pub(crate) pull_limit: Duration,
    pub(crate) credentials: bool,
    pub(crate) progress: Progress,
    /// The last will, which removes the container when this host dies, where there is one.
    pub(crate) will: Option<Arc<LastWill>>,
}

/// Cancels a launch when its caller goes away.
pub(crate) struct Cancel {
    _guard: DropGuard,
}

/// The place of a container in the last will, kept until it is proven gone.
type Kept = Option<Arc<Included>>;

/// Both of what is kept until a container that was not started is proven gone.
type Undoing = (Kept, Arc<Entry>);

type Launched = Result<LaunchedServer, Arc<EngineError>>;

/// Starts the launch on the control thread. When the receiver is dropped, or
/// the guard is, it is undone, at whatever point it is.
pub(crate) fn launch(job: Job) -> std::io::Result<(Cancel, oneshot::Receiver<Launched>)> {
    let cancelled = CancellationToken::new();
    let guard = cancelled.clone().drop_guard();
    let (sender, receiver) = oneshot::channel();
    control::spawn(async move {
        let outcome = run(job, &cancelled).await;
        // A server that nobody takes any more is killed by its own drop.
        drop(sender.send(outcome));
    })?;
    Ok((Cancel { _guard: guard }, receiver))
}

async fn run(mut job: Job, cancelled: &CancellationToken) -> Launched {
    let cancellation = || Err(Arc::new(EngineError::Cancelled));
    let delivery = tokio::select! {
        biased;
        () = cancelled.cancelled() => return cancellation(),
        prepared = prepare_with_init(&mut job) => prepared?,
    };
    let mut undoing = begin(&job, cancelled)?;
    let id = match create(&job, &undoing).await {
        // Asked for only now: mostly it is there, and a question less.
        Err(error) if matches!(*error, EngineError::Absent(_)) => {
            drop(undoing);
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return cancellation(),
                fetched = fetch(&job) => fetched?,
            }
            undoing = begin(&job, cancelled)?;
            create(&job, &undoing).await?
        }
        created => created?,
    };
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => cancellation(),
        started = start(&job, &id, delivery, &undoing.0) => started.map_err(Arc::new),
    };
    if let Err(error) = &result {
        debug!(container = id, %error, "launch undone");
        undo(&job.engine, &id, undoing).await;
    }
    result
}

/// Prepares the create: the image, where it is pulled in any
/// case or says what becomes process 1.
async fn prepare_with_init(job: &mut Job) -> Result<Option<Delivery>, Arc<EngineError>> {
    let Some(supervision) = job.plan.supervision else {
        if job.pull == PullPolicy::Always {
            fetch(job).await?;
        }
        return Ok(None);
    };
    prepare(job).await?;
    let image = job.engine.image_facts(job.plan.runs()).await?;
    let local = job.is_local.then_some(&*job.lease);
    let delivery = supervision.wrap(&mut job.plan.body, image, local)?;
    Ok(Some(delivery))
}

/// The image is there, as far as the policy says that it must be.
pub(crate) async fn prepare(job: &Job) -> Result<(), Arc<EngineError>> {
    let present = match job.pull {
        PullPolicy::Always => false,
        PullPolicy::Missing | PullPolicy::Never => job.engine.has_image(job.plan.runs()).await?,
    };
    match present {
        true => Ok(()),
        false => fetch(job).await,
    }
}

/// Gets an image that is not there.
async fn fetch(job: &Job) -> Result<(), Arc<EngineError>> {
    let image = &job.plan.image;
    if job.pull == PullPolicy::Never {
        let image = job.plan.runs().to_owned();
        return Err(Arc::new(EngineError::ImageMissing { image }));
    }
    let pull = Pull {
        image: image.clone(),
        platform: job.plan.platform.clone(),
        limit: job.pull_limit,
        credentials: job.credentials,
        progress: Arc::clone(&job.progress),
    };
    job.engine.pull(pull).await?;
    let Some(expected) = &job.plan.image_id else {
        return Ok(());
    };
    if job.engine.has_image(expected).await? {
        return Ok(());
    }
    Err(Arc::new(EngineError::OtherImage {
        image: image.clone(),
        found: job.engine.image_facts(image).await?.id,
        expected: expected.clone(),
    }))
}

/// Says what is about to be created: a host that ends before it knows the answer leaves
/// somebody who removes what came of it, and a caller who has gone can ask for it.
fn begin(job: &Job, cancelled: &CancellationToken) -> Result<Undoing, Arc<EngineError>> {
    let entry = job.unfinished.begin(&job.name, &job.server, cancelled);
    // Or who has gone has asked before.
    if cancelled.is_cancelled() {
        return Err(Arc::new(EngineError::Cancelled));
    }
    let included = job.will.as_ref().and_then(|will| will.include(&job.name));
    Ok((included.map(Arc::new), Arc::new(entry)))
}

/// From here to the answer nothing may interrupt: the daemon creates the container in
/// any case, and only its answer has the id.
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
        let (engine, name) = (Arc::clone(&job.engine), job.name.clone());
        let kept = (Arc::clone(&job.lease), undoing.clone());
        drop(tokio::spawn(async move {
            remove_late(&engine, &name).await;
            drop(kept);
        }));
        return Err(Arc::new(EngineError::UnderWay {
            name: job.name.clone(),
            source: Box::new(error),
        }));
    }
    Err(Arc::new(error))
}

/// Removes what may have been created, now or in a moment.
async fn remove_late(engine: &Engine, name: &str) {
    let late = Instant::now() + LATE_CREATE;
    let [mut pause, longest] = LATE_PAUSE;
    loop {
        remove_until_absent(engine, name, |_| {}).await;
        if Instant::now() >= late {
            return;
        }
        sleep(pause).await;
        pause = longest.min(pause * 2);
    }
}

async fn start(
    job: &Job,
    id: &str,
    delivery: Option<Delivery>,
    included: &Kept,
) -> Result<LaunchedServer, EngineError> {
    let engine = &job.engine;
    if delivery == Some(Delivery::Archive) {
        engine.unpack(id, supervised::archive()).await?;
    }
    // Registered before the start, or a server that exits at once takes its
    // exit code with it: polled for as long as attach takes, for a request is
    // not sent by the first poll.
    let mut waits = Waits {
        exit: engine.wait(id, Condition::NextExit).await?,
        removed: engine.wait(id, Condition::Removed).await?,
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
    // A supervised one has graces of its own.
    let included = included.clone().filter(|_| delivery.is_none());
    let container = Arc::new(Container {
        id: id.to_owned(),
        name: job.name.clone(),
        engine: Arc::clone(engine),
        supervised: delivery.is_some(),
        known: channel::Sender::new(Known::default()),
        force: CancellationToken::new(),
        discard: CancellationToken::new(),
        detach: CancellationToken::new(),
        over: CancellationToken::new(),
        included: Mutex::new(included),
        _lease: Arc::clone(&job.lease),
    });
    let signals = Signals {
        discard: container.discard.clone(),
        detach: container.detach.clone(),
        over: container.over.clone(),
    };
    let mut known = container.known();
    let exited = async move {
        // Or nobody is left to learn it.
        let _ = known.wait_for(|known| known.exit.is_some()).await;
    };
    let (streams, drain) = drain::split(attached, signals, exited);
    tokio::spawn(drain);
    engine.start(id).await?;
    tokio::spawn(watch(Arc::clone(&container), waits));
    let Streams {
        stdin,
        stdout,
        stderr,
    } = streams;
    let terminator = Arc::new(DockerTerminator::new(container));
    Ok(LaunchedServer::new(
        stdin,
        stdout,
        Some(Box::new(stderr)),
        terminator,
    ))
}

/// Removes what was created. The proof belongs to the failure; a daemon that
/// cannot give it in time is asked by a task of its own.
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
