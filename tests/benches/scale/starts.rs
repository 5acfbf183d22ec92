//! Servers that start: many at once, and one after the other for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_measure::{Figure, Run, Series, percentile};
use tokio::task::JoinSet;

use crate::host::processor_time;
use crate::peers::Peer;
use crate::{Scale, Sides, end};

const SERVERS: usize = 200;
const AT_ONCE_TURNS: usize = 3;
const SUSTAINED: [usize; 3] = [1, 4, 16];
const SUSTAINED_TURNS: usize = 2;
const SUSTAINED_TIME: Duration = Duration::from_secs(10);

pub(crate) async fn at_once(run: &mut Run, sides: &Sides, scale: &Scale) {
    let servers = scale.servers(SERVERS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..AT_ONCE_TURNS {
        if turn % 2 == 0 {
            ours.extend(first_answers(&sides.ours, servers).await);
            theirs.extend(first_answers(&sides.theirs, servers).await);
        } else {
            theirs.extend(first_answers(&sides.theirs, servers).await);
            ours.extend(first_answers(&sides.ours, servers).await);
        }
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    for percent in [50, 100] {
        let of = |times: &[Duration]| percentile(times, percent).as_secs_f64() * 1e3;
        let name = format!("{servers} starts at once, to the first answer, p{percent}");
        run.figure(Figure::ratio(name, of(&ours), ("rmcp", of(&theirs)), "ms"));
    }
    let panel = format!("{servers} starts at once, to the first answer");
    for (line, times) in [("ours", &ours), ("rmcp", &theirs)] {
        let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        run.series(Series::distribution(&panel, line, "ms", &ms));
    }
}

async fn first_answers<P: Peer>(peer: &Arc<P>, servers: usize) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..servers {
        let peer = Arc::clone(peer);
        tasks.spawn(async move { (peer.connect().await, begun.elapsed()) });
    }
    let (connections, times) = tasks.join_all().await.into_iter().unzip();
    end(peer, connections).await;
    times
}

pub(crate) async fn sustained(run: &mut Run, sides: &Sides, scale: &Scale) {
    let time = scale.time(SUSTAINED_TIME);
    let mut lines = ["ours", "rmcp"].map(|side| {
        Series::new(
            "sustained: launches and ends per second",
            side,
            "at the same time",
            "per second",
        )
    });
    for at_once in SUSTAINED {
        let (mut ours, mut theirs) = (0, 0);
        let (mut watcher, mut host) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..SUSTAINED_TURNS {
            let before = (processor_time("mcp-"), processor_time(""));
            ours += launches(&sides.ours, at_once, time).await;
            watcher += processor_time("mcp-").saturating_sub(before.0);
            host += processor_time("").saturating_sub(before.1);
            theirs += launches(&sides.theirs, at_once, time).await;
        }
        let span = (time * SUSTAINED_TURNS as u32).as_secs_f64();
        let (ours, theirs) = (f64::from(ours) / span, f64::from(theirs) / span);
        let name = format!("sustained launches and ends per second, {at_once} at a time");
        run.figure(Figure::ratio(name, ours, ("rmcp", theirs), "/s"));
        // One thread of the launcher hears all exits: what of one processor it takes is how far it is from its limit.
        for (who, took) in [("the launcher's own threads", watcher), ("the host", host)] {
            let name = format!("processors busy with {who}, {at_once} at a time");
            run.figure(Figure::ours(name, took.as_secs_f64() / span, ""));
        }
        lines[0].add(at_once as f64, ours);
        lines[1].add(at_once as f64, theirs);
    }
    for line in lines {
        run.series(line);
    }
}

/// Launches a server and ends it, again and again; counts what is proven gone.
async fn launches<P: Peer>(peer: &Arc<P>, at_once: usize, time: Duration) -> u32 {
    let until = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let peer = Arc::clone(peer);
        tasks.spawn(async move {
            let mut launches = 0;
            while Instant::now() < until {
                let connection = peer.connect().await;
                peer.close(connection).await;
                launches += 1;
            }
            launches
        });
    }
    tasks.join_all().await.into_iter().sum()
}
