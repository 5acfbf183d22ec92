//! A host that allows its program to be executed again as a guardian: the first test for a Mac. On Linux the same holds with the
//! guardian there, so the test itself is tried.
//!
//! This program is the test, its host, the server and what the server leaves. Each that must end holds a FIFO: its end of file is the
//! end of the process.

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn main() {
    mcp_launcher_local::serve_as_guardian();
    cases::main();
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn main() {
    // It returns.
    mcp_launcher_local::serve_as_guardian();
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod cases {
    use std::env;
    use std::fs::{self, File};
    use std::io::{self, BufRead, BufReader, Read, Write};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use libtest_mimic::{Arguments, Failed, Trial};
    use mcp_launcher_local::LocalLauncher;
    use mcp_lifecycle_core::launch::{LaunchContext, LaunchErrorKind, ServerLauncher, ServerSpec};
    use nix::sys::stat::Mode;
    use nix::unistd::{mkfifo, setsid};

    const DEADLINE: Duration = Duration::from_secs(30);
    /// The processes of a server, each with a FIFO of this name.
    const HOLDERS: [&str; 2] = ["server", "daemon"];

    pub(crate) fn main() {
        let arguments: Vec<String> = env::args().collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words[1..] {
            ["host", directory] => return host(Path::new(directory)),
            ["server", directory] => return server(Path::new(directory)),
            ["daemon", directory] => return daemon(Path::new(directory)),
            _ => {}
        }
        let mut arguments = Arguments::from_args();
        arguments.test_threads = Some(1);
        let tests = vec![
            trial(
                "a_killed_hosts_server_ends_with_its_daemonised_child",
                a_killed_hosts_server_ends_with_its_daemonised_child,
            ),
            trial(
                "what_cannot_be_executed_is_an_error",
                what_cannot_be_executed_is_an_error,
            ),
            trial(
                "a_server_has_its_own_arguments_directory_and_end",
                a_server_has_its_own_arguments_directory_and_end,
            ),
        ];
        libtest_mimic::run(&arguments, tests).exit();
    }

    fn trial(name: &str, test: fn()) -> Trial {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    fn this_program() -> PathBuf {
        env::current_exe().unwrap()
    }

    /// Launches a server, says what holds it, and lives on.
    fn host(directory: &Path) {
        runtime().block_on(async {
            let launcher = LocalLauncher::new();
            let spec = ServerSpec::builder("server", this_program())
                .arg("server")
                .arg(directory)
                .build()
                .unwrap();
            let _server = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
            println!("{}", launcher.semantics().containment.mechanism);
            tokio::time::sleep(DEADLINE * 4).await;
        });
    }

    /// Starts somebody who has left its group and its session, and wiped its environment.
    fn server(directory: &Path) {
        let mut daemon = Command::new(this_program())
            .arg("daemon")
            .arg(directory)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        hold(directory, "server");
        daemon.wait().unwrap();
    }

    fn daemon(directory: &Path) {
        setsid().unwrap();
        hold(directory, "daemon");
    }

    /// Lives on, and at most so long, if the test is none.
    fn hold(directory: &Path, name: &str) {
        let mut fifo = File::options()
            .write(true)
            .open(directory.join(name))
            .unwrap();
        fifo.write_all(b"+").unwrap();
        thread::sleep(DEADLINE * 4);
    }

    /// What comes of this, which waits for other processes.
    #[track_caller]
    fn within<T: Send + 'static>(what: &str, waits: impl FnOnce() -> T + Send + 'static) -> T {
        let (say, hear) = mpsc::channel();
        thread::spawn(move || say.send(waits()));
        hear.recv_timeout(DEADLINE)
            .unwrap_or_else(|_| panic!("in time: {what}"))
    }

    struct Scene {
        directory: PathBuf,
        host: Child,
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = self.host.kill();
            let _ = self.host.wait();
            let _ = fs::remove_dir_all(&self.directory);
        }
    }

    fn a_killed_hosts_server_ends_with_its_daemonised_child() {
        let directory = env::temp_dir().join(format!("mcp-reexec-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        for name in HOLDERS {
            mkfifo(&directory.join(name), Mode::S_IRWXU).unwrap();
        }
        let host = Command::new(this_program())
            .arg("host")
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut scene = Scene { directory, host };
        let mut stdout = BufReader::new(scene.host.stdout.take().unwrap());
        let mechanism = within("the host launches", move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        });
        // Else nothing is tested.
        assert!(mechanism.contains("guardian"), "{mechanism}");
        if cfg!(target_os = "macos") {
            assert!(mechanism.contains("lineage"), "{mechanism}");
        }
        let held = HOLDERS.map(|name| {
            let path = scene.directory.join(name);
            within("it runs", move || {
                let mut fifo = File::open(path).unwrap();
                fifo.read_exact(&mut [0]).unwrap();
                fifo
            })
        });
        scene.host.kill().unwrap();
        scene.host.wait().unwrap();
        for (name, mut fifo) in HOLDERS.into_iter().zip(held) {
            let rest = within(name, move || fifo.read_to_end(&mut Vec::new()));
            assert_eq!(rest.unwrap(), 0);
        }
    }

    fn what_cannot_be_executed_is_an_error() {
        let directory = env::temp_dir().join(format!("mcp-reexec-bad-{}", std::process::id()));
        fs::write(&directory, "#!/no/such/interpreter\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&directory, executable).unwrap();
        let spec = ServerSpec::builder("bad", &directory).build().unwrap();
        let launched =
            runtime().block_on(LocalLauncher::new().launch(&spec, &LaunchContext::new()));
        let _ = fs::remove_file(&directory);
        let error = launched.err().unwrap();
        let is_told = matches!(error.kind(), LaunchErrorKind::NotExecutable(_));
        assert!(is_told, "{error}");
    }

    fn a_server_has_its_own_arguments_directory_and_end() {
        let spec = ServerSpec::builder("sh", "/bin/sh")
            .args([
                "-c",
                "pwd; echo \"$1 ${MCP_LIFECYCLE_GUARDIAN-none}\"; exit 7",
                "sh",
                "a b",
            ])
            .cwd("/")
            .build()
            .unwrap();
        let (said, exit) = runtime().block_on(async {
            let launcher = LocalLauncher::new();
            let launched = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
            let mut parts = launched.into_parts();
            let mut said = String::new();
            let read = tokio::io::AsyncReadExt::read_to_string(&mut parts.stdout, &mut said);
            let read: io::Result<usize> = tokio::time::timeout(DEADLINE, read).await.unwrap();
            read.unwrap();
            let exit = tokio::time::timeout(DEADLINE, parts.terminator.exited());
            let exit = exit.await.unwrap();
            let gone = tokio::time::timeout(DEADLINE, parts.terminator.gone());
            gone.await.unwrap().unwrap();
            (said, exit)
        });
        assert_eq!(said, "/\na b none\n");
        assert_eq!(exit, mcp_lifecycle_core::launch::ExitStatus::Code(7));
    }
}
