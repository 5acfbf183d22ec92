//! The events of a process that are kept, and for how long.

use super::*;

fn output(size: usize) -> Event {
    Event::Output(Stream::Stdout, vec![7; size].into())
}

#[test]
fn a_stream_that_nobody_consumes_fills_its_window_and_no_other() {
    let mut log = Log::new(Keep::Acknowledged, 100, Grant::default());
    log.push(output(100));
    assert_eq!(
        (log.room(Stream::Stdout), log.room(Stream::Stderr)),
        (0, 100)
    );
    log.send(1);
    assert_eq!(log.room(Stream::Stdout), 0, "sent is not consumed");
    log.acknowledge(1, 40, 0);
    assert_eq!(log.room(Stream::Stdout), 40);
}

#[test]
fn what_was_not_acknowledged_is_sent_again_on_another_connection() {
    let mut log = Log::new(Keep::Acknowledged, 100, Grant::default());
    log.push(output(1));
    log.send(1);
    log.push(output(2));
    log.push(Event::Exited(Some(0)));
    while log.send(1).is_some() {}
    log.acknowledge(1, 0, 0);
    log.reattached(1);
    let again: Vec<u64> = std::iter::from_fn(|| log.send(1))
        .map(|(seq, _)| seq)
        .collect();
    assert_eq!(again, [2, 3]);
    log.acknowledge(3, 3, 0);
    assert!(log.is_drained() && !log.has_unsent());
    log.reattached(1);
    assert!(log.send(1).is_none());
    log.push(Event::Closed);
    assert_eq!(log.send(1).map(|(seq, _)| seq), Some(4));
}

#[test]
fn a_connection_that_was_replaced_takes_nothing_from_the_one_that_replaced_it() {
    let mut log = Log::new(Keep::Acknowledged, 100, Grant::default());
    log.push(output(1));
    log.reattached(2);
    assert!(log.send(1).is_none());
    assert_eq!(log.send(2).map(|(seq, _)| seq), Some(1));
}

#[test]
fn a_plain_client_reads_back_what_is_kept() {
    let mut log = Log::new(Keep::Bytes(10_000), 100_000, Grant::default());
    for _ in 0..4 {
        log.push(output(4000));
    }
    log.push(Event::Exited(Some(3)));
    assert_eq!(
        log.read(0, 100_000).chunks.len(),
        4,
        "unsent is never dropped"
    );
    while log.send(1).is_some() {}
    let read = log.read(0, 5000);
    assert_eq!(
        (read.chunks[0].seq, read.next_seq, read.exit_code),
        (3, 4, Some(3))
    );
    assert_eq!(log.read(4, 5).next_seq, 6);
    assert_eq!(log.room(Stream::Stdout), 100_000);
}

#[test]
fn single_bytes_cost_no_more_than_a_few_events() {
    for keep in [Keep::Acknowledged, Keep::Bytes(1 << 20)] {
        let mut log = Log::new(keep, 1 << 20, Grant::default());
        let mut pushed = 0;
        while log.room(Stream::Stdout) > 0 && pushed < 100_000 {
            log.push(output(1));
            pushed += 1;
        }
        assert_eq!(pushed, 100_000);
        assert!(log.entries.len() < 100, "{} events", log.entries.len());
        assert!(log.held < 110_000, "{}", log.held);
        let mut bytes = 0;
        while let Some((_, event)) = log.send(1) {
            bytes += event.bytes();
        }
        assert_eq!(bytes, 100_000);
    }
    // Those that were sent one by one have a bound until they are acknowledged.
    let mut log = Log::new(Keep::Acknowledged, 1 << 20, Grant::default());
    let mut pushed = 0;
    while log.room(Stream::Stdout) > 0 {
        log.push(output(1));
        log.send(1);
        pushed += 1;
    }
    assert_eq!(pushed, MOST_EVENTS);
    log.acknowledge(1, 0, 0);
    assert!(log.room(Stream::Stdout) > 0);
}

#[test]
fn what_a_plain_client_may_read_again_goes_first_when_memory_is_short() {
    let share = crate::quota::without_memory();
    let mut log = Log::new(Keep::Bytes(1 << 20), 1 << 20, Grant::of(&share));
    for _ in 0..100 {
        log.push(output(4096));
        log.send(1);
    }
    assert!(log.held < 140_000, "{}", log.held);
    drop(log);
    assert_ne!(share.room(), 0);
}

#[test]
fn what_a_read_has_shown_does_not_grow_behind_its_number() {
    let mut log = Log::new(Keep::Bytes(1 << 20), 1 << 20, Grant::default());
    log.push(output(1));
    let shown = log.read(0, 100);
    log.push(output(1));
    let rest = log.read(shown.next_seq - 1, 100);
    assert_eq!((rest.chunks[0].seq, rest.chunks[0].chunk.0.len()), (2, 1));
}

#[test]
fn a_hostile_acknowledgement_changes_nothing_it_should_not() {
    let mut log = Log::new(Keep::Acknowledged, 100, Grant::default());
    log.push(output(10));
    log.acknowledge(u64::MAX, u64::MAX, u64::MAX);
    assert!(!log.is_drained(), "it was not sent yet");
    assert_eq!(log.room(Stream::Stdout), 100);
    log.acknowledge(0, 0, 0);
    assert_eq!(log.room(Stream::Stdout), 100);
}
