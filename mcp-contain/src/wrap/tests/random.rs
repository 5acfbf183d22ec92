//! Random files, there and back.

use proptest::prelude::*;

use super::*;

/// White space and comments of every kind.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ \t]{0,3}",
        Just("\n    ".to_owned()),
        Just("\r\n\t".to_owned()),
        Just(" /* , \"args\": [ */ ".to_owned()),
        Just(" // ]}\n".to_owned()),
    ]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z@/.-]{1,8}".prop_map(|text| serde_json::Value::from(text).to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        Just("\"\\u006epx\"".to_owned()),
        Just("\"mcp-contain\"".to_owned()),
        Just("\"--\"".to_owned()),
        Just("\"run\"".to_owned()),
        Just("\"--grace\"".to_owned()),
    ]
}

fn list() -> impl Strategy<Value = String> {
    let elements = proptest::collection::vec((gap(), string(), gap()), 0..4);
    (elements, any::<bool>(), gap()).prop_map(|(elements, trailing, end)| {
        let comma = if trailing && !elements.is_empty() {
            ","
        } else {
            ""
        };
        let elements: Vec<_> = elements
            .iter()
            .map(|(a, text, b)| format!("{a}{text}{b}"))
            .collect();
        format!("[{}{comma}{end}]", elements.join(","))
    })
}

fn property() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => string().prop_map(|text| format!("\"command\": {text}")),
        4 => list().prop_map(|list| format!("\"args\":{list}")),
        2 => list().prop_map(|list| format!("\"command\": {list}")),
        1 => string().prop_map(|text| format!("\"url\": {text}")),
        1 => string().prop_map(|text| format!("\"env\": {{\"A\": {text}}}")),
        1 => Just("\"command\": {\"path\": \"x\"}".to_owned()),
        1 => Just("\"disabled\": true".to_owned()),
    ]
}

fn joined(parts: &[(String, String, String)], trailing: bool) -> String {
    let comma = if trailing && !parts.is_empty() {
        ","
    } else {
        ""
    };
    let parts: Vec<_> = parts
        .iter()
        .map(|(a, text, b)| format!("{a}{text}{b}"))
        .collect();
    format!("{{{}{comma}}}", parts.join(","))
}

fn file() -> impl Strategy<Value = String> {
    let server = proptest::collection::vec((gap(), property(), gap()), 0..5);
    let server = (server, any::<bool>()).prop_map(|(parts, trailing)| joined(&parts, trailing));
    let named = (string(), server).prop_map(|(name, server)| format!("{name}:{server}"));
    let servers = proptest::collection::vec((gap(), named, gap()), 0..4);
    let table = (servers, any::<bool>(), gap(), gap(), any::<bool>());
    table.prop_map(|(servers, trailing, a, b, mark)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!(
            "{mark}{a}{{\"mcpServers\": {}}}{b}",
            joined(&servers, trailing)
        )
    })
}

/// A value of TOML, and not one that JSON would take for text.
fn toml_string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z@/.-]{1,8}".prop_map(|text| format!("'{text}'")),
        any::<String>().prop_map(|text| Format::Toml.quote(&text)),
        Just("\"\\u006epx\"".to_owned()),
        Just("'''x'''".to_owned()),
        Just("'--'".to_owned()),
    ]
}

fn toml_file() -> impl Strategy<Value = String> {
    let end = prop_oneof![
        Just("\n"),
        Just("\r\n"),
        Just(" # x = [\n"),
        Just("\n\n  # c\n")
    ];
    let gap = prop_oneof![Just(""), Just(" "), Just("\n  "), Just(" # ]\n")];
    let elements = proptest::collection::vec((gap.clone(), toml_string(), gap), 0..4);
    let list = (elements, any::<bool>()).prop_map(|(elements, trailing)| {
        let comma = if trailing && !elements.is_empty() {
            ","
        } else {
            ""
        };
        let elements: Vec<_> = elements
            .iter()
            .map(|(a, text, b)| format!("{a}{text}{b}"))
            .collect();
        format!("[{}{comma}]", elements.join(","))
    });
    let flat = proptest::collection::vec(toml_string(), 0..3)
        .prop_map(|list| format!("[{}]", list.join(", ")));
    let indent = prop_oneof![Just(""), Just("  "), Just("\t")];
    let line = (indent, end);
    let server = (
        toml_string(),
        proptest::option::of((list, flat)),
        any::<bool>(),
        0..4u8,
        line,
    );
    let server = server.prop_map(|(command, args, args_first, form, (indent, end))| {
        let name = "NAME";
        let keys = |beginning: &str, between: &str, list: Option<&String>| {
            let command = format!("{beginning}command = {command}");
            let args = list.map(|list| format!("{beginning}args = {list}"));
            match (args, args_first) {
                (None, _) => command,
                (Some(args), true) => format!("{args}{between}{command}"),
                (Some(args), false) => format!("{command}{between}{args}"),
            }
        };
        let (list, flat) = (args.as_ref().map(|it| &it.0), args.as_ref().map(|it| &it.1));
        match form {
            0 => format!("s{name} = {{ {} }}{end}", keys("", ", ", flat)),
            1 => format!("{}{end}", keys(&format!("{indent}s{name}."), end, list)),
            _ => format!(
                "{indent}[mcp_servers.\"s {name}\"]{end}{}{end}",
                keys(indent, end, list)
            ),
        }
    });
    (proptest::collection::vec(server, 0..4), any::<bool>()).prop_map(|(servers, cut)| {
        let servers = servers.iter().enumerate();
        let servers = servers.map(|(at, server)| server.replace("NAME", &at.to_string()));
        let (tables, keys): (Vec<_>, Vec<_>) =
            servers.partition(|text| text.trim_start().starts_with('['));
        let text = format!("[mcp_servers]\n{}{}", keys.concat(), tables.concat());
        match cut {
            true => text.trim_end().to_owned(),
            false => text,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn there_and_back_is_where_it_was(text in file()) {
        let once = wrap(&text, Format::Json).map_err(TestCaseError::fail)?;
        let tables = tables(Format::Json);
        let shape = Shape { format: Format::Json, tables: &tables };
        let by_hand = rewrite::wrapped(&text, shape).unwrap();
        let back = rewrite::unwrap(&once.text, shape, &wrapper(), &by_hand).unwrap();
        prop_assert_eq!(&back.text, &text);
        let twice = wrap(&once.text, Format::Json).unwrap();
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert!(twice.changes.is_empty());
    }

    #[test]
    fn the_same_in_toml(text in toml_file()) {
        let once = wrap(&text, Format::Toml).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&undo(&once.text, Format::Toml).text, &text);
        let twice = wrap(&once.text, Format::Toml).unwrap();
        prop_assert_eq!(&twice.text, &once.text);
        for (_, why) in once.skipped {
            let why = why.to_string();
            prop_assert!(why.contains("no command") || why.contains("shell"), "{}", why);
        }
    }

    #[test]
    fn garbage_is_survived(text in any::<String>(), piece in "[\\[\\]{}\"',:/*#=\n a-z]{0,40}") {
        for text in [text, piece] {
            for format in [Format::Json, Format::Toml] {
                if let Ok(once) = wrap(&text, format) {
                    prop_assert!(once.changes.is_empty() || once.text != text);
                }
            }
        }
    }
}
