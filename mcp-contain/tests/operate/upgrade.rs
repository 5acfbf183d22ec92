//! Records of another version: `upgrade/` has those that the program of commit ca0b3a8 left.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::{Place, ends};

const RING: &[u8] = include_bytes!("upgrade/ended.ring");
const LEDGER: &str = include_str!("upgrade/host.ledger");

/// A host that is dead, and its server, which lives, as the record in `LEDGER` describes them.
struct Left {
    ledger: String,
    path: PathBuf,
    server: Child,
}

fn start_time(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(19).unwrap().to_owned()
}

/// Puts the records into the state directory, with the processes of this machine in place of theirs.
fn leave(place: &Place) -> Left {
    let mut host = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let (host_pid, host_start) = (host.id().to_string(), start_time(host.id()));
    drop(host.stdin.take());
    host.wait().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace.to_str().unwrap();
    let namespace = &namespace["pid:[".len()..namespace.len() - 1];

    let (title, line) = LEDGER.split_once('\n').unwrap();
    let title: Vec<_> = title.split(' ').collect();
    let line: Vec<_> = line.split_whitespace().collect();
    let (nonce, serial) = (title[5], line[0]);
    let server = Command::new(place.script())
        .env(
            "MCP_LIFECYCLE_ID",
            format!("{host_pid}.{host_start}.{boot}.{nonce}{serial}"),
        )
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let (pid, start) = (server.id(), start_time(server.id()));
    let ledger = format!(
        "{} {} {host_pid} {host_start} {boot} {nonce} {namespace} -\n{serial} {pid} {start} -\n",
        title[0], title[1]
    );
    let state = place.directory.path().join("state");
    fs::DirBuilder::new().create(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    let path = state.join(format!("{nonce}.ledger"));
    write(&path, ledger.as_bytes());
    write(&state.join("ended.ring"), RING);
    Left {
        ledger,
        path,
        server,
    }
}

fn write(path: &std::path::Path, text: &[u8]) {
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    std::io::Write::write_all(&mut options.open(path).unwrap(), text).unwrap();
}

#[test]
fn records_of_an_older_version_are_understood() {
    let place = Place::new("older");
    let mut left = leave(&place);
    let seen = place.json(&["ps", "--json"]);
    assert_eq!(seen["unknown"].as_array().unwrap().len(), 0, "{seen:#}");
    let servers = seen["servers"].as_array().unwrap();
    let server = servers.iter().find(|it| it["leader"] == left.server.id());
    assert_eq!(server.unwrap()["host"]["state"], "dead", "{seen:#}");
    let past = place.json(&["stats", "--json"]);
    assert_eq!(
        (&past["servers"][0]["name"], &past["servers"][0]["how"]),
        (&"up-old".into(), &"itself".into()),
        "{past:#}"
    );
    let reaped = place.json(&["reap", "--json"]);
    let ended = format!("process {} (", left.server.id());
    assert!(reaped["ended"].to_string().contains(&ended), "{reaped:#}");
    ends(std::io::BufReader::new(left.server.stdout.take().unwrap()));
    left.server.wait().unwrap();
    assert!(!left.path.exists(), "nothing of it is left");
}

#[test]
fn a_server_that_an_older_version_recorded_is_stopped() {
    let place = Place::new("elder");
    let mut left = leave(&place);
    let pid = left.server.id().to_string();
    let stopped = place.json(&["stop", &pid, "--grace", "0s", "--json"]);
    assert_eq!(stopped["servers"][0]["gone"], true, "{stopped:#}");
    ends(std::io::BufReader::new(left.server.stdout.take().unwrap()));
    left.server.wait().unwrap();
}

#[test]
fn fields_of_a_later_version_are_left_alone() {
    let place = Place::new("later");
    let mut left = leave(&place);
    let later = left.ledger.trim_end().to_owned() + " limits=3\n";
    write(&left.path, later.as_bytes());
    let seen = place.json(&["ps", "--json"]).to_string();
    assert!(
        seen.contains(&format!("\"leader\":{}", left.server.id())),
        "{seen}"
    );
    assert_eq!(fs::read_to_string(&left.path).unwrap(), later);
    place.json(&["reap", "--json"]);
    ends(std::io::BufReader::new(left.server.stdout.take().unwrap()));
    left.server.wait().unwrap();
}

#[test]
fn a_ledger_of_a_later_format_is_kept_and_reported() {
    let place = Place::new("newer");
    let mut left = leave(&place);
    let newer = left.ledger.replacen(" 2 ", " 3 ", 1);
    write(&left.path, newer.as_bytes());
    let reaped = place.call(&["reap", "--json"]);
    let said = String::from_utf8(reaped.stdout).unwrap();
    assert_eq!(reaped.status.code(), Some(1), "{said}");
    assert!(said.contains("no ledger of this version"), "{said}");
    assert_eq!(fs::read_to_string(&left.path).unwrap(), newer);
    left.server.kill().unwrap();
    left.server.wait().unwrap();
}
