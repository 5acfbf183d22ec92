//! Answers of the API server that do not come, or that refuse.

use std::time::{Duration, Instant};

use crate::errors::as_user;
use crate::proxy::{Fault, Proxy};
use crate::support::{Namespace, POLITE, SOON, eventually, launch, options, plain, spec};
use mcp_launcher_kubernetes::KubernetesLauncher;
use serde_json::json;

/// The pod is there, its creation is not known, and the next try is refused: by the quota that
/// it has used up itself. Nor is it seen at first, for the watch is silent. Another server keeps
/// the Lease, without which the garbage collector would see to it.
#[tokio::test]
async fn a_pod_whose_creation_nobody_heard_of_is_ended() {
    let ns = Namespace::new("lost-create");
    ns.kubectl(&["create", "quota", "q", "--hard=pods=2"]);
    eventually("the quota holds", || {
        ns.kubectl(&["get", "quota", "q", "-o", "json"])
            .contains("\"used\"")
    })
    .await;
    let pods = "/api/v1/namespaces/lost-create/pods";
    let proxy = Proxy::start(Vec::new());
    let launcher = proxy.launcher(&ns.0);
    let mut other = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(other.line().await.as_deref(), Some("ready"));
    proxy.deafen();
    proxy.add(Fault::AnswerLost(format!("POST {pods} ")));
    // Without an init it runs, and nobody's end of input ends it.
    let script = spec(plain(), "trap '' TERM; while :; do sleep 1; done");
    let launched = launch(&launcher, &script).await;
    let text = launched.err().expect("a launch that fails").to_string();
    assert!(text.contains("quota"), "{text}");
    assert!(proxy.is_done());
    assert_eq!(ns.names("pods").len(), 2, "it was created");
    proxy.hear();
    eventually("it is ended", || ns.names("pods").len() == 1).await;
    other.end().await.unwrap();
    assert!(ns.names("pods,leases").is_empty());
}

#[tokio::test]
async fn a_renewal_that_hangs_does_not_cost_the_lease() {
    let ns = Namespace::new("hung-renewal");
    let proxy = Proxy::start(Vec::new());
    let launcher = proxy.launcher(&ns.0);
    let mut server = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    let renewed = || {
        let path = "jsonpath={.items[0].spec.renewTime}";
        ns.kubectl(&["get", "leases", "-o", path])
    };
    proxy.add(Fault::Silence(
        "PATCH /apis/coordination.k8s.io/v1/namespaces/hung-renewal/leases/".to_owned(),
    ));
    eventually("a renewal hangs", || proxy.is_done()).await;
    let (before, hung) = (renewed(), Instant::now());
    eventually("the next one is made", || renewed() != before).await;
    // A Lease is good for 40 s, and was renewed 10 s before.
    let late = hung.elapsed();
    assert!(late < Duration::from_secs(20), "{late:?}");
    server.end().await.unwrap();
}

/// The deletion is refused for ever; that somebody else carries it out is learned all the same.
#[tokio::test]
async fn an_end_that_is_refused_sees_what_others_do() {
    let ns = Namespace::new("refused-end");
    let all = json!(["create", "get", "list", "watch", "delete", "patch"]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
    "metadata": {"name": "less"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/attach", "configmaps"], "verbs": all},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": all}]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), role.to_string()).unwrap();
    ns.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
    let user = ["--role=less", "--user=somebody"];
    ns.kubectl(&[&["create", "rolebinding", "somebody"], &user[..]].concat());
    let config = as_user("somebody");
    let launcher = KubernetesLauncher::builder().namespace(&ns.0);
    let launcher = launcher.kubeconfig(config.path()).build().unwrap();
    let server = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    let text = server.end_within(SOON).await.unwrap_err();
    assert!(text.contains("no right to delete pods"), "{text}");
    ns.kubectl(&["delete", "pods", "--all"]);
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    eventually("the Lease goes", || ns.names("leases").is_empty()).await;
}
