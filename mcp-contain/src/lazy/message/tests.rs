use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |it| it.is_finite())
            .prop_map(Value::from),
        r#"[a-z"\\{}\[\]:,\n\u{0}\u{e9}\u{1f600}]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            objects(inner).prop_map(Value::from),
        ]
    })
}

fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let keys = prop_oneof![
        Just("id"),
        Just("method"),
        Just("params"),
        Just("result"),
        Just("error"),
        Just("jsonrpc"),
        Just("nextCursor"),
        Just("task"),
        Just("resultType"),
        Just("a\"b\\"),
        Just(""),
    ];
    prop::collection::vec((keys.prop_map(str::to_owned), inner), 0..7)
        .prop_map(|members| members.into_iter().collect())
}

/// Every character of every string that may be escaped is, and there is white space everywhere.
fn loose(value: &Value) -> String {
    let string = |text: &str| {
        let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
        format!("\"{}\"", units.collect::<String>())
    };
    match value {
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(loose).collect();
            format!("[ {}\t]", items.join(" , "))
        }
        Value::Object(members) => {
            let members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{} : {}", string(key), loose(value)))
                .collect();
            format!("{{\t{} }}", members.join(" ,  "))
        }
        other => other.to_string(),
    }
}

fn read(text: Option<&[u8]>) -> Option<Value> {
    text.map(|text| serde_json::from_slice(text).expect("a value"))
}

/// The message by a tree, for the scan to agree with.
fn agrees(line: &str, tree: &Value) {
    let message = Message::of(line.as_bytes());
    let Value::Object(members) = tree else {
        let expected = if tree.is_array() {
            Message::Batch
        } else {
            Message::Other
        };
        assert_eq!(message, expected, "{line}");
        return;
    };
    let [id, method, params, result, error] =
        ["id", "method", "params", "result", "error"].map(|key| members.get(key).cloned());
    match message {
        Message::Request {
            id: i,
            method: m,
            params: p,
        } => {
            assert_eq!(
                (read(Some(i)), read(Some(m)), read(p)),
                (id, method, params),
                "{line}"
            );
        }
        Message::Notification {
            method: m,
            params: p,
        } => {
            assert_eq!(
                (None, read(Some(m)), read(p)),
                (id, method, params),
                "{line}"
            );
        }
        Message::Response { id: i, answer } => {
            assert_eq!((read(Some(i)), None), (id, method), "{line}");
            let text = read(Some(answer.text));
            assert!(text == result || text == error, "{line}");
            if !answer.is_error && error.is_none() {
                let result = result.unwrap_or_default();
                let next = result.get("nextCursor").is_some_and(|it| !it.is_null());
                assert_eq!(answer.has_next, next, "{line}");
            }
        }
        Message::Other => {
            let is_answer = id.is_some() && (result.is_some() || error.is_some());
            assert!(method.is_none() && !is_answer, "{line}");
        }
        Message::Batch | Message::Blank => panic!("{line}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_scan_sees_what_a_parser_sees(tree in prop_oneof![objects(values()).prop_map(Value::from), values()]) {
        // Read again, for the parser rounds some numbers otherwise.
        let text = tree.to_string();
        agrees(&text, &serde_json::from_str(&text).unwrap());
        // Escapes of a method and white space make no difference.
        let text = loose(&tree);
        agrees(&text, &serde_json::from_str(&text).unwrap());
    }

    #[test]
    fn no_line_is_too_strange(line in prop::collection::vec(any::<u8>(), 0..80), tree in values(), cut in 0_usize..200) {
        Message::of(&line);
        let text = tree.to_string();
        Message::of(&text.as_bytes()[..cut.min(text.len())]);
    }

    #[test]
    fn a_line_that_is_cut_off_is_no_message(tree in objects(values()), cut in 1_usize..400) {
        let text = Value::from(tree).to_string();
        let cut = cut.min(text.len());
        let message = Message::of(&text.as_bytes()[..text.len() - cut]);
        prop_assert!(matches!(message, Message::Other | Message::Blank));
    }
}

#[test]
fn what_a_result_says_of_itself() {
    let of = |result: Value| {
        let line = json!({"id": 1, "result": result}).to_string();
        let Message::Response { answer, .. } = Message::of(line.as_bytes()) else {
            panic!("{line}")
        };
        (answer.has_next, answer.is_task)
    };
    assert_eq!(of(json!({"tools": [], "nextCursor": "x"})), (true, false));
    assert_eq!(
        of(json!({"tools": [{"nextCursor": "x", "task": {}}], "nextCursor": null})),
        (false, false)
    );
    assert_eq!(of(json!({"task": {"taskId": "1"}})), (false, true));
    assert_eq!(of(json!({"resultType": "task"})), (false, true));
    assert_eq!(
        of(json!({"resultType": "complete", "task": null})),
        (false, false)
    );
    assert_eq!(of(json!(7)), (false, false));
}

#[test]
fn ids_are_equal_where_they_say_the_same() {
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        (r#""aé""#, r#""aé""#),
        ("100", "1e2"),
    ] {
        assert_eq!(Id::of(one.as_bytes()), Id::of(other.as_bytes()), "{one}");
    }
    for (one, other) in [
        ("1", r#""1""#),
        ("1", "1.5"),
        ("null", r#""null""#),
        ("12345678901234567", "12345678901234568"),
    ] {
        assert_ne!(Id::of(one.as_bytes()), Id::of(other.as_bytes()), "{one}");
    }
}

#[test]
fn lines_as_they_come() {
    let request = Message::of(b"\xef\xbb\xbf{\"id\":1,\"method\":\"ping\"}\r");
    assert!(matches!(
        request,
        Message::Request {
            id: b"1",
            method: b"\"ping\"",
            params: None
        }
    ));
    assert_eq!(Message::of(b" \r"), Message::Blank);
    assert_eq!(Message::of(b" [{}]"), Message::Batch);
    assert_eq!(Message::of(b"{} {}"), Message::Other);
    assert_eq!(unquoted(br#""tools\/list""#).as_ref(), b"tools/list");
}
