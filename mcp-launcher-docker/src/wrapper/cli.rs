//! Clean-up by the command that started a container: for engines that only it can reach, and for
//! Podman, which has no daemon.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mcp_lifecycle_core::launch::Remnant;
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub(super) struct Cli {
    pub(super) program: OsString,
    pub(super) globals: Vec<OsString>,
    /// The server's environment, which may name the engine, too.
    pub(super) env: Vec<(OsString, OsString)>,
    /// The server's working directory, for a relative program.
    pub(super) directory: Option<PathBuf>,
}

impl Cli {
    pub(super) async fn list(&self, label: &str) -> io::Result<Vec<Remnant>> {
        let filter = format!("label={label}");
        let format = "{{.ID}} {{.Names}}";
        let args = [
            "ps",
            "--all",
            "--no-trunc",
            "--filter",
            &filter,
            "--format",
            format,
        ];
        let text = self.run(args.map(OsStr::new)).await?;
        let remnant = |line: &str| {
            let (id, name) = line.split_once(' ').unwrap_or((line, ""));
            Remnant::container(id, name)
        };
        let lines = text.lines().map(str::trim);
        Ok(lines.filter(|line| !line.is_empty()).map(remnant).collect())
    }

    pub(super) async fn remove(&self, containers: &[Remnant]) -> io::Result<()> {
        let ids = containers.iter().map(|container| OsStr::new(&container.id));
        let args = ["rm", "--force", "--volumes"].map(OsStr::new);
        self.run(args.into_iter().chain(ids)).await.map(drop)
    }

    async fn run<'a>(&self, args: impl IntoIterator<Item = &'a OsStr>) -> io::Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.globals)
            .args(args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let output = match timeout(LIMIT, command.output()).await {
            Ok(output) => output?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(stderr.trim().to_owned()))
    }
}

