//! A launcher whose servers are tasks of this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::client::{ProtocolPreference, ServerConfig};
use mcp_lifecycle_core::launch::{
    BoxRead, BoxWrite, Containment, Evidence, ExitStatus, Gone, LaunchContext, LaunchError,
    LaunchErrorKind, LaunchProgress, LaunchedServer, ProcessTerminator, Reach, ReapError,
    ReapReport, Remnant, ServerIdentity, ServerLauncher, ServerSpec, StepError,
    TerminationSemantics,
};
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::habits::{Habits, habits};

#[derive(Debug, Default)]
pub(crate) struct World {
    live: BTreeMap<String, usize>,
    pub(crate) most: BTreeMap<String, usize>,
    pub(crate) starts: usize,
    pub(crate) launching: usize,
    pub(crate) most_launching: usize,
    /// How many servers have said all they had to say.
    pub(crate) said: usize,
    /// The client's answers to questions of servers.
    pub(crate) answers: Vec<Value>,
    processes: Vec<(String, watch::Sender<Option<ExitStatus>>)>,
}

/// The kind of a server's standard input and standard output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Streams {
    /// Memory, for virtual time.
    #[default]
    Memory,
    #[cfg(unix)]
    Pipes,
    #[cfg(unix)]
    Sockets,
}

impl Streams {
    /// One stream: the end that reads, and the end that writes.
    fn open(self) -> (BoxRead, BoxWrite) {
        match self {
            Self::Memory => {
                let (read, write) = tokio::io::duplex(4096);
                (Box::new(read), Box::new(write))
            }
            #[cfg(unix)]
            Self::Pipes => {
                let (write, read) = tokio::net::unix::pipe::pipe().unwrap();
                (Box::new(read), Box::new(write))
            }
            #[cfg(unix)]
            Self::Sockets => {
                let (read, write) = tokio::net::UnixStream::pair().unwrap();
                (Box::new(read), Box::new(write))
            }
        }
    }
}

/// Starts servers inside this process and keeps the books.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fake {
    pub(crate) world: Arc<Mutex<World>>,
    mortal: Arc<watch::Sender<bool>>,
    streams: Streams,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Streams::default())
    }

    pub(crate) fn over(streams: Streams) -> Arc<Self> {
        Arc::new(Self {
            streams,
            ..Self::default()
        })
    }

    pub(crate) fn config(self: &Arc<Self>, name: &str, args: &[&str]) -> ServerConfig {
        self.config_env(name, args, "")
    }

    pub(crate) fn config_env(
        self: &Arc<Self>,
        name: &str,
        args: &[&str],
        token: &str,
    ) -> ServerConfig {
        let spec = ServerSpec::builder(name, "fake")
            .args(args)
            .env("TOKEN", token);
        let launcher: Arc<dyn ServerLauncher> = self.clone();
        ServerConfig::new(launcher, spec.build().unwrap()).protocol(ProtocolPreference::Legacy)
    }

    pub(crate) fn live(&self) -> usize {
        self.world.lock().unwrap().live.values().sum()
    }

    pub(crate) fn starts(&self) -> usize {
        self.world.lock().unwrap().starts
    }

    /// The most processes of one name that ever lived at a time.
    pub(crate) fn most(&self, name: &str) -> usize {
        self.world
            .lock()
            .unwrap()
            .most
            .get(name)
            .copied()
            .unwrap_or(0)
    }

    /// Kills every server of this name from outside.
    pub(crate) fn crash(&self, name: &str) {
        for (of, process) in &self.world.lock().unwrap().processes {
            if of == name {
                process.send_if_modified(|exit| exit.replace(ExitStatus::Signal(9)).is_none());
            }
        }
    }

    /// From now on immortal servers can be ended.
    pub(crate) fn make_mortal(&self) {
        self.mortal.send_replace(true);
    }
}

struct Launching(Arc<Mutex<World>>);

impl Drop for Launching {
    fn drop(&mut self) {
        self.0.lock().unwrap().launching -= 1;
    }
}

#[async_trait]
impl ServerLauncher for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn fingerprint(&self) -> Option<String> {
        Some(format!("{:p}", Arc::as_ptr(&self.world)))
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("task", Reach::Tree))
            .stdin_eof()
            .polite_signal()
    }

    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let habits = habits(spec);
        if habits.fetch > 0 {
            context.report(&LaunchProgress::new("fetching"));
        }
        sleep(Duration::from_millis(habits.fetch)).await;
        Ok(())
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let habits = habits(spec);
        {
            let mut world = self.world.lock().unwrap();
            world.starts += 1;
            world.launching += 1;
            world.most_launching = world.most_launching.max(world.launching);
        }
        let _launching = Launching(Arc::clone(&self.world));
        sleep(Duration::from_millis(habits.slow)).await;
        assert!(!habits.panic, "a fault in the launcher");
        if habits.fail {
            let kind = LaunchErrorKind::NotFound {
                program: "fake".to_owned(),
                searched: Vec::new(),
            };
            return Err(LaunchError::new("fake", spec, kind));
        }
        let name = spec.name().to_owned();
        let (exit, exited) = watch::channel(None);
        {
            let mut world = self.world.lock().unwrap();
            let live = world.live.entry(name.clone()).or_default();
            *live += 1;
            let live = *live;
            let most = world.most.entry(name.clone()).or_default();
            *most = live.max(*most);
            world.processes.push((name.clone(), exit.clone()));
        }
        let (theirs, stdin) = self.streams.open();
        let (stdout, ours) = self.streams.open();
        let process = Process {
            exit: exit.clone(),
            exited,
            habits: habits.clone(),
            mortal: self.mortal.subscribe(),
        };
        let stderr: Option<BoxRead> = (habits.chatty > 0).then(|| -> BoxRead {
            let (io, mut stderr) = self.streams.open();
            let world = Arc::clone(&self.world);
            tokio::spawn(async move {
                for n in 0..habits.chatty {
                    let line = format!("line {n} {}\n", "x".repeat(90));
                    let _ = stderr.write_all(line.as_bytes()).await;
                }
                world.lock().unwrap().said += 1;
            });
            io
        });
        let world = Arc::clone(&self.world);
        tokio::spawn(serve(
            theirs,
            ours,
            habits,
            exit.clone(),
            Arc::clone(&world),
        ));
        let mut ended = exit.subscribe();
        tokio::spawn(async move {
            let _ = ended.wait_for(Option::is_some).await;
            if let Some(live) = world.lock().unwrap().live.get_mut(&name) {
                *live -= 1;
            }
        });
        Ok(LaunchedServer::new(
            stdin,
            stdout,
            stderr,
            Arc::new(process),
        ))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

