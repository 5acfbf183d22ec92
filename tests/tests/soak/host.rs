//! The host: a process on the public API, which launches, suffers, lets go of
//! its servers as its plan says, and tells the supervisor what it was told.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use futures_util::future::join_all;
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::{
    LifecycleClient, ServerConfig, ServerEvent, ServerObserver, StartError, StartErrorKind,
};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tokio::runtime::Runtime;

use crate::case::STEP;
use crate::plan::{End, Plan, Trouble};
use crate::role::{HOLDER, OBSERVERS, ask, runtime, say};
use crate::servers::Server;

/// Graces that are short, because many are ignored. The proof has time that no load takes,
/// unless a stopped guardian keeps it back.
pub(crate) fn policy(plan: &Plan) -> TerminationPolicy {
    let proof = match plan.stops_guardians() {
        true => Duration::from_secs(4),
        false => STEP / 2,
    };
    TerminationPolicy::new()
        .eof_grace(Duration::from_millis(100))
        .term_grace(Duration::from_millis(100))
        .kill_confirmation(proof)
}

/// How long a start may take. Long: a machine under load is no failure.
pub(crate) const STARTUP: Duration = Duration::from_secs(8);

/// The same for a server that may never be ready.
const STARTUP_OF_DOUBTFUL: Duration = Duration::from_secs(1);

