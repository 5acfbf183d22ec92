//! The socket file: who may connect, and what happens to the file.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use mcp_lifecycle_conformance::copies::Copies;
use nix::unistd::geteuid;

use crate::prelude::*;

const NOBODY: u32 = 65534;

fn directory(mode: u32) -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    let directory = builder.prefix("mcp-unix-").tempdir().unwrap();
    set_mode(directory.path(), mode);
    directory
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn url(path: &Path) -> String {
    format!("unix:{}", path.display())
}

async fn daemon(path: &Path) -> Peer {
    let peer = listen(DAEMON, &["--listen", &url(path)]).await;
    assert_eq!(peer.url, url(path));
    peer
}

async fn echoes(url: &str) {
    let launcher = launcher(ExecutorLauncher::websocket(url)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    server.stdin.write_all(b"back\n").await.unwrap();
    assert_eq!(server.line().await, "back");
    server.end(&without_haste()).await.unwrap();
}

/// The message of a daemon that does not start.
async fn refusal(path: &Path) -> String {
    let (success, text) = run(&["--listen", &url(path)]).await;
    assert!(!success, "it started at {path:?}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_file_is_private_and_leaves_with_the_daemon() {
    let directory = directory(0o755);
    let path = directory.path().join("socket");
    let mut peer = daemon(&path).await;
    let found = std::fs::symlink_metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    echoes(&peer.url).await;
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert!(within(peer.child.wait()).await.unwrap().success());
    assert!(!path.exists(), "the file is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_killed_daemon_is_replaced_and_that_of_a_living_one_is_not() {
    let directory = directory(0o700);
    let path = directory.path().join("socket");
    let mut first = daemon(&path).await;
    let error = refusal(&path).await;
    assert!(error.contains("in use"), "{error}");
    echoes(&first.url).await;
    first.child.kill().await.unwrap();
    assert!(path.exists(), "nothing to replace");
    echoes(&daemon(&path).await.url).await;
}

/// It is in the middle of its request, for as long as the door lets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_does_not_keep_the_file_of_a_daemon_that_leaves() {
    let directory = directory(0o700);
    let path = directory.path().join("socket");
    let mut peer = daemon(&path).await;
    let _silent = UnixStream::connect(&path).unwrap();
    // Who comes later is let in later.
    echoes(&peer.url).await;
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert!(within(peer.child.wait()).await.unwrap().success());
    assert!(!path.exists(), "the file is still there");
}

/// A client that comes back there would take its word for that of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_stays_the_living_daemon_s_when_the_file_is_removed() {
    let directory = directory(0o700);
    let path = directory.path().join("socket");
    let mut first = daemon(&path).await;
    for all in [false, true] {
        match all {
            false => std::fs::remove_file(&path).unwrap(),
            true => {
                std::fs::remove_dir_all(directory.path()).unwrap();
                std::fs::create_dir(directory.path()).unwrap();
                set_mode(directory.path(), 0o700);
            }
        }
        let error = refusal(&path).await;
        assert!(error.contains("in use"), "{error}");
    }
    signal(Signal::SIGTERM, first.child.id().unwrap());
    assert!(within(first.child.wait()).await.unwrap().success());
    echoes(&daemon(&path).await.url).await;
}

/// A listener is there, and takes nothing.
#[tokio::test]
async fn nothing_is_waited_for_without_an_end() {
    let directory = directory(0o700);
    let path = directory.path().join("socket");
    let _deaf = UnixListener::bind(&path).unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = tokio::net::UnixStream::connect(&path).await {
        queue.push(stream);
    }
    let error = refusal(&path).await;
    assert!(error.contains("in use"), "{error}");
}

#[tokio::test]
async fn what_is_not_a_socket_of_ours_stays() {
    let directory = directory(0o700);
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("file"), "precious").unwrap();
    symlink(path("nowhere"), path("link")).unwrap();
    for name in ["file", "link"] {
        let error = refusal(&path(name)).await;
        assert!(error.contains("something else"), "{name}: {error}");
        assert!(std::fs::symlink_metadata(path(name)).is_ok(), "{name}");
    }
    if geteuid().is_root() {
        drop(UnixListener::bind(path("foreign")).unwrap());
        std::os::unix::fs::chown(path("foreign"), Some(NOBODY), None).unwrap();
        let error = refusal(&path("foreign")).await;
        assert!(error.contains("another user"), "{error}");
        assert!(path("foreign").exists());
    }
}

#[tokio::test]
async fn a_directory_that_others_can_change_is_refused() {
    let open = directory(0o777);
    let error = refusal(&open.path().join("socket")).await;
    assert!(error.contains("other users can change"), "{error}");
    // So is one above.
    let inner = open.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    set_mode(&inner, 0o700);
    let error = refusal(&inner.join("socket")).await;
    assert!(
        error.contains(&open.path().display().to_string()),
        "{error}"
    );
    // Where nobody can remove another user's files it does.
    set_mode(open.path(), 0o1777);
    daemon(&inner.join("socket")).await;
}

#[tokio::test]
async fn nobody_there_is_an_error_that_names_the_file() {
    let directory = directory(0o700);
    let config = ExecutorLauncher::websocket(url(&directory.path().join("none")));
    let error = within(ExecutorLauncher::connect(config)).await.unwrap_err();
    assert!(
        error.to_string().contains("none cannot be reached"),
        "{error}"
    );
}

/// Asks for readiness; what it is answered.
fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).unwrap();
    // Refused before it is read, so this may fail.
    let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Plays another user: prints what it is answered at a path.
#[test]
#[ignore = "a role"]
fn stranger() {
    let Some(path) = std::env::var_os("MCP_TEST_SOCKET") else {
        return;
    };
    println!("answered {:?}", ask(&PathBuf::from(path)));
}

/// Also when the file's mode would let it.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_does_not_come_in() {
    if !geteuid().is_root() {
        // There is nobody else to be.
        eprintln!("not tried: only root can become another user");
        return;
    }
    let directory = directory(0o755);
    let path = directory.path().join("socket");
    let _peer = daemon(&path).await;
    set_mode(&path, 0o666);
    assert!(ask(&path).contains("200 OK"), "root is refused");
    let copies = Copies::make(Path::new(DAEMON)).unwrap();
    let mut command = copies.command();
    command
        .args(["--exact", "unix::stranger", "--ignored", "--nocapture"])
        .env("MCP_TEST_SOCKET", &path)
        .uid(NOBODY)
        .gid(NOBODY);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = within(output).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("answered \"\""), "{text}");
}
