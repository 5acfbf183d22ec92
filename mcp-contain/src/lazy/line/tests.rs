use proptest::prelude::*;
use serde_json::json;

use super::*;

fn host(line: &str) -> FromHost {
    of_host(line.as_bytes(), None, None)
}

fn request(line: &str) -> Request {
    match host(line) {
        FromHost::Request(request) => request,
        other => panic!("{line}: {other:?}"),
    }
}

/// The response that holds this result.
fn response(result: &str, is_of_interest: bool) -> Response {
    let line = format!("{{\"id\":7,\"result\":{result}}}\n");
    match of_server(line.as_bytes(), |_| is_of_interest) {
        FromServer::Response(response) => response,
        other => panic!("{line}: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_bytes_are_accepted(line in prop::collection::vec(any::<u8>(), 0..80)) {
        of_host(&line, None, None);
        of_server(&line, |_| true);
    }

    #[test]
    fn a_truncated_line_is_no_message(text in r#"[a-z"\\{}\[\]:,\n\u{0}\u{e9}]{0,12}"#, cut in 1_usize..200) {
        let line = json!({"id": text, "method": text, "params": {"a": [text]}}).to_string();
        let line = &line.as_bytes()[..line.len() - cut.min(line.len())];
        let (host, server) = (of_host(line, None, None), of_server(line, |_| true));
        prop_assert!(matches!(host, FromHost::Other | FromHost::Notification));
        prop_assert!(matches!(server, FromServer::Other));
    }
}

#[test]
fn requests_are_known_by_their_method() {
    let list = request(r#"{"id":1,"method":"tools\/list"}"#);
    assert_eq!(list.method, Method::List("tools"));
    assert!(list.key.is_some() && !list.is_modern);
    for (line, expected) in [
        (
            r#"{"id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
            Method::Other,
        ),
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"x","task":{}}}"#,
            Method::Lasting,
        ),
        (r#"{"id":1,"method":"subscriptions/listen"}"#, Method::Other),
        (
            r#"{"id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
            Method::Lasting,
        ),
        (
            r#"{"id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#,
            Method::SetLevel { is_valid: false },
        ),
    ] {
        let request = request(line);
        assert_eq!((request.method, request.key), (expected, None), "{line}");
    }
    let line = r#"{"id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    assert!(request(line).is_modern);
}

#[test]
fn handshakes_and_lists_have_a_key() {
    for (method, expected) in [
        ("initialize", Method::Initialize),
        ("server/discover", Method::Discover),
        ("tools/list", Method::List("tools")),
        ("prompts/list", Method::List("prompts")),
        ("resources/list", Method::List("resources")),
        ("resources/templates/list", Method::List("resources")),
    ] {
        let line = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{{}}}}");
        let first = request(&line);
        assert_eq!(first.method, expected, "{method}");
        let handshake = first.key.expect(method);
        let FromHost::Request(second) = of_host(line.as_bytes(), Some(&handshake), None) else {
            panic!("{method}")
        };
        // A list is that of a session.
        let is_list = matches!(expected, Method::List(_));
        assert_eq!(second.key == Some(handshake), !is_list, "{method}");
        let page = line.replace("{}}", "{\"cursor\":\"x\"}}");
        let is_kept = request(&page).method == expected;
        assert_eq!(is_kept, !is_list, "{method}");
    }
    let plain = request(r#"{"id":1,"method":"ping"}"#);
    assert_eq!((plain.method, plain.key), (Method::Ping, None));
    let line = r#"{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#;
    assert_eq!(request(line).method, Method::SetLevel { is_valid: true });
}