// Values of the environment are secrets.
mcp_lifecycle_core::debug_fields! { Cli, it {
    program: &it.program,
    globals: &it.globals,
    env: &it.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    directory: &it.directory,
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_the_environment_is_shown() {
        let cli = Cli {
            program: "docker".into(),
            globals: vec!["--debug".into()],
            env: vec![("TOKEN".into(), "hunter2".into())],
            directory: None,
        };
        let text = format!("{cli:?}");
        assert!(text.contains("TOKEN"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    /// A shell has the arguments of the command as `$0` and the following ones.
    #[tokio::test]
    async fn a_command_lists_removes_and_says_why_not() {
        let sh = |script: &str| Cli {
            program: "/bin/sh".into(),
            globals: vec!["-c".into(), script.into()],
            env: Vec::new(),
            directory: None,
        };
        let listed = sh("echo '0123 name'; echo; echo 45").list("k=v").await;
        let expected =
            [("0123", "name"), ("45", "")].map(|(id, name)| Remnant::container(id, name));
        assert_eq!(listed.unwrap(), expected);
        let told = "echo $0 $* >&2; exit 1";
        let error = sh(told).list("k=v").await.unwrap_err();
        let asked = "ps --all --no-trunc --filter label=k=v --format {{.ID}} {{.Names}}";
        assert_eq!(error.to_string(), asked);
        let error = sh(told).remove(&expected).await.unwrap_err();
        assert_eq!(error.to_string(), "rm --force --volumes 0123 45");
        sh("").remove(&expected).await.unwrap();
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Creates {
    /// The index of the labels among the arguments: right after `run`.
    at: usize,
    /// The flags before the command, for `ps` and `rm` later.
    pub(super) globals: Vec<OsString>,
    pub(super) names_engine: bool,
    pub(super) is_docker: bool,
}

/// Global flags with a value that names the engine, of docker, podman and nerdctl.
const ENGINE: &str = "-H --host -c --context --connection --url -n --namespace -a --address";

const VALUED: &str = "--config -l --log-level --root --runroot --runtime --tlscacert --tlscert \
    --tlskey --cgroup-manager --cni-netconfpath --cni-path --conmon --data-root --events-backend \
    --hooks-dir --hosts-dir --identity --imagestore --module --network-cmd-path \
    --network-config-dir --out --runtime-flag --snapshotter --storage-driver --storage-opt \
    --tmpdir --volumepath";

/// Returns how to label a command, if it creates a container.
pub(super) fn find(program: &OsStr, args: &[OsString]) -> Option<Creates> {
    let program = Path::new(program).file_stem()?.to_str()?;
    if !matches!(program, "docker" | "podman" | "nerdctl") {
        return None;
    }
    let mut at = 0;
    let mut names_engine = false;
    while let Some(arg) = args.get(at) {
        let arg = arg.to_str()?;
        if !arg.starts_with('-') {
            break;
        }
        let name = arg.split('=').next().unwrap_or(arg);
        let is_in = |list: &str| list.split(' ').any(|flag| flag == name);
        // `-Hunix://...`, `-clab`
        let short = ["-H", "-c"].iter().any(|flag| arg.starts_with(flag));
        names_engine |= short || is_in(ENGINE);
        let value_follows = (is_in(ENGINE) || is_in(VALUED)) && !arg.contains('=');
        at += 1 + usize::from(value_follows);
    }
    let globals = args.get(..at)?.to_vec();
    if args.get(at).is_some_and(|arg| arg == "container") {
        at += 1;
    }
    let command = args.get(at)?;
    (command == "run" || command == "create").then(|| Creates {
        at: at + 1,
        globals,
        names_engine,
        is_docker: program == "docker",
    })
}

impl Creates {
    pub(super) fn labelled<'a>(
        &self,
        args: &[OsString],
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Vec<OsString> {
        let mut all = args.to_vec();
        let flags = labels
            .into_iter()
            .flat_map(|(key, value)| ["--label".into(), format!("{key}={value}").into()]);
        all.splice(self.at..self.at, flags);
        all
    }
}

#[cfg(test)]
mod inject_tests {
    use super::*;

    fn find_in(command: &str) -> Option<(Creates, Vec<OsString>)> {
        let mut words = command.split(' ').map(OsString::from);
        let program = words.next().unwrap();
        let args: Vec<_> = words.collect();
        find(&program, &args).map(|creates| (creates, args))
    }

    fn labelled(command: &str) -> Option<String> {
        let (creates, args) = find_in(command)?;
        let (key, value) = ("k".to_owned(), "v".to_owned());
        let args = creates.labelled(&args, [(&key, &value)]);
        let args: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
        Some(args.join(" "))
    }

    #[test]
    fn labels_go_right_after_the_command() {
        let cases = [
            ("docker run -i img", "run --label k=v -i img"),
            ("/usr/bin/podman create img", "create --label k=v img"),
            (
                "docker -H unix:///x --debug container run img",
                "-H unix:///x --debug container run --label k=v img",
            ),
            (
                "podman --root /r --storage-driver vfs run img",
                "--root /r --storage-driver vfs run --label k=v img",
            ),
            (
                "docker --context=lab run img run",
                "--context=lab run --label k=v img run",
            ),
        ];
        for (command, expected) in cases {
            assert_eq!(labelled(command).as_deref(), Some(expected), "{command}");
        }
    }

    #[test]
    fn other_commands_are_left_alone() {
        for command in [
            "docker exec -i c sh",
            "docker",
            "docker -H",
            "docker compose run x",
            "npx docker run",
            "docker-compose run x",
            "sh run",
        ] {
            assert_eq!(labelled(command), None, "{command}");
        }
    }

    #[test]
    fn docker_is_told_from_others() {
        let is_docker = |command| find_in(command).unwrap().0.is_docker;
        assert!(is_docker("/usr/bin/docker run img"));
        assert!(!is_docker("podman run img"));
    }

    #[test]
    fn flags_that_name_the_engine_are_told() {
        let names = |command| find_in(command).unwrap().0.names_engine;
        assert!(names("docker -H unix:///x run img"));
        assert!(names("docker -Hunix:///x run img"));
        assert!(names("docker --context lab run img"));
        assert!(names("docker -clab run img"));
        assert!(names("docker -H unix:///x -c lab run img"));
        assert!(!names("docker --log-level debug run img"));
        assert!(!names("docker run -H x img"));
    }
}
