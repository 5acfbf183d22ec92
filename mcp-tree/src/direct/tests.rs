use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::key::mark_of;
use super::package_of;
use super::record::{Record, identities, write};
use super::recorder::changes;
use super::runner::Runner;
use crate::command::Command;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn command(line: &str) -> Command {
    let mut words = line.split_whitespace().map(OsString::from);
    let arg0 = words.next().unwrap();
    Command {
        program: Path::new("/usr/bin").join(&arg0),
        arg0,
        args: words.collect(),
        env: BTreeMap::new(),
        identity: None,
        cwd: None,
    }
}

/// Returns the number of words before a tool of uv, and the program that is expected of it.
fn tool(line: &str) -> Option<(usize, String)> {
    let command = command(line);
    match Runner::of(&command.arg0, &command.args)? {
        Runner::Npm => None,
        Runner::Uv(tool) => Some((tool.at, tool.program)),
    }
}

#[test]
fn uv_is_understood_where_the_package_is_one_of_an_index() {
    for (line, at, program) in [
        ("uvx server", 0, "server"),
        ("uvx server@1.2.3 --from x", 0, "server"),
        ("uvx server@latest", 0, "server"),
        ("uvx Server_a.b[cli]==1.2", 0, "Server_a.b"),
        ("uvx --from server>=1 tool x", 2, "tool"),
        ("uvx --from=server tool", 1, "tool"),
        ("uvx -q --with other --python 3.12 server", 5, "server"),
        ("uv tool run --offline server", 3, "server"),
        ("uvx --index-url https://host/simple server", 2, "server"),
    ] {
        assert_eq!(tool(line), Some((at, program.to_owned())), "{line}");
    }
    for line in [
        "uvx",
        "uvx --from",
        "uvx --from a",
        "uvx ./a",
        "uvx git+https://host/a",
        "uvx a@git+https://host/a",
        "uvx --from ./a a",
        "uvx --from a ./b",
        "uvx --from a --from b c",
        "uvx --with ../other a",
        "uvx --env-file .env a",
        "uvx --refresh a",
        "uvx --no-cache a",
        "uvx python@3.12",
        "uvx script.py",
        "uv run a",
        "uv --quiet tool run a",
        "pip a",
    ] {
        assert_eq!(tool(line), None, "{line}");
    }
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn changes_are_what_the_runner_has_set_and_removed() {
    let before = [
        ("PATH", "/bin"),
        ("KEPT", "a"),
        ("GONE", "b"),
        ("SHLVL", "1"),
    ];
    let given = before.map(|(name, value)| (name.to_owned(), mark_of(OsStr::new(value))));
    let given = BTreeMap::from(given);
    let after = |name: &str, value: &str| {
        let own = [
            ("PATH", "/x:/bin"),
            ("KEPT", "a"),
            ("SHLVL", "2"),
            ("MCP_LIFECYCLE_ID", "1"),
            (name, value),
        ];
        changes(variables(&own), &given)
    };
    let (set, removed) = after("UV", "/bin/uv").unwrap();
    assert_eq!(set.keys().collect::<Vec<_>>(), ["PATH", "UV"]);
    assert_eq!(set["PATH"], "/x:/bin");
    assert!(removed.into_iter().eq(["GONE".to_owned()]));
}

#[test]
fn what_may_be_a_secret_is_not_recorded() {
    let secret = "0123456789abcdef0123";
    let given = BTreeMap::from([("GIVEN".to_owned(), mark_of(OsStr::new(secret)))]);
    let of = |name, value: &str| changes(variables(&[("GIVEN", secret), (name, value)]), &given);
    assert!(of("npm_config_registry", "https://host/").is_some());
    for (name, value) in [
        ("npm_config_proxy", "http://me:word@host/"),
        ("NPM_TOKEN", "x"),
        ("npm_config__auth", "x"),
        ("npm_config_author", "x 0123456789abcdef0123"),
    ] {
        assert_eq!(of(name, value), None, "{name}");
    }
}

#[test]
fn a_record_is_repeated_until_it_is_old_or_a_file_has_changed() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let file = at("record");
    fs::write(at("program"), "").unwrap();
    let record = || Record {
        program: at("program"),
        words: ["sh", "-c"].map(str::to_owned).to_vec(),
        arguments: 2,
        set: [("PATH".to_owned(), "/x".to_owned())].into(),
        removed: ["GONE".to_owned()].into(),
        files: identities([at("program"), at("missing")]),
    };
    write(&file, &record()).unwrap();
    let mut given = command("uvx server --secret x");
    given.env = variables(&[("GONE", "1"), ("KEPT", "1")]);
    assert!(Record::read(&file, DAY).unwrap().repeat(&mut given));
    assert_eq!((given.program, given.arg0), (at("program"), "sh".into()));
    assert_eq!(given.args, ["-c", "--secret", "x"]);
    assert_eq!(given.env, variables(&[("KEPT", "1"), ("PATH", "/x")]));

    assert!(Record::read(&file, Duration::ZERO).is_none());
    let repeats = |line| Record::read(&file, DAY).unwrap().repeat(&mut command(line));
    assert!(!repeats("uvx server"), "fewer arguments");
    fs::write(at("missing"), "").unwrap();
    assert!(!repeats("uvx server a b"), "a new file");
    write(&file, &record()).unwrap();
    assert!(repeats("uvx server a b"));
    fs::write(at("new"), "").unwrap();
    fs::rename(at("new"), at("program")).unwrap();
    assert!(!repeats("uvx server a b"), "another file");
    fs::write(&file, "{").unwrap();
    assert!(Record::read(&file, DAY).is_none());
}