async fn serve(
    stdin: BoxRead,
    mut stdout: BoxWrite,
    habits: Habits,
    exit: watch::Sender<Option<ExitStatus>>,
    world: Arc<Mutex<World>>,
) {
    let mut exited = exit.subscribe();
    let life = async {
        for n in 0..habits.garbage {
            let _ = stdout
                .write_all(format!("listening {n}\n").as_bytes())
                .await;
        }
        if habits.mute {
            drop(stdout);
            let mut lines = BufReader::new(stdin).lines();
            while let Ok(Some(_)) = lines.next_line().await {}
            return;
        }
        let mut lines = BufReader::new(stdin).lines();
        let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel::<Value>();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                Some(answer) = answered.recv() => {
                    let _ = stdout.write_all(format!("{answer}\n").as_bytes()).await;
                    continue;
                }
            };
            let Ok(Some(line)) = line else { break };
            let message: Value = serde_json::from_str(&line).unwrap();
            let id = message["id"].clone();
            if message["method"].is_null() {
                world.lock().unwrap().answers.push(message);
                continue;
            }
            let result = match message["method"].as_str() {
                Some("initialize") if !habits.silent => json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "0"},
                }),
                Some("notifications/initialized") if habits.hush => {
                    drop(stdout);
                    return std::future::pending().await;
                }
                Some("notifications/initialized") if habits.unread => std::future::pending().await,
                Some("notifications/initialized") => {
                    if habits.asks {
                        let ask = json!({"jsonrpc": "2.0", "id": "ask", "method": "ping"});
                        let _ = stdout.write_all(format!("{ask}\n").as_bytes()).await;
                    }
                    if let Some(after) = habits.die {
                        let exit = exit.clone();
                        tokio::spawn(async move {
                            sleep(Duration::from_millis(after)).await;
                            exit.send_replace(Some(ExitStatus::Code(1)));
                        });
                    }
                    continue;
                }
                Some("tools/call") => json!({"content": []}),
                _ => continue,
            };
            if let Some(half) = message["params"]["arguments"]["close"].as_str() {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let _ = stdout.write_all(format!("{answer}\n").as_bytes()).await;
                // It lives on with what is left to it.
                let mut left = (Some(lines), Some(stdout));
                if half != "output" {
                    left.0 = None;
                }
                if half != "input" {
                    left.1 = None;
                }
                return std::future::pending().await;
            }
            let after = message["params"]["arguments"]["ms"].as_u64().unwrap_or(0);
            let token = &message["params"]["_meta"]["progressToken"];
            for step in 0..message["params"]["arguments"]["steps"]
                .as_u64()
                .unwrap_or(0)
            {
                let progress = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "message": "working"},
                });
                let _ = answers.send(progress);
            }
            let answers = answers.clone();
            tokio::spawn(async move {
                sleep(Duration::from_millis(after)).await;
                let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
            });
        }
        if habits.stubborn || habits.immortal || habits.deaf {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = life => drop(exit.send_if_modified(|exit| exit.replace(ExitStatus::Code(0)).is_none())),
        _ = exited.wait_for(Option::is_some) => {}
    }
}

#[derive(Debug)]
struct Process {
    exit: watch::Sender<Option<ExitStatus>>,
    exited: watch::Receiver<Option<ExitStatus>>,
    habits: Habits,
    mortal: watch::Receiver<bool>,
}

impl Process {
    fn end(&self, signal: i32) {
        self.exit.send_if_modified(|exit| {
            let first = exit.is_none();
            if first {
                *exit = Some(ExitStatus::Signal(signal));
            }
            first
        });
    }
}

#[async_trait]
impl ProcessTerminator for Process {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Other("a task".to_owned())
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("task", Reach::Tree))
            .stdin_eof()
            .polite_signal()
    }

    async fn exited(&self) -> ExitStatus {
        let mut exited = self.exited.clone();
        let exit = exited
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| *exit);
        exit.unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        if !self.habits.stubborn && !self.habits.immortal {
            self.end(15);
        }
        Ok(())
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.kill_now();
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.exited().await;
        Ok(Gone::proven_by(Evidence::Reaped))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        Ok(vec![Remnant::process(1, "immortal")])
    }

    fn kill_now(&self) {
        if !self.habits.immortal || *self.mortal.borrow() {
            self.end(9);
        }
    }
}

/// A call that takes so many milliseconds.
pub(crate) fn call(ms: u64) -> CallToolRequestParams {
    let arguments = json!({"ms": ms}).as_object().cloned().unwrap();
    CallToolRequestParams::new("wait").with_arguments(arguments)
}

/// A call that is answered; then the server closes a half, `input`, `output` or `both`.
pub(crate) fn close(half: &str) -> CallToolRequestParams {
    let arguments = json!({"close": half}).as_object().cloned().unwrap();
    CallToolRequestParams::new("close").with_arguments(arguments)
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
