//! Bad input: each is a typed error that says what to do, and nothing is left.

use std::time::Duration;

use mcp_lifecycle_core::client::{
    LifecycleClient, ServerConfig, StartError, StartErrorKind, StartPhase,
};
use mcp_lifecycle_core::launch::{ExitStatus, LaunchErrorKind, ServerSpec};

use crate::support::{self, Rig, chain, launcher, test};

async fn refuse(spec: ServerSpec) -> StartError {
    LifecycleClient::start(ServerConfig::new(launcher(), spec))
        .await
        .unwrap_err()
}

fn why_not_launched(error: &StartError) -> Option<&LaunchErrorKind> {
    match error.kind() {
        StartErrorKind::Launch(error) => Some(error.kind()),
        _ => None,
    }
}

/// The time that a server has which never answers: far more than a launch and a refusal take.
const STARTUP: Duration = Duration::from_secs(6);

async fn refuse_fixture(rig: &Rig, args: &[&str]) -> StartError {
    let config = rig.config(args).startup_timeout(STARTUP);
    let error = LifecycleClient::start(config).await.unwrap_err();
    assert_eq!(error.context().phase, StartPhase::Handshake);
    // The proof that nothing is left comes with the error.
    assert!(matches!(error.context().cleanup, Some(Ok(_))), "{error:?}");
    error
}

#[test]
fn commands_that_cannot_be_executed() {
    test("bad commands", async |_| {
        use LaunchErrorKind as Kind;
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let mut mode = script.metadata().unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&script, mode).unwrap();

        type Check = fn(&Kind) -> bool;
        let cases: [(&str, Check, &str); 5] = [
            (
                "no-such-program-at-all",
                |k| matches!(k, Kind::NotFound { .. }),
                "PATH",
            ),
            (
                "/no/such/program",
                |k| matches!(k, Kind::NoSuchFile(_)),
                "/no/such/program",
            ),
            (
                "/etc/passwd",
                |k| matches!(k, Kind::NotExecutable(_)),
                "permissions",
            ),
            ("/tmp", |k| matches!(k, Kind::IsDirectory(_)), "directory"),
            (
                script.to_str().unwrap(),
                |k| matches!(k, Kind::NotExecutable(_)),
                "first line",
            ),
        ];
        for (program, expected, word) in cases {
            let spec = ServerSpec::builder("bad", program).build().unwrap();
            let error = refuse(spec).await;
            assert!(why_not_launched(&error).is_some_and(expected), "{error:?}");
            assert!(chain(&error).contains(word), "{}", chain(&error));
            assert!(error.context().cleanup.is_none());
        }
    });
}

#[test]
fn a_working_directory_that_is_none() {
    test("bad cwd", async |_| {
        for dir in ["/no/such/dir", "/etc/passwd"] {
            let spec = ServerSpec::builder("bad", "true").cwd(dir).build().unwrap();
            let error = refuse(spec).await;
            let kind = why_not_launched(&error);
            assert!(
                matches!(kind, Some(LaunchErrorKind::WorkingDirectory { .. })),
                "{error:?}"
            );
            assert!(chain(&error).contains(dir), "{}", chain(&error));
        }
    });
}

#[test]
fn an_exit_before_the_handshake_says_how_and_what_it_said_last() {
    test("early exit", async |rig| {
        let args = [
            "exits-during-handshake",
            "--code",
            "3",
            "--stderr",
            "missing API key",
        ];
        let error = refuse_fixture(rig, &args).await;
        assert!(
            matches!(error.kind(), StartErrorKind::Exited(ExitStatus::Code(3))),
            "{error:?}"
        );
        let text = chain(&error);
        assert!(text.contains("exit code 3"), "{text}");
        assert!(text.contains("missing API key"), "{text}");
    });
}

#[test]
fn a_program_that_is_no_server_at_all() {
    test("no server", async |_| {
        let spec = ServerSpec::builder("true", "true").build().unwrap();
        let error = refuse(spec).await;
        let exited = matches!(error.kind(), StartErrorKind::Exited(ExitStatus::Code(0)));
        assert!(exited, "{error:?}");
    });
}

#[test]
fn a_server_that_never_answers() {
    test("never answers", async |rig| {
        let error = refuse_fixture(rig, &["never-answers"]).await;
        assert!(
            matches!(error.kind(), StartErrorKind::Timeout(_)),
            "{error:?}"
        );
        let text = chain(&error);
        assert!(text.contains(&format!("{STARTUP:?}")), "{text}");
    });
}

/// It refuses the first request, and reads no second one.
#[test]
fn a_server_that_closes_its_input() {
    test("closed input", async |_| {
        let script = "read -r line; exec <&-; \
             echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"no\"}}'; \
             exec sleep 1000";
        let spec = ServerSpec::builder("deaf", "sh").args(["-c", script]);
        let error = refuse(spec.build().unwrap()).await;
        let closed = matches!(error.kind(), StartErrorKind::InputClosed);
        assert!(closed, "{error:?}");
    });
}

#[test]
fn a_leader_that_exits_first_is_no_server_and_its_helper_is_swept() {
    test("leader exits first", async |rig| {
        let error = refuse_fixture(rig, &["leader-exits-first"]).await;
        let Some(Ok(report)) = &error.context().cleanup else {
            panic!("{error:?}")
        };
        assert_eq!(report.gone.swept_count, 1, "{report}");
    });
}

#[test]
fn versions_that_nobody_knows() {
    test("wrong version", async |rig| {
        for era in ["legacy", "modern"] {
            let error = refuse_fixture(rig, &["wrong-version", "--era", era]).await;
            let wrong = matches!(error.kind(), StartErrorKind::ProtocolVersion { .. });
            assert!(wrong, "{era}: {error:?}");
        }
    });
}

#[test]
fn malformed_answers_to_the_handshake() {
    test("malformed handshake", async |rig| {
        for shape in ["invalid-utf8", "invalid-json", "oversized-line"] {
            let bytes = (20 << 20).to_string();
            let args = [shape, "--at", "handshake", "--bytes", &bytes];
            let config = rig.config(&args).startup_timeout(support::LIMIT);
            let error = LifecycleClient::start(config).await.unwrap_err();
            assert!(
                matches!(error.kind(), StartErrorKind::Malformed(_)),
                "{shape}: {error:?}"
            );
        }
    });
}

#[test]
fn secrets_stay_out_of_errors() {
    test("secrets", async |_| {
        let spec = ServerSpec::builder("s", "false")
            .env("API_KEY", "hunter2")
            .args(["--token", "hunter2"])
            .build()
            .unwrap();
        let error = refuse(spec).await;
        assert!(!format!("{error:?} {}", chain(&error)).contains("hunter2"));
    });
}
