//! Bodies of creates at random: good ones, odd ones, and what is no JSON.

use mcp_lifecycle_conformance::random::Random;

/// Empty: none is said.
pub(super) const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "text/plain",
    "",
];

pub(super) fn query(random: &mut Random) -> String {
    match random.below(20) {
        0 => String::new(),
        1 => "?name=-bad-".to_owned(),
        2 => "?name=n%30&name=other".to_owned(),
        3 => format!("?platform=linux/amd64&name=n{}", random.below(5)),
        4 => "?name=n1;x=y".to_owned(),
        5 => "?name=%e9".to_owned(),
        _ => format!("?name=n{}", random.below(5)),
    }
}

/// Values of the fields: most of them good.
const FIELDS: &[(&str, &[&[u8]])] = &[
    (
        "Image",
        &[
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""mcp-fixture:test""#,
            br#""no/such""#,
            br#""""#,
            b"1",
            br#""UPPER:case""#,
        ],
    ),
    (
        "Cmd",
        &[
            br#"["/mcp-fixture","x"]"#,
            br#"["/mcp-fixture","x"]"#,
            br#"["/mcp-fixture","x"]"#,
            br#"["/mcp-fixture","x"]"#,
            br#""/mcp-fixture x""#,
            b"null",
            b"[]",
            b"[1]",
        ],
    ),
];

