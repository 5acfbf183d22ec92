//! The container is as its options say, and safe where they say nothing.

use std::sync::Arc;

use mcp_lifecycle_core::client::{CallErrorKind, LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::{ExitStatus, ServerLauncher};
use mcp_lifecycle_core::terminate::EndReason;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use crate::support::{LIMIT, Rig, in_time, without_haste};

#[tokio::test]
async fn the_engine_confirms_the_safe_defaults() {
    let Some(rig) = Rig::new("defaults") else {
        return;
    };
    let server = rig.launch(&["plain"]).await;
    let inspected = rig.engine.docker(&["inspect", &rig.containers()[0]]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let (host, config) = (&inspected[0]["HostConfig"], &inspected[0]["Config"]);
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges"]));
    assert_eq!(host["Init"], true);
    assert_eq!(host["AutoRemove"], true);
    assert_eq!(host["PidsLimit"], 512);
    assert_eq!(host["RestartPolicy"]["Name"], "no");
    assert_eq!(host["LogConfig"]["Type"], "none");
    assert_eq!(config["StdinOnce"], true);
    assert!(inspected[0]["Name"].as_str().unwrap().starts_with("/mcp-"));
    drop(server);
    rig.assert_clean().await;
}

#[tokio::test]
async fn the_engine_confirms_every_option_of_the_chain() {
    let Some(rig) = Rig::new("chain") else {
        return;
    };
    let options = rig
        .options()
        .memory("64m")
        .cpus(0.5)
        .read_only_root(true)
        .tmpfs("/scratch")
        .pids_limit(64)
        .user("0:0")
        .cap_add("NET_BIND_SERVICE")
        .label("who", "me")
        .create_body(
            json!({"HostConfig": {"ShmSize": 8 << 20, "Ulimits": [{"Name": "nofile", "Soft": 99, "Hard": 99}], "Devices": [
                {"PathOnHost": "/dev/null", "PathInContainer": "/dev/mcp-null", "CgroupPermissions": "rw"},
            ]}}),
        )
        .create_body(json!({"Hostname": "mcp", "StopSignal": "SIGUSR1", "HostConfig": {"ExtraHosts": ["x:127.0.0.1"]}}));
    let server = rig
        .launch_by(&rig.launcher(), &rig.spec_with(&options, &["plain"]))
        .await;
    let inspected = rig.engine.docker(&["inspect", &rig.containers()[0]]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let (host, config) = (&inspected[0]["HostConfig"], &inspected[0]["Config"]);
    assert_eq!(host["Memory"], 64 << 20);
    assert_eq!(host["MemorySwap"], 64 << 20);
    assert_eq!(host["NanoCpus"], 500_000_000);
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["PidsLimit"], 64);
    assert_eq!(host["CapAdd"], json!(["NET_BIND_SERVICE"]));
    assert_eq!(host["Devices"][0]["PathInContainer"], "/dev/mcp-null");
    assert_eq!(host["Devices"][0]["CgroupPermissions"], "rw");
    assert_eq!(host["ShmSize"], 8 << 20);
    assert_eq!(host["Ulimits"][0]["Hard"], 99);
    assert_eq!(host["ExtraHosts"], json!(["x:127.0.0.1"]));
    // What was not named is as it was.
    assert_eq!(host["AutoRemove"], true);
    assert_eq!(config["User"], "0:0");
    assert_eq!(config["Labels"]["who"], "me");
    assert_eq!(config["StopSignal"], "SIGUSR1");
    assert_eq!(config["Hostname"], "mcp");
    drop(server);
    rig.assert_clean().await;
}

/// Several times, if need be: the shim of an engine with version 1 of cgroups
/// drops the event when the cgroup is deleted before it looked, and then nobody
/// knows more than the signal.
#[tokio::test]
async fn too_much_memory_is_told_apart_from_a_kill() {
    const ATTEMPTS: u32 = 5;
    let Some(rig) = Rig::new("memory") else {
        return;
    };
    for attempt in 1..=ATTEMPTS {
        let exit = exit_of_too_much_memory(&rig).await;
        rig.assert_clean().await;
        if exit == ExitStatus::OutOfMemory {
            return;
        }
        println!("attempt {attempt}: {exit}");
        assert_eq!(exit, ExitStatus::Signal(9));
    }
    panic!("in {ATTEMPTS} attempts the engine never said that memory ran out");
}

async fn exit_of_too_much_memory(rig: &Rig) -> ExitStatus {
    let spec = rig.spec_with(&rig.options().memory("24m"), &["plain"]);
    let launcher: Arc<dyn ServerLauncher> = Arc::new(rig.launcher());
    let started =
        LifecycleClient::builder(ServerConfig::new(launcher, spec).termination(without_haste()))
            .start()
            .await;
    let client = started.unwrap();
    let arguments = json!({"bytes": 200 << 20});
    let call =
        CallToolRequestParams::new("blob").with_arguments(arguments.as_object().unwrap().clone());
    let error = in_time("the call fails", client.peer().call_tool(call)).await;
    error.unwrap_err();
    client.shutdown().await.unwrap().exit
}

#[tokio::test]
async fn a_line_of_a_mebibyte_and_stderr_beside_it_arrive_whole() {
    let Some(rig) = Rig::new("big-line") else {
        return;
    };
    let launcher: Arc<dyn ServerLauncher> = Arc::new(rig.launcher());
    let client = LifecycleClient::builder(
        ServerConfig::new(launcher, rig.spec(&["plain"]))
            .termination(without_haste().eof_grace(LIMIT)),
    )
    .start()
    .await
    .unwrap();
    let call = |tool: &'static str, arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        client
            .peer()
            .call_tool(CallToolRequestParams::new(tool).with_arguments(arguments))
    };
    let blob = call("blob", json!({"bytes": 1 << 20}));
    let stderr = call("stderr", json!({"lines": 2000}));
    let (blob, stderr) = in_time("both answer", async { tokio::join!(blob, stderr) }).await;
    stderr.unwrap();
    let answer = serde_json::to_value(blob.unwrap()).unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), 1 << 20);
    let report = client.shutdown().await.unwrap();
    assert_eq!(report.exit, ExitStatus::Code(0), "{report}");
    rig.assert_clean().await;
}

/// Its output ends before the engine has told its code; half a second before,
/// where the engine is first to say whether memory was lacking.
#[tokio::test]
async fn a_server_that_exits_by_itself_is_reported_with_its_code() {
    let Some(rig) = Rig::new("exits") else {
        return;
    };
    let limited = rig.options().memory("64m");
    for (options, code, exit) in [
        (rig.options(), 3, ExitStatus::Code(3)),
        (limited, 137, ExitStatus::Signal(9)),
    ] {
        let launcher: Arc<dyn ServerLauncher> = Arc::new(rig.launcher());
        let spec = rig.spec_with(&options, &["plain"]);
        let started = LifecycleClient::builder(
            ServerConfig::new(launcher, spec).termination(without_haste()),
        )
        .start()
        .await;
        let client = started.unwrap();
        let arguments = json!({"code": code}).as_object().unwrap().clone();
        let call = CallToolRequestParams::new("exit").with_arguments(arguments);
        let error = in_time("the call fails", client.peer().call_tool(call)).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error.kind(), CallErrorKind::ServerDied { .. }),
            "{error}"
        );
        let report = in_time("it is swept", client.ended()).await.unwrap();
        assert_eq!(report.reason, EndReason::ServerExited, "{report}");
        assert_eq!(report.exit, exit, "{report}");
        rig.assert_clean().await;
    }
}