#[test]
fn a_line_without_a_part_is_another() {
    for (line, expected) in [
        (r#"{"method":"notifications/initialized"}"#, "Initialized"),
        (r#"{"method":"notifications/other"}"#, "Notification"),
        (r#"{"id":1,"method":"ping","result":{}}"#, "Request("),
        (
            r#"{"id":1,"method":"notifications/initialized"}"#,
            "Request(",
        ),
        (r#"{"id":1,"result":{}}"#, "Response("),
        (r#"{"result":{}}"#, "Other"),
        ("{}", "Other"),
    ] {
        let kind = format!("{:?}", host(line));
        assert!(kind.starts_with(expected), "{line}: {kind}");
    }
    for (line, expected) in [
        (r#"{"id":1,"method":"ping","result":{}}"#, "Request("),
        (r#"{"method":"notifications/progress"}"#, "Progress"),
        (r#"{"method":"notifications/cancelled"}"#, "Other"),
        (r#"{"method":"notifications/other"}"#, "Other"),
        (r#"{"id":1}"#, "Other"),
        (r#"{"result":{}}"#, "Other"),
        ("{}", "Other"),
    ] {
        let kind = format!("{:?}", of_server(line.as_bytes(), |_| true));
        assert!(kind.starts_with(expected), "{line}: {kind}");
    }
    assert!(!response("{}", false).is_error);
}

#[test]
fn lines_are_of_their_kind() {
    let bom = request("\u{feff}{\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!((&*bom.text, bom.method), (&b"1"[..], Method::Ping));
    assert!(matches!(host(" \r\n"), FromHost::Notification));
    assert!(matches!(host(" [{}]"), FromHost::Batch));
    assert!(matches!(host("{} {}"), FromHost::Other));
    assert!(matches!(host(r#"{"id":1}"#), FromHost::Other));
    let answered = host(r#"{"id":7,"error":{}}"#);
    assert!(matches!(answered, FromHost::Response(id) if id == Id::of("7")));
    let line = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert!(matches!(host(line), FromHost::Cancelled(id) if id == Id::of("7")));
    let server = of_server(line.as_bytes(), |_| false);
    assert!(matches!(server, FromServer::Cancelled(id) if id == Id::of("7")));
    let line = r#"{"method":"notifications/cancelled"}"#;
    assert!(matches!(host(line), FromHost::Notification));
}

#[test]
fn only_members_of_the_result_itself_count() {
    let of = |result: &str| {
        let response = response(result, false);
        (response.has_next, response.is_task)
    };
    assert_eq!(of(r#"{"tools":[],"nextCursor":"x"}"#), (true, false));
    let inner = r#"{"tools":[{"nextCursor":"x","task":{}}],"nextCursor":null}"#;
    assert_eq!(of(inner), (false, false));
    assert_eq!(of(r#"{"task":{"taskId":"1"}}"#), (false, true));
    assert_eq!(of(r#"{"resultType":"task"}"#), (false, true));
    assert_eq!(
        of(r#"{"resultType":"complete","task":null}"#),
        (false, false)
    );
    assert_eq!(of("7"), (false, false));
}

#[test]
fn an_answer_of_interest_is_kept_as_written() {
    let result = r#"{ "protocolVersion":"2025-11-25", "capabilities": {"logging":{}}}"#;
    assert_eq!(response(result, false).answer, None);
    let kept = response(result, true).answer.unwrap();
    assert_eq!(kept.version.as_deref(), Some("\"2025-11-25\""));
    assert!(kept.has_logging);
    assert_eq!(*kept.text, *format!("{{\"result\":{result}}}").as_bytes());
    assert_eq!(answer(kept.text.clone()), Some(kept));
    let line = br#"{"id":1,"error":{"code":-32601,"message":"no"}}"#;
    let FromServer::Response(refused) = of_server(line, |_| true) else {
        panic!()
    };
    assert!(refused.is_error);
    let error = refused.answer.and_then(|answer| answer.error);
    assert_eq!(error, Some((-32601, "no".to_owned())));
    for strange in ["", "[]", "{}", "{\"result\":", "\u{0}"] {
        assert_eq!(answer(strange.as_bytes().into()), None, "{strange}");
    }
}

#[test]
fn ids_are_compared_by_value() {
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        (r#""a\u00e9""#, r#""aé""#),
        ("100", "1e2"),
    ] {
        assert_eq!(Id::of(one), Id::of(other), "{one}");
    }
    for (one, other) in [
        ("1", r#""1""#),
        ("1", "1.5"),
        ("2", "1.5"),
        ("2", "2.5"),
        ("18446744073709551615", "18446744073709551614"),
        ("null", r#""null""#),
        ("12345678901234567", "12345678901234568"),
    ] {
        assert_ne!(Id::of(one), Id::of(other), "{one}");
    }
}
