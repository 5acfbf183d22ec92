//! The wire, word by word: what a client of codex's asks for and gets.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_restriction_that_is_not_enforced_is_refused_and_nothing_runs() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    let dir = tempfile::tempdir().unwrap();
    let witness = dir.path().join("ran");
    let script = format!("echo ran > {}", witness.display());
    let profile = json!({"permissions": {"type": "managed", "network": "restricted"}});
    let asked: [(&str, Value); 14] = [
        ("sandbox", profile),
        ("sandbox", json!({})),
        ("sandbox", json!(5)),
        ("sandbox", json!(false)),
        ("managedNetwork", json!({"a": 1})),
        ("managedNetwork", json!("x")),
        ("networkProxy", json!({})),
        ("networkProxy", json!(7)),
        ("enforceManagedNetwork", json!(true)),
        ("enforceManagedNetwork", json!("x")),
        ("shellSnapshot", json!({"scopeId": "s"})),
        ("metadata", json!(7)),
        ("seccompProfile", json!("strict")),
        ("readOnly", json!(true)),
    ];
    for (number, (field, value)) in asked.into_iter().enumerate() {
        let mut params = start(&format!("p{number}"), &["/bin/sh", "-c", &script]);
        params[field] = value.clone();
        let refused = client.request("process/start", params).await;
        let error = refused.expect_err(&format!("{field}: {value} was accepted"));
        assert_eq!(error["code"], -32602, "{field}: {value}: {error}");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains(field), "{text}");
    }
    // Of the policy for variables as well.
    let mut params = start("policy", &["/bin/sh", "-c", &script]);
    params["envPolicy"] = json!({"inherit": "core", "maskCredentials": true});
    let error = client.request("process/start", params).await.unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    assert!(!witness.exists(), "the command ran");

    // What asks for nothing is as good as absent.
    let mut params = start("plain", &["/bin/sh", "-c", &script]);
    for field in [
        "sandbox",
        "managedNetwork",
        "networkProxy",
        "shellSnapshot",
        "newer",
    ] {
        params[field] = Value::Null;
    }
    params["enforceManagedNetwork"] = json!(false);
    params["metadata"] = json!({"threadId": "t"});
    client.request("process/start", params).await.unwrap();
    client.notification("process/closed").await;
    assert!(witness.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_told_so_as_codex_does() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    for text in [
        r#"{"id":null,"method":"environment/status","params":{}}"#,
        r#"{"id":1}"#,
        r#"{"method":null,"params":{}}"#,
        r#"{"id":1.5,"method":"environment/status"}"#,
    ] {
        client.text(text.to_owned()).await;
        let error = client.answer(-1).await.expect_err(text);
        assert_eq!(error["code"], -32600, "{text}: {error}");
    }
    for (method, params) in [
        ("process/terminate", json!(["p"])),
        ("process/read", json!(["p", 0, 0, 0])),
        ("process/start", json!(["p", ["/bin/true"], "/"])),
    ] {
        let error = client.request(method, params).await.expect_err(method);
        assert_eq!(error["code"], -32602, "{method}: {error}");
        assert!(error.to_string().contains("a list"), "{error}");
    }
    let interrupt = json!({"processId": "p", "signal": "interrupt"});
    let refused = client.request("process/signal", interrupt).await;
    assert_eq!(refused.unwrap_err()["code"], -32602);
    // It goes on.
    client
        .request("environment/status", json!({}))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_has_every_field_that_codex_s_client_reads() {
    let peer = daemon(&[]).await;
    let (mut client, hello) = Raw::open(&peer.url).await;
    let info = client.request("environment/info", json!({})).await.unwrap();
    assert_eq!(info, hello["environmentInfo"]);
    let shell = info["shell"]["path"].as_str().unwrap();
    assert!(std::path::Path::new(shell).is_file(), "{shell}");
    let name = std::path::Path::new(shell).file_name().unwrap();
    assert_eq!(info["shell"]["name"], name.to_str().unwrap());
    for directory in ["cwd", "userHomeDir", "tempDir"] {
        let uri = info[directory].as_str().unwrap();
        assert!(uri.starts_with("file:///"), "{directory}: {uri}");
    }
    assert_eq!(info["platformOs"], std::env::consts::OS);
    assert_eq!(info["capabilities"], json!({}), "it promises nothing");
    let status = client.request("environment/status", json!({})).await;
    assert_eq!(status.unwrap(), json!({"status": "ready"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_fields_of_a_process_are_those_of_codex() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    let params = start("a", &["/bin/sh", "-c", "echo hi; read line; exit 3"]);
    let started = client.request("process/start", params).await.unwrap();
    assert_eq!(started, json!({"processId": "a", "sandboxType": "none"}));
    // Its exit comes after that.
    assert_eq!(output(&mut client).await, "hi\n");
    let write = json!({"processId": "a", "chunk": "Cg==", "writeId": "w"});
    client.request("process/write", write).await.unwrap();
    let exited = client.notification("process/exited").await;
    assert_eq!(exited["exitCode"], 3);
    assert_eq!(exited["sandboxDenied"], false);
    client.notification("process/closed").await;
    let all = json!({"processId": "a", "afterSeq": null, "maxBytes": null, "waitMs": null});
    let read = client.request("process/read", all).await.unwrap();
    assert_eq!(
        (&read["nextSeq"], &read["sandboxDenied"], &read["closed"]),
        (&json!(4), &json!(false), &json!(true)),
        "{read}"
    );
    assert!(read["failure"].is_null());
    // An answer that its bound has cut short goes on from its last piece.
    let cut = json!({"processId": "a", "afterSeq": 0, "maxBytes": 1});
    let read = client.request("process/read", cut).await.unwrap();
    assert_eq!(
        (&read["chunks"][0]["seq"], &read["nextSeq"]),
        (&json!(1), &json!(2))
    );
}

async fn output(client: &mut Raw) -> String {
    use base64::Engine as _;
    let chunk = client.notification("process/output").await["chunk"].clone();
    let bytes = base64::engine::general_purpose::STANDARD.decode(chunk.as_str().unwrap());
    String::from_utf8(bytes.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_served_is_refused_by_name() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    let file = |path: &str| json!({"path": path, "sandbox": null});
    let found = client.request("fs/getMetadata", file("file:///")).await;
    let found = found.unwrap();
    assert_eq!(
        (&found["isDirectory"], &found["isFile"], &found["isSymlink"]),
        (&json!(true), &json!(false), &json!(false)),
    );
    let error = client.request("fs/getMetadata", file("file:///no/such"));
    assert_eq!(error.await.unwrap_err()["code"], -32004);
    let confined = json!({"path": "file:///", "sandbox": {}});
    let error = client.request("fs/getMetadata", confined).await;
    assert_eq!(error.unwrap_err()["code"], -32602);
    for method in [
        "fs/readFile",
        "fs/writeFile",
        "http/request",
        "environmentConfig/read",
    ] {
        let error = client.request(method, json!({})).await.unwrap_err();
        assert_eq!(error["code"], -32601, "{method}: {error}");
        assert!(error["message"].as_str().unwrap().contains(method));
    }
    let mut terminal = start("t", &["/bin/true"]);
    terminal["tty"] = json!(true);
    let mut renamed = start("r", &["/bin/true"]);
    renamed["arg0"] = json!("other");
    for params in [terminal, renamed] {
        let error = client.request("process/start", params).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_was_given_up_answers_for_no_other_of_its_name() {
    let peer = daemon(&[]).await;
    let (mut client, _) = Raw::open(&peer.url).await;
    for round in 0..300 {
        let name = format!("p{round}");
        let given_up = start(&name, &["/no/such/program"]);
        let given_up = client.send("process/start", given_up).await;
        let end = json!({"processId": name});
        let end = client.send("process/terminate", end).await;
        let other = start(&name, &["/bin/true"]);
        let other = client.send("process/start", other).await;
        client.answer(given_up).await.unwrap_err();
        client.answer(end).await.unwrap();
        let started = client.answer(other).await;
        assert!(started.is_ok(), "round {round}: {started:?}");
        client.notification("process/closed").await;
    }
}

/// It waits for company, but not until the next sign of life, which is ten seconds off.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_single_write_waits_for_no_other() {
    let peer = daemon(&[]).await;
    let lifecycle = json!({"extensions": {"mcpLifecycle": {"version": 1}}, "clientName": "one"});
    let (mut client, _) = Raw::open_with(&peer.url, lifecycle).await;
    let started = start("quiet", &["/bin/sleep", "1000"]);
    client.request("process/start", started).await.unwrap();
    for number in 0..3 {
        let write = json!({"processId": "quiet", "chunk": "eA==", "writeId": number.to_string()});
        let answer = client.request("process/write", write);
        let answer = tokio::time::timeout(Duration::from_secs(9), answer).await;
        assert_eq!(answer.expect("it came").unwrap()["status"], "accepted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_two_clients_that_have_one_name_are_two() {
    let peer = daemon(&[]).await;
    let (mut one, _) = Raw::open(&peer.url).await;
    let (mut other, _) = Raw::open(&peer.url).await;
    for client in [&mut one, &mut other] {
        let started = start("same", &["/bin/cat"]);
        client.request("process/start", started).await.unwrap();
    }
    let write = |chunk| json!({"processId": "same", "chunk": chunk, "writeId": "w"});
    one.request("process/write", write("b25l")).await.unwrap();
    other
        .request("process/write", write("b3RoZXI="))
        .await
        .unwrap();
    assert_eq!(output(&mut one).await, "one");
    assert_eq!(output(&mut other).await, "other");
    let same = json!({"processId": "same"});
    one.request("process/terminate", same).await.unwrap();
    one.notification("process/closed").await;
    // The other one lives, under the name that the first may take again.
    let mut again = write("b3RoZXI=");
    again["writeId"] = json!("w2");
    other.request("process/write", again).await.unwrap();
    assert_eq!(output(&mut other).await, "other");
}