/// Plays the host of `plan` and never returns.
pub(crate) fn play(plan: &Plan) -> ! {
    if plan.trouble == Trouble::ReapsEverybody {
        thread::spawn(|| {
            loop {
                if waitpid(None::<Pid>, None).is_err() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
    let mut host = Host::new(plan);
    if plan.warm {
        host.warm_up();
        say(&format!(
            "level {}",
            host.launcher.semantics().containment.mechanism
        ));
        ask("warm");
    }
    let clients = match plan.end {
        End::ShutdownBackground(micros) | End::ShutdownTimeout(micros) => {
            host.lose_runtime(micros);
            Vec::new()
        }
        _ => host.launch(),
    };
    host.recheck();
    ask("up");
    say("ending");
    host.end(clients);
    host.rest()
}

struct Host<'a> {
    plan: &'a Plan,
    launcher: Arc<dyn ServerLauncher>,
    runtime: Runtime,
    observers: Vec<String>,
}

type Clients = Vec<(usize, LifecycleClient)>;

impl<'a> Host<'a> {
    fn new(plan: &'a Plan) -> Self {
        let observers = env::var(OBSERVERS).unwrap_or_default();
        Self {
            plan,
            launcher: Arc::new(LocalLauncher::builder().isolation(plan.isolation).build()),
            runtime: runtime(plan.threads),
            observers: observers.split(',').map(str::to_owned).collect(),
        }
    }

    fn warm_up(&self) {
        let spec = ServerSpec::builder("warm-up", "true")
            .build()
            .expect("a spec");
        if let Ok(server) = self
            .runtime
            .block_on(self.launcher.launch(&spec, &LaunchContext::new()))
        {
            let terminator = Arc::clone(server.terminator());
            drop(server);
            let gone = async { tokio::time::timeout(STARTUP, terminator.gone()).await };
            let _ = self.runtime.block_on(gone);
        }
    }

    fn start(
        &self,
        server: &Server,
        index: usize,
        observer: Panics,
    ) -> impl Future<Output = Started> + use<> {
        let holder = env::var(HOLDER).unwrap_or_default();
        let args = server.args.iter().map(|arg| arg.replace("HOLDER", &holder));
        let spec = ServerSpec::builder(format!("server-{index}"), crate::FIXTURE)
            .args(args)
            .args(["--alive", &self.observers[index]])
            .build()
            .expect("a spec");
        let builder = LifecycleClient::builder(
            ServerConfig::new(Arc::clone(&self.launcher), spec)
                .startup_timeout(match server.must_start() {
                    true => STARTUP,
                    false => STARTUP_OF_DOUBTFUL,
                })
                .probe_timeout(Duration::from_millis(300))
                .termination(policy(self.plan)),
        )
        .observer(Arc::new(observer));
        async move { (index, builder.start().await) }
    }

    fn observer(&self) -> Panics {
        match self.plan.trouble {
            Trouble::ObserverPanics(event) => Panics(AtomicU64::new(event)),
            _ => Panics::never(),
        }
    }

    fn launch(&self) -> Clients {
        let limits = self.plan.trouble.limits();
        let starts = self.plan.servers.iter().zip(0..);
        let starts: Vec<_> = starts
            .map(|(server, index)| self.start(server, index, self.observer()))
            .collect();
        say("launching");
        for (resource, limit) in &limits {
            lower(*resource, *limit);
        }
        let limit = match self.plan.end {
            End::DropLaunches(micros) => Duration::from_micros(micros),
            _ => STARTUP * 8,
        };
        // Tasks, so that a panic is the end of one of them.
        let started = self.runtime.block_on(async {
            let tasks = starts.into_iter().map(|start| {
                let start = async move { tokio::time::timeout(limit, start).await };
                tokio::spawn(async move {
                    let started = start.await;
                    if let Ok(started) = &started {
                        tell(started);
                    }
                    started
                })
            });
            join_all(tasks).await
        });
        for (resource, _) in &limits {
            restore(*resource);
        }
        let started = started.into_iter().flatten().flatten();
        started
            .filter_map(|(index, started)| Some((index, started.ok()?)))
            .collect()
    }

    /// Launches on a runtime that goes away in the middle of it.
    fn lose_runtime(&self, micros: u64) {
        let doomed = runtime(self.plan.threads);
        let starts = self.plan.servers.iter().zip(0..);
        let starts = starts.map(|(server, index)| self.start(server, index, self.observer()));
        let starts: Vec<_> = starts.collect();
        say("launching");
        for start in starts {
            doomed.spawn(async move {
                let _started = start.await;
                std::future::pending::<()>().await;
            });
        }
        let drive = async { tokio::time::sleep(Duration::from_micros(micros)).await };
        match self.plan.threads {
            true => thread::sleep(Duration::from_micros(micros)),
            // Somebody has to run its tasks.
            false => doomed.block_on(drive),
        }
        match self.plan.end {
            End::ShutdownTimeout(_) => doomed.shutdown_timeout(Duration::from_millis(5)),
            _ => doomed.shutdown_background(),
        }
    }

    /// Whatever it was: once it is over, this host launches and ends as before.
    fn recheck(&self) {
        let index = self.plan.servers.len();
        let (_, started) =
            self.runtime
                .block_on(self.start(&Server::of(&["plain"]), index, Panics::never()));
        match started {
            Ok(client) => {
                say(&format!(
                    "started {index} {}",
                    client.semantics().containment.mechanism
                ));
                self.runtime.block_on(prove(index, &client));
            }
            Err(error) => refuse(index, &error),
        }
    }

    fn end(&mut self, clients: Clients) {
        // Made before there is nothing to make one of.
        let next = (self.plan.end == End::DropRuntime).then(|| runtime(false));
        let full = match self.plan.trouble {
            Trouble::NoDescriptors => fill_descriptors(),
            _ => Vec::new(),
        };
        match self.plan.end {
            End::Shutdown => {
                self.shut_down(&clients);
                drop(full);
                restore(Resource::RLIMIT_NOFILE);
                // Until the supervisor is content, or gives up.
                while ask("done") == "again" {
                    self.shut_down(&clients);
                }
            }
            End::DropRuntime => {
                if let Some(next) = next {
                    drop(std::mem::replace(&mut self.runtime, next));
                }
                drop(clients);
            }
            End::ExitForgetting => {
                std::mem::forget(clients);
                process::exit(0);
            }
            End::Abort => process::abort(),
            End::ExitFromThread => {
                let _ = thread::spawn(|| process::exit(1)).join();
            }
            _ => drop(clients),
        }
    }

    fn shut_down(&self, clients: &Clients) {
        let proofs = clients.iter().map(|(index, client)| prove(*index, client));
        // An observer that panics may do so here.
        let proofs = AssertUnwindSafe(|| self.runtime.block_on(join_all(proofs)));
        if catch_unwind(proofs).is_err() {
            say("panicked");
        }
    }

    /// Idle, for the supervisor to count what it holds, until that is gone.
    fn rest(self) -> ! {
        // The runtime goes on, as it would in a host that has other work.
        thread::spawn(|| {
            while !ask("idle").is_empty() {}
            process::exit(0)
        });
        self.runtime.block_on(std::future::pending())
    }
}

type Started = (usize, Result<LifecycleClient, StartError>);

fn tell((index, started): &Started) {
    match started {
        Ok(client) => {
            let mechanism = client.semantics().containment.mechanism;
            say(&format!("started {index} {mechanism}"));
        }
        Err(error) => refuse(*index, error),
    }
}

fn refuse(index: usize, error: &StartError) {
    let claim = match &error.context().cleanup {
        // The launcher may still be about to undo it.
        None if matches!(error.kind(), StartErrorKind::Timeout(_)) => "cut-short",
        None | Some(Ok(_)) => "refused",
        Some(Err(_)) => "unproven-start",
    };
    say(&format!("{claim} {index} {}", ErrorChain(error)));
}

async fn prove(index: usize, client: &LifecycleClient) {
    let begun = Instant::now();
    let outcome = client.shutdown().await;
    let took = begun.elapsed().as_millis();
    match outcome {
        Ok(report) => {
            let report = report.to_string().replace('\n', ", ");
            say(&format!("proof {index} {took} {report}"));
        }
        Err(error) => say(&format!("unproven {index} {took} {}", ErrorChain(&error))),
    }
}

/// Panics when it is told its event.
struct Panics(AtomicU64);

impl Panics {
    fn never() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl ServerObserver for Panics {
    fn on_event(&self, event: &ServerEvent) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            panic!("the observer, on purpose: {event:?}");
        }
    }
}

impl Trouble {
    fn limits(self) -> Vec<(Resource, u64)> {
        match self {
            Self::Descriptors(count) => vec![(Resource::RLIMIT_NOFILE, count)],
            Self::Processes(count) => vec![(Resource::RLIMIT_NPROC, count)],
            _ => Vec::new(),
        }
    }
}

fn lower(resource: Resource, soft: u64) {
    if let Ok((_, hard)) = getrlimit(resource) {
        let _ = setrlimit(resource, soft.min(hard), hard);
    }
}

fn restore(resource: Resource) {
    if let Ok((_, hard)) = getrlimit(resource) {
        let _ = setrlimit(resource, hard.min(1024 * 64), hard);
    }
}

fn fill_descriptors() -> Vec<File> {
    lower(Resource::RLIMIT_NOFILE, 256);
    let null = || File::open("/dev/null").ok();
    std::iter::from_fn(null).collect()
}
