//! Servers that talk, and what an unrelated timer of the same runtime feels of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_measure::{Figure, Run, Series, percentile};
use tokio::task::JoinSet;

use crate::peers::Peer;
use crate::{Scale, Sides, connect, end};

const SERVERS: usize = 500;
const TALK: Duration = Duration::from_secs(6);
const TURNS: usize = 3;

/// All turns of one side, in ascending order.
#[derive(Default)]
struct Talk {
    calls: Vec<Duration>,
    timer_idle: Vec<Duration>,
    timer_busy: Vec<Duration>,
}

pub(crate) async fn run(run: &mut Run, sides: &Sides, scale: &Scale) {
    let (servers, time) = (scale.servers(SERVERS), scale.time(TALK));
    let mut all = ["ours", "ours, process group", "rmcp"].map(|name| (name, Talk::default()));
    for turn in 0..TURNS {
        // The first turn is another's each time.
        for side in (0..all.len()).map(|side| (side + turn) % 3) {
            let talked = &mut all[side].1;
            match side {
                0 => talk(&sides.ours, servers, time, talked).await,
                1 => talk(&sides.group, servers, time, talked).await,
                _ => talk(&sides.theirs, servers, time, talked).await,
            }
        }
    }
    for (_, side) in &mut all {
        side.calls.sort_unstable();
        side.timer_idle.sort_unstable();
        side.timer_busy.sort_unstable();
    }
    let [ours @ .., (_, theirs)] = &all;
    for (name, ours) in ours {
        figures(
            run,
            &format!("{name}: {servers} servers talking"),
            time,
            ours,
            theirs,
        );
    }
    let panels = [
        format!("a call, {servers} servers talking"),
        format!("an unrelated timer of 1 ms beside {servers} talking, late by"),
        format!("the same timer beside {servers} idle servers"),
    ];
    for (name, side) in &all {
        for (panel, times) in panels
            .iter()
            .zip([&side.calls, &side.timer_busy, &side.timer_idle])
        {
            let ms: Vec<f64> = times.iter().copied().map(ms).collect();
            run.series(Series::distribution(panel, name, "ms", &ms));
        }
    }
}

fn figures(run: &mut Run, name: &str, time: Duration, ours: &Talk, theirs: &Talk) {
    let rate = |side: &Talk| side.calls.len() as f64 / (time * TURNS as u32).as_secs_f64();
    let peer = ("rmcp", rate(theirs));
    run.figure(Figure::ratio(
        format!("{name}, calls/s"),
        rate(ours),
        peer,
        "/s",
    ));
    for percent in [50, 99] {
        let of = |times: &[Duration]| ms(percentile(times, percent));
        let call = format!("{name}, call p{percent}");
        run.figure(Figure::ratio(
            call,
            of(&ours.calls),
            ("rmcp", of(&theirs.calls)),
            "ms",
        ));
        let timer = format!("{name}, unrelated timer late by, p{percent}");
        let (late, peer) = (of(&ours.timer_busy), ("rmcp", of(&theirs.timer_busy)));
        run.figure(Figure::ratio(&timer, late, peer, "ms"));
        let idle = ("idle", of(&ours.timer_idle));
        run.figure(Figure::ratio(timer + ", to idle", late, idle, "ms"));
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
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
