//! What is remembered of a server's era, by the requests that a server gets before it is ready.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_lifecycle_core::client::{ClientState, Era, LifecycleClient, ServerConfig, StartErrorKind};
use mcp_lifecycle_core::launch::ServerSpec;
use serde_json::{Value, json};

use crate::support::{self, Rig, launcher, patient, test, text, tool};

/// A server that speaks the era which a file names, and keeps what it is told.
struct Changing {
    directory: tempfile::TempDir,
    config: ServerConfig,
}

const SCRIPT: &str = r#"
era=$(cat "$1/era")
if [ "$era" = vague ]; then
    IFS= read -r asked; printf '%s\n' "$asked" >"$1/told"
    printf '%s' "$asked" | sed -E 's/.*"id":([0-9]+).*/{"jsonrpc":"2.0","id":\1,"result":{}}\n/'
    era=legacy
fi
if [ "$era" = silent ]; then tee -a "$1/told" >/dev/null
else tee -a "$1/told" | "$2" plain --era "$era" --alive "$3"
fi"#;

impl Changing {
    fn new(rig: &Rig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spec = ServerSpec::builder("changing", "/bin/sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(directory.path())
            .arg(env!("CARGO_BIN_EXE_mcp-fixture"))
            .arg(rig.alive.address())
            .build()
            .unwrap();
        let config = ServerConfig::new(launcher(), spec)
            .termination(patient())
            .startup_timeout(support::LIMIT)
            .probe_timeout(support::LIMIT);
        Self { directory, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn speaks(&self, era: &str) {
        fs::write(self.path("era"), era).unwrap();
        let _ = fs::remove_file(self.path("told"));
    }

    /// Starts it while it speaks `era`; returns what was found, and each request that a start has taken.
    async fn start(&self, era: &str) -> (Era, Vec<String>) {
        self.speaks(era);
        let client = LifecycleClient::start(self.config.clone()).await.unwrap();
        let ClientState::Ready { era: found } = client.state().borrow().clone() else {
            panic!("{:?}", client.state().borrow());
        };
        let answer = client.call_tool(tool("echo", json!({"text": era}))).await;
        assert_eq!(text(&answer.unwrap()), era);
        client.shutdown().await.unwrap();
        let mut asked = requests(&self.path("told"));
        assert_eq!(asked.pop().as_deref(), Some("tools/call"));
        (found, asked)
    }
}

/// The methods of all messages that want an answer.
fn requests(told: &Path) -> Vec<String> {
    let told = fs::read_to_string(told).unwrap();
    let messages = told.lines().map(|line| serde_json::from_str(line).unwrap());
    let wanted = messages.filter(|message: &Value| !message["id"].is_null());
    wanted
        .map(|message| message["method"].as_str().unwrap().to_owned())
        .collect()
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const DISCOVER: &str = "server/discover";
const INITIALIZE: &str = "initialize";

#[test]
fn a_server_whose_era_is_known_is_asked_once() {
    test("known era", async |rig| {
        let server = Changing::new(rig);
        for (era, found, asked) in [
            ("legacy", Era::Legacy, &[DISCOVER, INITIALIZE][..]),
            ("legacy", Era::Legacy, &[INITIALIZE]),
            // Replaced by one that knows no `initialize`.
            ("modern", Era::Modern, &[INITIALIZE, DISCOVER]),
            ("modern", Era::Modern, &[DISCOVER]),
            ("legacy", Era::Legacy, &[DISCOVER, INITIALIZE]),
            ("legacy", Era::Legacy, &[INITIALIZE]),
        ] {
            let (is, was_asked) = server.start(era).await;
            assert_eq!((is, was_asked), (found, texts(asked)), "{era}");
        }
        // Nothing is known of the same command with something else in its environment.
        let spec = server.config.spec();
        let other = ServerSpec::builder("changing", "/bin/sh")
            .args(spec.args().iter().cloned())
            .env("ANOTHER", "1")
            .build()
            .unwrap();
        let config = ServerConfig::new(launcher(), other).termination(patient());
        let other = Changing { config, ..server };
        let (_, asked) = other.start("legacy").await;
        assert_eq!(asked, texts(&[DISCOVER, INITIALIZE]));
    });
}

#[test]
fn an_era_that_a_start_failed_with_is_forgotten() {
    test("forgotten era", async |rig| {
        let server = Changing::new(rig);
        assert_eq!(server.start("legacy").await.0, Era::Legacy);
        server.speaks("silent");
        let patience = Duration::from_millis(500);
        let hasty = server.config.clone().startup_timeout(patience);
        let error = LifecycleClient::start(hasty).await.unwrap_err();
        let is_timeout = matches!(error.kind(), StartErrorKind::Timeout(_));
        assert!(is_timeout, "{error}");
        let (found, asked) = server.start("modern").await;
        assert_eq!(
            (found, &asked[..]),
            (Era::Modern, &[DISCOVER.to_owned()][..])
        );
    });
}

#[test]
fn a_server_that_answers_any_method_is_legacy() {
    test("vague server", async |rig| {
        let (found, asked) = Changing::new(rig).start("vague").await;
        assert_eq!(found, Era::Legacy);
        assert_eq!(asked, texts(&[DISCOVER, INITIALIZE]));
    });
}
