//! What a server finds when it starts, and what nobody else sees of it.

use futures_util::StreamExt;
use mcp_launcher_kubernetes::PodOptions;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::{LIMIT, Namespace, POLITE, eventually, launch, options, spec};

#[tokio::test]
async fn the_first_line_is_not_lost() {
    let ns = Namespace::new("first-line");
    let launcher = ns.launcher();
    let script = "echo out; echo err >&2; cat";
    let rounds = (0..10).map(async |_| {
        let mut server = launch(&launcher, &spec(options(), script)).await.unwrap();
        assert_eq!(server.line().await.as_deref(), Some("out"));
        let error = server.stderr.next_line().await.unwrap();
        assert_eq!(error.as_deref(), Some("err"));
        server.stdin.write_all(b"ping\n").await.unwrap();
        assert_eq!(server.line().await.as_deref(), Some("ping"));
        server.end().await.unwrap();
    });
    let rounds = futures_util::stream::iter(rounds).buffer_unordered(4);
    rounds.collect::<Vec<()>>().await;
    // The init's program stays; nothing else does.
    assert!(ns.names("pods,leases").is_empty());
}

#[tokio::test]
async fn the_environment_is_a_secret_for_a_moment() {
    let ns = Namespace::new("environment");
    let launcher = ns.launcher();
    let script = "echo \"$TOKEN\" '$(TOKEN)'; cat";
    let spec = options().command("server", "sh").args(["-c", script]);
    let spec = spec.env("TOKEN", "hunter2").build().unwrap();
    let mut server = launch(&launcher, &spec).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("hunter2 $(TOKEN)"));
    let pods = ns.kubectl(&["get", "pods", "-o", "json"]);
    assert!(
        !pods.contains("hunter2") && pods.contains("secretRef"),
        "{pods}"
    );
    let name = server.pod();
    eventually("the secret is removed", || {
        !ns.names("secrets")
            .iter()
            .any(|secret| secret.ends_with(&name))
    })
    .await;
    server.end().await.unwrap();
}

#[tokio::test]
async fn a_pod_has_what_its_options_say_and_safe_defaults() {
    let ns = Namespace::new("options");
    let options = options()
        .limit("memory", "64Mi")
        .label("team", "a")
        .read_only_root(true);
    let server = launch(&ns.launcher(), &spec(options, "id; touch /x; cat")).await;
    let mut server = server.unwrap();
    let line = server.line().await.unwrap();
    assert!(line.contains("uid=65534"), "{line}");
    let error = server.stderr.next_line().await.unwrap().unwrap();
    assert!(error.contains("Read-only"), "{error}");
    let pod = ns.kubectl(&["get", "pods", "-l", "team=a", "-o", "json"]);
    let pod: serde_json::Value = serde_json::from_str(&pod).unwrap();
    let pod = &pod["items"][0]["spec"];
    assert_eq!(
        pod["containers"][0]["resources"]["limits"]["memory"],
        "64Mi"
    );
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["restartPolicy"], "Never");
    server.end().await.unwrap();
}

/// Launches until something is told that has these words in it.
async fn told_of(ns: &Namespace, options: PodOptions, words: &str) {
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let context = LaunchContext::new().with_progress(move |progress| {
        let _ = sender.send(progress.to_string());
    });
    let (launcher, spec) = (ns.launcher(), spec(options, POLITE));
    let launched = launcher.launch(&spec, &context);
    let found = async {
        let mut all = Vec::new();
        while let Some(line) = told.recv().await {
            all.push(line);
            if all.last().is_some_and(|line| line.contains(words)) {
                return;
            }
        }
        panic!("{all:?}");
    };
    let found = tokio::time::timeout(LIMIT, found);
    tokio::select! {
        launched = launched => panic!("{launched:?}"),
        found = found => found.expect("nothing is told"),
    }
}

#[tokio::test]
async fn what_a_launch_waits_for_is_told() {
    let ns = Namespace::new("waits");
    // A registry that does not answer.
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/image:1", registry.local_addr().unwrap());
    told_of(
        &ns,
        options().image(&image),
        &format!("Pulling: Pulling image \"{image}\""),
    )
    .await;
    drop(registry);
    let mount = json!({"name": "v", "mountPath": "/v"});
    let mounts = options().pod(json!({"spec": {
        "volumes": [{"name": "v", "secret": {"secretName": "no-such"}}],
        "containers": [{"name": "server", "volumeMounts": [mount]}],
    }}));
    told_of(&ns, mounts, "FailedMount: MountVolume.SetUp failed").await;
    eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
}

#[tokio::test]
async fn what_all_launches_need_is_there_before_the_first() {
    let ns = Namespace::new("prepared");
    let (launcher, spec) = (ns.launcher(), spec(options(), POLITE));
    launcher
        .prepare(&spec, &LaunchContext::new())
        .await
        .unwrap();
    let maps = ns.names("configmaps");
    assert!(
        maps.iter().any(|map| map.contains("/mcp-init-")),
        "{maps:?}"
    );
    assert!(ns.names("pods,leases").is_empty());
}

#[tokio::test]
async fn twenty_servers_at_once_have_one_watch_and_one_lease() {
    let ns = Namespace::new("twenty");
    let launcher = ns.launcher();
    let spec = spec(options(), POLITE);
    let launches = (0..20).map(|_| launch(&launcher, &spec));
    let servers = futures_util::future::join_all(launches).await;
    let mut servers: Vec<_> = servers.into_iter().map(Result::unwrap).collect();
    assert_eq!(ns.names("leases").len(), 1);
    for server in &mut servers {
        assert_eq!(server.line().await.as_deref(), Some("ready"));
    }
    let ends = servers.iter().map(|server| server.end());
    for end in futures_util::future::join_all(ends).await {
        end.unwrap();
    }
    assert!(ns.names("pods,leases").is_empty());
}
