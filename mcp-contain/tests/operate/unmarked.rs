//! Servers whose environment does not say whose they are.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::unproven::{as_nobody, give_to_nobody, is_root};
use crate::{Place, ends};

#[test]
fn a_server_without_a_mark_is_listed_and_ended_with_its_proof() {
    let users: &[bool] = if is_root() { &[false, true] } else { &[false] };
    for &is_nobody in users {
        let mut place = Place::new("unmarked");
        if is_nobody {
            give_to_nobody(&mut place);
        }
        let by_user = |command: &mut Command| {
            if is_nobody {
                as_nobody(command);
            }
        };
        let script = "#!/bin/sh\ntrap '' TERM\nenv -i sleep 1000 &\necho ready\nwhile :; do sleep 0.2; done\n";
        fs::write(place.script(), script).unwrap();
        let (mut host, stdout) = place.start_by(&["--no-mark"], by_user);
        let call = |words: &[&str]| -> Value {
            let mut command = place.command(&place.program);
            by_user(command.args(words));
            let output = command.output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
        };
        let seen = call(&["ps", "--json"]);
        let servers = seen["servers"].as_array().unwrap();
        let server = servers.iter().find(|it| it["name"] == place.name.as_str());
        let server = server.unwrap_or_else(|| panic!("{seen:#}"));
        assert!(server["guardian"].is_u64(), "{server:#}");
        if is_nobody {
            assert_eq!(server["cgroup"], false, "{server:#}");
        }
        let processes = server["processes"].as_array().unwrap();
        assert!(processes.len() >= 2, "with its helper: {server:#}");
        for process in processes {
            let environment = fs::read(format!("/proc/{}/environ", process["pid"]));
            let environment = environment.unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            assert!(!environment.contains("MCP_LIFECYCLE_ID"), "{process}");
        }
        let stats = call(&["stats", "--json"]);
        assert_eq!(stats["servers"][0]["how"], "running", "{stats:#}");
        let stopped = call(&["stop", &place.name, "--grace", "100ms", "--json"]);
        assert_eq!(stopped["servers"][0]["gone"], true, "{stopped:#}");
        ends(stdout);
        host.wait().unwrap();
    }
}
