//! The commands of docs/first-executor.md, as they are written there.

use crate::prelude::*;

const PAGE: &str = include_str!("../../../docs/first-executor.md");

/// The shell's blocks of the page, in order.
fn blocks() -> Vec<String> {
    let parts = PAGE.split("```sh\n").skip(1);
    parts
        .map(|part| part.split("```").next().unwrap().to_owned())
        .collect()
}

/// A shell that runs a block in a directory, where `mcp-executor` is known.
fn shell(directory: &Path, block: &str) -> Command {
    let bin = Path::new(DAEMON).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("/bin/sh");
    command
        .args(["-eu", "-c", block])
        .env("PATH", format!("{bin}:{path}"))
        .env("XDG_RUNTIME_DIR", directory)
        .env_remove("MCP_EXECUTOR_TOKEN")
        .current_dir(directory)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Starts a block that serves.
async fn serve(directory: &Path, block: &str) -> Peer {
    // The shell makes way for its last command, which is then killed with it.
    let block = block.trim_end();
    let last = block.rfind('\n').map_or(0, |end| end + 1);
    let (first, last) = block.split_at(last);
    started(&mut shell(directory, &format!("{first}exec {last}"))).await
}

async fn works(config: ExecServerConfig) {
    let launcher = launcher(config).await;
    let server = launch(&launcher, sh("exec cat")).await;
    server.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_work() {
    let blocks = blocks();
    let [ssh, file, make, network] = &blocks[..] else {
        panic!("the page has other blocks than this test knows: {blocks:#?}");
    };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();

    // There is no other machine here: what ssh would run there is run here.
    let there = ssh.strip_prefix("ssh box ").unwrap();
    let output = within(shell(directory, there).output()).await.unwrap();
    assert!(output.stdout.starts_with(b"mcp-executor "), "{output:?}");
    works(ExecutorLauncher::command(DAEMON, ["--stdio"])).await;

    let served = serve(directory, file).await;
    works(ExecutorLauncher::websocket(served.url)).await;

    let made = within(shell(directory, make).status()).await.unwrap();
    assert!(made.success());
    // The page's port may be in use here.
    let network = network.replace("0.0.0.0:7443", "127.0.0.1:0");
    let served = serve(directory, &network).await;
    let token = std::fs::read_to_string(directory.join("token")).unwrap();
    let config = ExecutorLauncher::websocket(served.url)
        .token(token.trim())
        .trust(directory.join("cert.pem"));
    works(config).await;
}

#[test]
fn the_page_is_short() {
    // Two screens.
    assert!(PAGE.lines().count() < 100);
}
