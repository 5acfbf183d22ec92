//! `doctor`: what is left, and who is wrapped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::{PROGRAM, Place, ends, send, started};

#[test]
fn the_doctor_names_what_a_host_without_containment_has_left() {
    let place = Place::new("left");
    let before = place.json(&["doctor", "--json"]);
    assert!(!before.to_string().contains(&place.name));
    // A host that starts a server without the wrapper and dies.
    let line = format!("{} <&3 & echo $!", place.script().display());
    let mut host = place.command("sh");
    host.args(["-c", &format!("exec 3<&0; {line}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut host = host.spawn().unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    let mut said = String::new();
    for _ in 0..2 {
        stdout.read_line(&mut said).unwrap();
    }
    let pid = said
        .lines()
        .find_map(|line| line.parse::<u32>().ok())
        .unwrap();
    let held = place.json(&["doctor", "--json"]);
    assert!(
        !held.to_string().contains(&place.name),
        "its input is open: somebody uses it"
    );
    drop(host.stdin.take());
    host.wait().unwrap();
    let seen = place.json(&["doctor", "--json"]);
    let text = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    let parent = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = parent
        .rsplit(')')
        .next()
        .unwrap()
        .split(' ')
        .nth(2)
        .unwrap()
        .to_owned();
    send(Signal::SIGKILL, pid);
    ends(stdout);
    if parent != "1" {
        eprintln!("SKIPPED: orphans are adopted by process {parent} here");
        return;
    }
    let unclaimed = seen["left"]["unclaimed"].as_array().unwrap();
    assert!(
        unclaimed
            .iter()
            .any(|it| it["name"] == place.name.as_str() && it["process"]["pid"] == pid),
        "{seen:#}"
    );
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("left behind")
            && first.contains("`mcp-contain reap --foreign --yes --older 0s`"),
        "{first}"
    );
    let why = "its input is closed and the program that started it is gone";
    let line = text
        .lines()
        .find(|line| line.contains(&place.name))
        .unwrap();
    assert!(
        line.contains(&format!("pid {pid}")) && line.contains(why),
        "{text}"
    );
}

#[test]
fn the_doctor_says_which_hosts_are_wrapped() {
    let place = Place::new("files");
    let file = place.directory.path().join(".cursor/mcp.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    let text = format!(
        "{{\"mcpServers\": {{\"a\": {{\"command\": \"{PROGRAM}\", \"args\": [\"sh\"]}}, \"b\": {{\"command\": \"no-such-program\"}}, \
         \"c\": {{\"url\": \"https://example.com\"}}, \"d\": {{\"command\": \"TOKEN=SECRET npx thing\"}}}}}}"
    );
    fs::write(&file, text).unwrap();
    let text = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    // The home is the project's directory as well.
    assert_eq!(text.matches("1 of 3 servers wrapped").count(), 1, "{text}");
    assert!(
        text.contains("not wrapped: b, d") && text.contains("`mcp-contain wrap` wraps them"),
        "{text}"
    );
    for word in ["guardian", "cgroup", "atomic"] {
        assert!(!text.contains(word), "{text}");
    }
    let more = String::from_utf8(place.call(&["doctor", "--verbose"]).stdout).unwrap();
    assert!(
        more.contains("guardian")
            && more.contains("--memory")
            && more.contains("--hardened")
            && more.contains("--write"),
        "{more}"
    );
    let seen = place.json(&["doctor", "--json"]);
    assert_eq!(seen["schema"], "mcp-contain/doctor/1");
    assert!(!format!("{text}{seen}").contains("SECRET"), "{seen:#}");
    assert_eq!(seen["files"][0]["servers"][0]["wrapped"], true);
    assert!(seen["containment"]["mechanism"].is_string());
    for option in ["no_memory_limit", "no_hardening", "no_write_limit"] {
        let why = &seen["containment"][option];
        assert!(why.is_null() || why.as_str().is_some_and(|why| !why.is_empty()));
    }
}

#[test]
fn the_doctor_lists_the_sandboxes_of_the_path() {
    let place = Place::new("boxed");
    let bin = place.directory.path().join("bin");
    fs::create_dir_all(bin.join("codex")).unwrap();
    for name in ["nono", "bwrap"] {
        fs::write(bin.join(name), "").unwrap();
    }
    let asked = |words: &[&str]| {
        let mut command = place.command(PROGRAM);
        let output = command.env("PATH", &bin).args(words).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let text = asked(&["doctor"]);
    let lines = text
        .lines()
        .filter(|line| line.contains("works in front of `mcp-contain`"));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("`bwrap`") && lines[1].starts_with("`nono`"));
    let seen: serde_json::Value = serde_json::from_str(&asked(&["doctor", "--json"])).unwrap();
    assert_eq!(seen["sandboxes"], serde_json::json!(["bwrap", "nono"]));
}

#[test]
fn the_doctor_leaves_nothing() {
    let place = Place::new("looked");
    let seen = place.json(&["doctor", "--json"]);
    assert!(seen["containment"]["no_record"].is_null(), "{seen:#}");
    assert!(!place.directory.path().join("state").exists());
}

#[test]
fn servers_without_a_record_are_said_to_be() {
    let place = Place::new("unrecorded");
    fs::write(place.directory.path().join("state"), "").unwrap();
    // A shell runs it: it is started twice.
    fs::write(place.script(), "echo ready\nread line\n").unwrap();
    for options in [&[][..], &["--group"]] {
        let mut command = place.command(PROGRAM);
        command.stderr(Stdio::piped()).args(options);
        let (mut host, stdout) = started(command.arg(place.script()));
        drop(host.stdin.take());
        ends(stdout);
        host.wait().unwrap();
        let mut said = String::new();
        host.stderr.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said.lines().count(), 1, "{options:?}: {said}");
        assert!(said.contains("not recorded"), "{options:?}: {said}");
        assert!(said.contains("state: "), "{options:?}: {said}");
    }
    let text = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    assert!(text.contains("are not recorded"), "{text}");
    let seen = place.json(&["doctor", "--json"]);
    assert!(seen["containment"]["no_record"].is_string(), "{seen:#}");
}