const MORE: &[(&str, &[&[u8]])] = &[
    ("Labels", &[
        b"null", b"{}", br#"{"a":"b"}"#, br#"{"a":"b","":""}"#, b"[]", br#""a""#, br#"{"a":1}"#, br#"{"a":null}"#,
        br#"{"dev.mcp-lifecycle.launch":"x","dev.mcp-lifecycle.on-end":"keep"}"#,
        br#"{"dev.mcp-lifecycle.instance":"x","a":"\ud800"}"#, b"{\"a\":\"caf\xe9\"}",
    ]),
    ("Env", &[
        br#"["A=1"]"#, br#"["X=caf\udce9"]"#, b"[\"X=caf\xe9\xff\"]", br#"["A=\ud83d\ude00\ud83d"]"#,
        br#"["MCP_LIFECYCLE_ID=1","B=2"]"#, b"null", br#"{"A":"1"}"#, b"[1]", br#"["NOVALUE","=x",""]"#,
        br#"["A=\u0000"]"#,
    ]),
    ("HostConfig", &[
        br#"{"NetworkMode":"none","AutoRemove":true}"#, br#"{"NetworkMode":"none","Memory":1}"#, br#"{"NetworkMode":"none","Memory":-5}"#,
        br#"{"NetworkMode":"none","Binds":["/tmp:/x","@SOCKET@:/s"]}"#, br#"{"NetworkMode":"none","Binds":["rel:/x:ro"]}"#,
        br#"{"NetworkMode":"none","Mounts":[{"Type":"bind","Source":"@SOCKET@","Target":"/s"}]}"#,
        br#"{"NetworkMode":"none","Mounts":[{"Type":"tmpfs","Target":"/t"}]}"#, br#"{"NetworkMode":"none","Mounts":[1]}"#,
        br#"{"networkmode":"none","RestartPolicy":{"Name":"always"}}"#, br#"{"RestartPolicy":{"Name":"sometimes"}}"#,
        b"null", b"{}", b"[]", b"1", br#"{"NetworkMode":"none","CapAdd":["NET_ADMIN"],"Privileged":"yes"}"#,
        br#"{"NetworkMode":"container:nobody"}"#, br#"{"LogConfig":{"Type":"nonsense"}}"#, br#"{"NetworkMode":"none","PortBindings":{"80/tcp":[{"HostPort":"x"}]}}"#,
        br#"{"NetworkMode":"none","AutoRemove":true,"RestartPolicy":{"Name":"always"}}"#, br#"{"Binds":"text"}"#,
        br#"{"NetworkMode":"none","Ulimits":[{"Name":"nofile","Soft":1,"Hard":2}],"ShmSize":-1}"#,
    ]),
    ("NetworkingConfig", &[b"null", b"{}", br#"{"EndpointsConfig":{"none":{}}}"#, br#"{"EndpointsConfig":{"a":null}}"#, b"[]"]),
    ("OpenStdin", &[b"true", b"false", br#""true""#, b"null"]),
    ("AttachStdin", &[b"true", b"1"]),
    ("StdinOnce", &[b"true"]),
    ("Tty", &[b"true", b"null"]),
    ("Volumes", &[br#"{"/v":{}}"#, b"null", br#"{"rel":{}}"#, b"[]"]),
    ("User", &[br#""1:1""#, br#""nobody-here""#, b"0"]),
    ("WorkingDir", &[br#""/tmp""#, br#""relative""#, br#""/\u0000""#]),
    ("StopSignal", &[br#""SIGTERM""#, br#""SIGNONSENSE""#]),
    ("StopTimeout", &[b"1", b"-1", br#""1""#, b"1.5", b"1e3"]),
    ("Hostname", &[br#""h""#, br#""-""#]),
    ("ExposedPorts", &[br#"{"80/tcp":{}}"#, br#"{"x":{}}"#]),
    ("Healthcheck", &[br#"{"Test":["NONE"]}"#, br#"{"Interval":-1}"#]),
    ("Entrypoint", &[br#"["/mcp-fixture"]"#, br#""x""#, b"[]", b"null"]),
    ("Unknown", &[b"1e400", b"-0", b"123456789012345678901234567890", br#""\u00e9\/\b""#, b"[[[{\"a\":[{}]}]]]"]),
    ("X\\udce9", &[b"1"]),
    ("\\u0049mage", &[br#""mcp-fixture:test""#]),
];

/// A spelling that Go takes for the same field.
fn spell(random: &mut Random, key: &str) -> String {
    match random.below(40) {
        0 => key.to_uppercase(),
        1 => key.to_lowercase(),
        2 if key.is_ascii() && !key.starts_with('\\') => key.replace('s', "\\u017f"),
        3 if key.is_ascii() && !key.starts_with('\\') => key.replace('k', "\u{212a}"),
        4 => format!("{key}x"),
        _ => key.to_owned(),
    }
}

pub(super) fn body(random: &mut Random) -> Vec<u8> {
    let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
    for (key, values) in FIELDS {
        if !random.percent(2) {
            fields.push((spell(random, key), random.pick(values).to_vec()));
        }
    }
    for _ in 0..random.below(6).saturating_sub(2) {
        let (key, values) = random.pick(MORE);
        let at = random.below(fields.len() as u64 + 1) as usize;
        fields.insert(at, (spell(random, key), random.pick(values).to_vec()));
    }
    if !random.percent(15) {
        let host = br#"{"NetworkMode":"none"}"#.to_vec();
        fields.insert(0, ("HostConfig".to_owned(), host));
    }
    if random.percent(2) {
        let depth = 100 + random.below(300) as usize;
        let deep = ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes();
        fields.push(("Deep".to_owned(), deep));
    }
    let mut body = vec![b'{'];
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend(format!("\"{key}\":").bytes());
        body.extend(value);
    }
    body.push(b'}');
    if random.percent(8) {
        body = odd(random, body);
    }
    body
}

/// Something around it, or something broken in it.
fn odd(random: &mut Random, mut body: Vec<u8>) -> Vec<u8> {
    let whole: &[&[u8]] = &[
        b"",
        b"null",
        b"[]",
        b"1",
        b"\"text\"",
        b"{",
        b"{}",
        b"{,}",
        b"not json",
        b" ",
        b"{'a':1}",
    ];
    match random.below(12) {
        0 | 1 => random.pick(whole).to_vec(),
        2 => [&body[..], b" garbage"].concat(),
        3 => [&body[..], b"\0"].concat(),
        4 => [&body[..], &body[..]].concat(),
        5 => [&b"\xef\xbb\xbf"[..], &body[..]].concat(),
        6 => [&b" \r\n\t"[..], &body[..], b"\n"].concat(),
        7 => {
            body.truncate(random.below(body.len() as u64) as usize);
            body
        }
        8 => [&body[..body.len() - 1], b",}"].concat(),
        9 => [&body[..body.len() - 1], b",\"a\":\"\x01\"}"].concat(),
        10 => [&body[..body.len() - 1], b",\"a\":\"\\x\"}"].concat(),
        _ => {
            // Any byte at any place.
            let at = random.below(body.len() as u64) as usize;
            body[at] = random.number() as u8;
            body
        }
    }
}