#[test]
fn a_program_is_named_by_its_package() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let modules = at("x/node_modules");
    fs::create_dir_all(modules.join("@scope/server/dist")).unwrap();
    fs::create_dir(modules.join(".bin")).unwrap();
    let manifest = r#"{"name":"@scope/server","version":"1.2.3"}"#;
    fs::write(modules.join("@scope/server/package.json"), manifest).unwrap();
    fs::write(modules.join("@scope/server/dist/index.js"), "").unwrap();
    let link = modules.join(".bin/server");
    symlink("../@scope/server/dist/index.js", &link).unwrap();
    assert_eq!(package_of(&link).as_deref(), Some("@scope/server@1.2.3"));

    let info = at("env/lib/python3.11/site-packages/mcp_server_time-2.1.dist-info");
    fs::create_dir_all(&info).unwrap();
    fs::write(at("env/pyvenv.cfg"), "").unwrap();
    let entries = "[console_scripts]\nmcp-time = mcp_server_time:main\n";
    fs::write(info.join("entry_points.txt"), entries).unwrap();
    let named = package_of(&at("env/bin/mcp-time"));
    assert_eq!(named.as_deref(), Some("mcp-server-time@2.1"));
    assert_eq!(package_of(&at("env/bin/python")), None);
}

/// The files of a package are the server's own, and it may be the reason why its name is wanted.
#[test]
fn no_file_of_a_package_keeps_its_reader() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("node_modules/.bin")).unwrap();
    fs::create_dir_all(at("lib/python3/site-packages/a-1.dist-info")).unwrap();
    fs::write(at("pyvenv.cfg"), "").unwrap();
    let texts = [
        "node_modules/package.json",
        "lib/python3/site-packages/a-1.dist-info/entry_points.txt",
    ];
    let programs = ["node_modules/.bin/a", "bin/a"].map(at);
    fs::write(&programs[0], "").unwrap();
    for kind in ["pipe", "endless"] {
        for text in texts.map(at) {
            let _ = fs::remove_file(&text);
            match kind {
                "pipe" => nix::unistd::mkfifo(&text, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                _ => symlink("/dev/zero", text).unwrap(),
            }
        }
        for program in programs.clone() {
            let (sender, named) = mpsc::channel();
            thread::spawn(move || sender.send(package_of(&program)));
            let named = named.recv_timeout(Duration::from_secs(60));
            assert_eq!(named, Ok(None), "{kind}");
        }
    }
}
