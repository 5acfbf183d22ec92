//! Servers that talk, and what an unrelated timer of the same runtime feels of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_measure::{Figure, Run, Series, percentile};
use tokio::task::JoinSet;

use crate::peers::Peer;
use crate::{Scale, Sides, connect, end};

const SERVERS: usize = 500;
const TALK: Duration = Duration::from_secs(8);
const TURNS: usize = 2;

/// All turns of one side, in ascending order.
#[derive(Default)]
struct Talk {
    calls: Vec<Duration>,
    timer_idle: Vec<Duration>,
    timer_busy: Vec<Duration>,
}

pub(crate) async fn run(run: &mut Run, sides: &Sides, scale: &Scale) {
    let (servers, time) = (scale.servers(SERVERS), scale.time(TALK));
    let (mut ours, mut theirs) = (Talk::default(), Talk::default());
    for turn in 0..TURNS {
        if turn % 2 == 0 {
            talk(&sides.ours, servers, time, &mut ours).await;
            talk(&sides.theirs, servers, time, &mut theirs).await;
        } else {
            talk(&sides.theirs, servers, time, &mut theirs).await;
            talk(&sides.ours, servers, time, &mut ours).await;
        }
    }
    for side in [&mut ours, &mut theirs] {
        side.calls.sort_unstable();
        side.timer_idle.sort_unstable();
        side.timer_busy.sort_unstable();
    }
    let rate = |side: &Talk| side.calls.len() as f64 / (time * TURNS as u32).as_secs_f64();
    let name = format!("{servers} servers talking, calls/s");
    run.figure(Figure::ratio(
        name,
        rate(&ours),
        ("rmcp", rate(&theirs)),
        "/s",
    ));
    for percent in [50, 99] {
        let of = |times: &[Duration]| percentile(times, percent).as_secs_f64() * 1e3;
        let name = format!("{servers} servers talking, call p{percent}");
        run.figure(Figure::ratio(
            name,
            of(&ours.calls),
            ("rmcp", of(&theirs.calls)),
            "ms",
        ));
        let name =
            format!("unrelated timer of 1 ms, late by, p{percent}, beside {servers} talking");
        let late = of(&ours.timer_busy);
        run.figure(Figure::ratio(
            &name,
            late,
            ("rmcp", of(&theirs.timer_busy)),
            "ms",
        ));
        run.figure(Figure::ratio(
            name + ", to idle",
            late,
            ("idle", of(&ours.timer_idle)),
            "ms",
        ));
    }
    let mut line = |panel: &str, line: &str, times: &[Duration]| {
        let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        run.series(Series::distribution(panel, line, "ms", &ms));
    };
    let panel = format!("a call, {servers} servers talking");
    line(&panel, "ours", &ours.calls);
    line(&panel, "rmcp", &theirs.calls);
    let panel = format!("unrelated timer of 1 ms, late by; {servers} servers");
    line(&panel, "ours, talking", &ours.timer_busy);
    line(&panel, "rmcp, talking", &theirs.timer_busy);
    line(&panel, "ours, idle", &ours.timer_idle);
    line(&panel, "rmcp, idle", &theirs.timer_idle);
}

async fn talk<P: Peer>(peer: &Arc<P>, servers: usize, time: Duration, talk: &mut Talk) {
    let connections = connect(peer, servers, 8).await;
    talk.timer_idle.extend(timer(time / 2).await);
    let until = Instant::now() + time;
    let beside = tokio::spawn(timer(time));
    let mut callers = JoinSet::new();
    for connection in &connections {
        let caller = peer.caller(connection);
        callers.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                P::call_by(&caller).await;
                times.push(begun.elapsed());
            }
            times
        });
    }
    talk.calls
        .extend(callers.join_all().await.into_iter().flatten());
    talk.timer_busy.extend(beside.await.expect("the timer"));
    end(peer, connections).await;
}

/// How late a timer of a millisecond is, again and again. The runtime's own resolution, a millisecond, is part of it.
async fn timer(time: Duration) -> Vec<Duration> {
    let mut late = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let due = Instant::now() + Duration::from_millis(1);
        tokio::time::sleep_until(due.into()).await;
        late.push(due.elapsed());
    }
    late
}
