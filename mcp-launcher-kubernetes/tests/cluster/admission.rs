//! Admission webhooks: real ones, which this test serves and the API server asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::support::{Namespace, POLITE, eventually, kubectl, launch, options, spec};

/// The answer to a pod that is to be created: a refusal, or changes as a JSON patch.
type Verdict = fn() -> Result<Value, &'static str>;

/// The webhook of one namespace, until the end of the test.
struct Webhook {
    kind: &'static str,
    name: String,
}

impl Webhook {
    fn new(ns: &Namespace, kind: &'static str, verdict: Verdict) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || serve(&listener, verdict));
        let name = format!("{}.example.org", ns.0);
        let ca = BASE64_STANDARD.encode(std::fs::read(pki("ca.crt")).unwrap());
        let hook = json!({"name": name, "clientConfig": {"url": url, "caBundle": ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"webhook": ns.0}}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail"});
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": ns.0}, "webhooks": [hook]});
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        kubectl(&["label", "namespace", &ns.0, &format!("webhook={}", ns.0)]);
        kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
        Self {
            kind,
            name: ns.0.clone(),
        }
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kubectl")
            .args(["delete", self.kind, &self.name])
            .status();
    }
}

/// A file of the cluster's, whose API server has a certificate for 127.0.0.1.
fn pki(name: &str) -> String {
    let script = std::env::var("MCP_TEST_CLUSTER").unwrap();
    let directory = script.split(' ').nth(1).unwrap();
    format!("{directory}/run/pki/{name}")
}

fn serve(listener: &TcpListener, verdict: Verdict) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let chain = CertificateDer::pem_file_iter(pki("apiserver.crt")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki("apiserver.key")).unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let config = Arc::new(config.unwrap());
    for client in listener.incoming() {
        let tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = BufReader::new(rustls::StreamOwned::new(tls, client.unwrap()));
        let mut length = 0;
        loop {
            let mut line = String::new();
            match stream.read_line(&mut line) {
                Ok(1..) if !line.trim().is_empty() => {}
                _ => break,
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut answer = json!({"uid": review["request"]["uid"], "allowed": true});
        match verdict() {
            Ok(patch) => {
                answer["patchType"] = "JSONPatch".into();
                answer["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
            }
            Err(words) => {
                answer["allowed"] = false.into();
                answer["status"] = json!({ "message": words });
            }
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer});
        let body = review.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = stream.get_mut();
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

/// Launches once the API server has heard of the webhook, which takes a moment.
async fn refusal(ns: &Namespace) -> String {
    let mut text = String::new();
    for _ in 0..20 {
        match launch(&ns.launcher(), &spec(options(), POLITE)).await {
            Ok(server) => {
                server.end().await.unwrap();
            }
            Err(error) => {
                text = error.to_string();
                break;
            }
        }
    }
    eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
    text
}

#[tokio::test]
async fn what_a_webhook_refuses_is_told_in_its_words() {
    let ns = Namespace::new("webhook-refuses");
    let _hook = Webhook::new(&ns, "ValidatingWebhookConfiguration", || {
        Err("no pods on a Sunday")
    });
    let text = refusal(&ns).await;
    assert!(text.contains("does not admit the pods"), "{text}");
    assert!(text.contains("no pods on a Sunday"), "{text}");
}

#[tokio::test]
async fn what_a_webhook_changes_of_a_lifecycle_is_named_and_nothing_is_left() {
    let ns = Namespace::new("webhook-changes");
    let _hook = Webhook::new(&ns, "MutatingWebhookConfiguration", || {
        let wrapper = "/bin/env";
        Ok(json!([{"op": "add", "path": "/spec/containers/0/command/0", "value": wrapper}]))
    });
    let text = refusal(&ns).await;
    let named = "has changed the pod's command of container server";
    assert!(text.contains(named), "{text}");
}

#[tokio::test]
async fn what_a_webhook_adds_is_in_nobodys_way() {
    let ns = Namespace::new("webhook-adds");
    let _hook = Webhook::new(&ns, "MutatingWebhookConfiguration", || {
        Ok(json!([
            {"op": "add", "path": "/metadata/labels/added", "value": "yes"},
            {"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "ADDED", "value": "1"}]},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "beside", "image": "localhost/mcp-fixture:1",
                "imagePullPolicy": "Never", "command": ["sleep", "1000"], "securityContext": {"runAsUser": 65534}}},
        ]))
    });
    let probe = [
        "-n",
        &ns.0,
        "run",
        "probe",
        "--image=i",
        "--dry-run=server",
        "-o",
        "json",
    ];
    eventually("it is asked", || kubectl(&probe).contains("\"added\"")).await;
    let script = "echo $ADDED; cat";
    let mut server = launch(&ns.launcher(), &spec(options(), script))
        .await
        .unwrap();
    assert_eq!(server.line().await.as_deref(), Some("1"));
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    assert!(ns.names("pods,leases").is_empty());
}
