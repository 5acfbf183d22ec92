use super::{Line, Text};

fn line(fill: impl FnOnce(&mut Line)) -> String {
    let mut line = Line::new();
    fill(&mut line);
    String::from_utf8(line.bytes().to_vec()).unwrap()
}

#[test]
fn a_text_is_cut_where_there_is_no_room() {
    let mut path = Text::<8>::new();
    path.number(4_711).then("/stat");
    assert_eq!(path.bytes(), b"4711/st");
    assert_eq!(path.c_str(), c"4711/st");
}

#[test]
fn numbers_and_times_are_json() {
    let text = line(|line| {
        line.then("{\"a\":").number(0).key("b").number(u64::MAX);
        line.key("c").milliseconds(1_700_000_000_042);
        line.then("}");
    });
    assert_eq!(
        text,
        r#"{"a":0,"b":18446744073709551615,"c":1700000000042e-3}"#
    );
}

#[test]
fn foreign_text_is_escaped_and_does_not_control_a_terminal() {
    let text = line(|line| {
        line.string("ü\"\\\n\t\u{1b}[2J\u{9b}".as_bytes());
        line.string(b"a\xff\xfeb");
    });
    assert_eq!(
        text,
        "\"ü\\\"\\\\\\n\\t\u{fffd}[2J\u{fffd}\"\"a\u{fffd}\u{fffd}b\""
    );
}

#[test]
fn a_line_is_whole_whatever_it_has_to_hold() {
    for text in [&b"\""[..], b"\xff", "\u{10ffff}".as_bytes(), b"x", b""] {
        let long = text.repeat(5_000);
        let line = line(|line| {
            line.then("{\"a\":").string(&long).key("b").string(&long);
            line.key("c").list([&*long; 5_000].into_iter()).then("}");
        });
        assert!(line.ends_with("]}") && line.contains("\"b\":"), "{line}");
    }
}
