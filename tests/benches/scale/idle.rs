//! Servers that do nothing.

use std::sync::Arc;
use std::time::Instant;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::ServerSpec;
use mcp_lifecycle_measure::{Figure, Run, Series};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::host::{children, memory, room_for_tasks};
use crate::peers::Peer;
use crate::{Scale, Sides, connect, end};

const SERVERS: [usize; 6] = [1, 10, 100, 500, 1000, 2000];
/// So many start at the same time.
const AT_ONCE: usize = 8;
/// A server and its guardian.
const PROCESSES: usize = 2;

/// What one server of so many takes.
struct Cost {
    launch_ms: f64,
    host_kib: f64,
    guardian_kib: f64,
    descriptors: f64,
    end_ms: f64,
}

pub(crate) async fn run(run: &mut Run, sides: &Sides, scale: &Scale) {
    let mut picture = Picture::default();
    for servers in SERVERS.map(|servers| scale.servers(servers)) {
        let room = room_for_tasks();
        assert!(
            room > servers * PROCESSES * 2,
            "room for {room} processes: {servers} servers are too many"
        );
        let ours = cost(&sides.ours, servers).await;
        let theirs = cost(&sides.theirs, servers).await;
        picture.add("ours", servers, &ours);
        picture.add("rmcp", servers, &theirs);
        picture.guardians(servers, &ours);
        if servers == scale.servers(2000) {
            figures(run, servers, &ours, &theirs);
        }
    }
    for line in picture.lines {
        run.series(line);
    }
}

fn figures(run: &mut Run, servers: usize, ours: &Cost, theirs: &Cost) {
    let mut ratio = |what: &str, ours, theirs, unit| {
        let name = format!("{servers} idle servers, {what}");
        run.figure(Figure::ratio(name, ours, ("rmcp", theirs), unit));
    };
    ratio(
        "launch of each, 8 at once",
        ours.launch_ms,
        theirs.launch_ms,
        "ms",
    );
    ratio("end of all", ours.end_ms, theirs.end_ms, "ms");
    ratio("host memory of each", ours.host_kib, theirs.host_kib, "KiB");
    let mut alone = |what: &str, ours, unit, bar| {
        let name = format!("{servers} idle servers, {what}");
        run.figure(Figure::ours(name, ours, unit).at_most(bar));
    };
    alone(
        "memory of each in the host and its guardian",
        ours.host_kib + ours.guardian_kib,
        "KiB",
        128.0,
    );
    alone("descriptors of each", ours.descriptors, "", 5.0);
    // Where the next limit is, by what each has taken.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("this process's limits");
    println!(
        "descriptors: {soft} of {hard}; room for {} more processes",
        room_for_tasks()
    );
    let fit = Figure::ours(
        "servers until this host's descriptors are used up",
        soft as f64 / ours.descriptors,
        "",
    );
    run.figure(fit);
    let fit = room_for_tasks() / PROCESSES;
    run.figure(Figure::ours(
        "servers until this machine's pids are used up",
        fit as f64,
        "",
    ));
}

async fn cost<P: Peer>(peer: &Arc<P>, servers: usize) -> Cost {
    let (host, descriptors) = (memory("self"), Census::take().fd_count());
    let begun = Instant::now();
    let connections = connect(peer, servers, AT_ONCE.min(servers)).await;
    let launch = begun.elapsed();
    let each = |all: f64| all / servers as f64;
    let host_kib = each(memory("self") - host);
    let descriptors = Census::take().fd_count() - descriptors;
    let guardian_kib = each(children().iter().map(|child| memory(child)).sum());
    let begun = Instant::now();
    end(peer, connections).await;
    Cost {
        launch_ms: each(launch.as_secs_f64() * 1e3),
        host_kib,
        guardian_kib,
        descriptors: each(descriptors as f64),
        end_ms: begun.elapsed().as_secs_f64() * 1e3,
    }
}

#[derive(Default)]
struct Picture {
    lines: Vec<Series>,
}

impl Picture {
    fn add(&mut self, line: &str, servers: usize, cost: &Cost) {
        self.point(
            "launch of each, 8 at once",
            line,
            "ms",
            servers,
            cost.launch_ms,
        );
        self.point("end of all", line, "ms", servers, cost.end_ms);
        // One server is a page or two, which the allocator may have had.
        if servers >= 10 {
            self.point(
                "memory of each",
                &format!("{line}: host"),
                "KiB",
                servers,
                cost.host_kib,
            );
        }
        self.point(
            "descriptors of each",
            line,
            "number",
            servers,
            cost.descriptors,
        );
    }

    fn guardians(&mut self, servers: usize, cost: &Cost) {
        if servers >= 10 {
            self.point(
                "memory of each",
                "ours: its guardian",
                "KiB",
                servers,
                cost.guardian_kib,
            );
        }
    }

    fn point(&mut self, panel: &str, line: &str, unit: &str, x: usize, y: f64) {
        let is_it = |series: &&mut Series| series.panel == panel && series.line == line;
        if let Some(series) = self.lines.iter_mut().find(is_it) {
            return series.add(x as f64, y);
        }
        let mut series = Series::new(panel, line, "servers", unit);
        series.add(x as f64, y);
        self.lines.push(series);
    }
}

/// How many servers fit into the descriptors that a session gives a process, and what the next launch says.
pub(crate) async fn limit(run: &mut Run) {
    const DESCRIPTORS: u64 = 1024;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("this process's limits");
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS.min(soft), hard).expect("a lower limit");
    let launcher = Arc::new(LocalLauncher::new());
    let mut clients = Vec::new();
    let error = loop {
        let spec = ServerSpec::builder("echo", env!("CARGO_BIN_EXE_mcp-echo")).build();
        let config = ServerConfig::new(launcher.clone(), spec.expect("valid"));
        match LifecycleClient::start(config).await {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    let fit = clients.len();
    for client in &clients {
        client.shutdown().await.expect("a proof, also at the limit");
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("the limit that was");
    println!("with {DESCRIPTORS} descriptors, the launch after {fit}: {error}");
    run.figure(Figure::ours(
        "servers within 1,024 descriptors",
        fit as f64,
        "",
    ));
}
