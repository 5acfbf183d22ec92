//! The engine as an independent witness sees it: by the docker program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An engine.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) host: String,
}

impl Engine {
    /// The one of the environment; `None` when told to skip.
    ///
    /// # Panics
    ///
    /// Without an engine.
    pub(crate) fn of_environment() -> Option<Self> {
        if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
            eprintln!("skipped: MCP_DOCKER_TESTS=skip");
            return None;
        }
        let host = std::env::var("DOCKER_HOST");
        let host = host.unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
        let engine = Self { host };
        assert!(
            engine.answers(),
            "no engine at {}: run the tests by `.ci/dockerd run`, or set MCP_DOCKER_TESTS=skip",
            engine.host
        );
        Some(engine)
    }

    pub(crate) fn answers(&self) -> bool {
        let status = self
            .command(&["version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["-H", &self.host]).args(args);
        command
    }

    /// The command's output.
    pub(crate) fn docker(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(
            output.status.success(),
            "docker {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Full ids of all containers with this label, in any state.
    pub(crate) fn by_label(&self, label: &str) -> Vec<String> {
        let filter = format!("label={label}");
        let ids = self.docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]);
        ids.lines().map(str::to_owned).collect()
    }
}

impl Engine {
    /// Returns what the list, a look by id and the events say about a container. They may contradict.
    pub(crate) fn all_about(&self, id: &str) -> String {
        let row = self.docker(&["ps", "-a", "--no-trunc", "--filter", &format!("id={id}")]);
        let inspected = self
            .command(&["inspect", "--format", "{{json .State}}", id])
            .output();
        let events = self.events(id);
        format!("{row}\n{inspected:?}\n{events}")
    }

    /// The container's last ten minutes.
    pub(crate) fn events(&self, id: &str) -> String {
        let filter = format!("container={id}");
        self.docker(&[
            "events", "--since", "10m", "--until", "0s", "--filter", &filter,
        ])
    }

    /// The labels of a container or image, one `KEY=VALUE` each.
    pub(crate) fn labels(&self, of: &str) -> Vec<String> {
        let format = "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}}\n{{end}}";
        let labels = self.docker(&["inspect", "--format", format, of]);
        let labels = labels.lines().filter(|line| !line.is_empty());
        labels.map(str::to_owned).collect()
    }

    /// The values of a field, one for each host that has labelled it.
    pub(crate) fn field(&self, of: &str, field: &str) -> Vec<String> {
        let labels = self.labels(of).into_iter();
        let own = labels.filter_map(|label| {
            let (key, value) = label.strip_prefix("dev.mcp-lifecycle.")?.split_once('=')?;
            let (_, found) = key.split_once('.')?;
            (found == field).then(|| value.to_owned())
        });
        own.collect()
    }
}

/// An engine of a test's own, to be mistreated.
pub(crate) struct PrivateEngine {
    pub(crate) engine: Engine,
    directory: tempfile::TempDir,
    /// `None` when it was ended and not started again: its pid may be anybody's.
    child: Option<Child>,
    flags: Vec<String>,
}

impl PrivateEngine {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("dockerd-")
            .tempdir_in("/tmp")
            .unwrap();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let child = spawn(directory.path(), &flags);
        let host = format!("unix://{}", directory.path().join("s").display());
        let engine = Engine { host };
        wait_for(&engine);
        Self {
            engine,
            directory,
            child: Some(child),
            flags,
        }
    }

    /// Ends it by this signal, if it runs.
    pub(crate) fn signal(&mut self, signal: nix::sys::signal::Signal) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
        child.wait().unwrap();
    }

    /// Returns whether it has files of a container. Looked at by itself, and not by its list.
    pub(crate) fn keeps(&self, id: &str) -> bool {
        let files = self.directory.path().join("data/containers").join(id);
        let keeps = files.try_exists().unwrap();
        if !keeps {
            println!("listed, and not there: {id}");
        }
        keeps
    }

    /// Its process, while it runs.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.id() as i32)
    }

    /// Stops it, or lets it go on: it is there, and does nothing.
    pub(crate) fn freeze(&self, frozen: bool) {
        use nix::sys::signal::{Signal, kill};
        let signal = match frozen {
            true => Signal::SIGSTOP,
            false => Signal::SIGCONT,
        };
        kill(nix::unistd::Pid::from_raw(self.pid().unwrap()), signal).unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        // A killed daemon takes its containerd along, whose pid file would be
        // believed for as long as nobody reaps it.
        for file in ["pid", "exec/containerd/containerd.pid"] {
            let _ = std::fs::remove_file(self.directory.path().join(file));
        }
        self.child = Some(spawn(self.directory.path(), &self.flags));
        wait_for(&self.engine);
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        if self.pid().is_some() {
            self.freeze(false);
        }
        let ids = self.engine.command(&["ps", "-aq"]).output();
        let ids = ids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for id in ids.unwrap_or_default().lines() {
            let _ = self.engine.command(&["rm", "-f", id]).output();
        }
        self.signal(nix::sys::signal::Signal::SIGTERM);
        // One that was killed has left its data mounted on itself.
        let data = self.directory.path().join("data");
        let unmount = || Command::new("umount").arg(&data).output();
        while unmount().is_ok_and(|output| output.status.success()) {}
    }
}

fn spawn(directory: &Path, flags: &[String]) -> Child {
    let at = |name: &str| directory.join(name);
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(at("log"))
        .unwrap();
    Command::new("dockerd")
        .arg("--data-root")
        .arg(at("data"))
        .arg("--exec-root")
        .arg(at("exec"))
        .arg("--pidfile")
        .arg(at("pid"))
        .arg("--host")
        .arg(format!("unix://{}", at("s").display()))
        .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn wait_for(engine: &Engine) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !engine.answers() {
        let log =
            || std::fs::read_to_string(engine.host.replace("unix://", "").replace("/s", "/log"));
        assert!(
            Instant::now() < deadline,
            "{} does not answer: {:?}",
            engine.host,
            log()
        );
        std::thread::yield_now();
    }
}
