use super::*;

fn encoded(report: Report<'_>) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_MAX];
    let len = report.encode(&mut buffer);
    buffer[..len].to_vec()
}

fn gone(swept: Listing<'_>) -> Report<'_> {
    Report::Gone {
        status: 9,
        flags: 2,
        swept,
    }
}

#[test]
fn requests_round_trip() {
    for request in [Request::Terminate, Request::Kill, Request::Signal(2)] {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    for junk in [&b""[..], b"X", b"T", b"TK", b"T\0\0"] {
        assert_eq!(Request::decode(junk), None);
    }
}

#[test]
fn reports_round_trip() {
    let mut names = ListingBuilder::new();
    names.push(7, b"sixteen-bytes-ok");
    names.push(8, b"short\0\0\0\0\0\0\0\0\0\0\0");
    for report in [
        Report::Started { pid: 42 },
        Report::ExecFailed {
            stage: Stage::Chdir,
            errno: 2,
        },
        Report::MainExited { status: 0x0700 },
        Report::Adopted { by: 1 },
        Report::Gone {
            status: 9,
            flags: 8,
            swept: names.finish(),
        },
        Report::Gone {
            status: -1,
            flags: u8::MAX,
            swept: names.finish(),
        },
        Report::Gone {
            status: 0,
            flags: 0,
            swept: ListingBuilder::new().finish(),
        },
    ] {
        assert_eq!(Report::decode(&encoded(report)), Some(report));
    }
    let message = encoded(gone(names.finish()));
    let Some(Report::Gone { swept, .. }) = Report::decode(&message) else {
        panic!("it decodes to what it was")
    };
    let named: Vec<_> = swept.processes().collect();
    assert_eq!(named, [(7, &b"sixteen-bytes-ok"[..]), (8, b"short")]);
}

#[test]
fn a_listing_is_bounded_and_counts_the_rest() {
    let mut names = ListingBuilder::new();
    for pid in 0..LISTING_MAX as u32 + 10 {
        names.push(pid, &[b'x'; COMM_LEN]);
    }
    assert_eq!(names.finish().total(), LISTING_MAX as u32 + 10);
    assert_eq!(names.finish().processes().count(), LISTING_MAX);
    assert_eq!(encoded(gone(names.finish())).len(), MESSAGE_MAX);
}

#[test]
fn a_full_listing_is_decoded_and_a_longer_one_is_not() {
    let mut names = ListingBuilder::new();
    for pid in 0..LISTING_MAX as u32 {
        names.push(pid, &[b'x'; COMM_LEN]);
    }
    let report = gone(names.finish());
    let mut message = encoded(report);
    assert_eq!(Report::decode(&message), Some(report));
    names.push(1, b"one more process");
    assert_eq!(encoded(gone(names.finish())).len(), message.len());
    // The total is large enough for another entry, and the message is not.
    message[6] = u8::MAX;
    assert!(Report::decode(&message).is_some());
    message.extend([1; LISTING_ENTRY]);
    assert_eq!(Report::decode(&message), None);
}

#[test]
fn flags_and_numbers_are_apart() {
    let descriptors = [
        CONTROL_FD,
        CGROUP_PROCS_FD,
        CGROUP_KILL_FD,
        LEDGER_FD,
        LEDGER_DIR_FD,
        CGROUP_LEAF_FD,
        RING_FD,
        COMPANION_FD,
        GATE_FD,
        REPORT_FD,
        RULES_FD,
    ];
    let flags = [
        FLAG_PID_NAMESPACE,
        FLAG_ORPHAN,
        FLAG_ALONE,
        FLAG_OWN_VARIABLE,
        FLAG_MEMORY,
        FLAG_FOREGROUND,
    ];
    let all = descriptors.map(flag_of).into_iter().chain(flags);
    let together = all.fold(0, |together, flag| {
        assert_eq!((flag.count_ones(), together & flag), (1, 0), "{flag:b}");
        together | flag
    });
    assert_eq!(together.count_ones(), 17);
    for stage in Stage::ALL {
        assert_eq!(Stage::from_byte(stage as u8), Some(stage));
    }
}

#[test]
fn malformed_reports_are_refused() {
    // Every prefix and every one-byte extension of every valid message, and every tag with bodies
    // of every small length.
    let valid = [
        encoded(Report::Started { pid: 1 }),
        encoded(Report::ExecFailed {
            stage: Stage::Exec,
            errno: 13,
        }),
        encoded(Report::MainExited { status: 9 }),
        encoded(Report::Adopted { by: 1 }),
        encoded(gone(ListingBuilder::new().finish())),
    ];
    for message in &valid {
        for len in 0..message.len() {
            assert_eq!(Report::decode(&message[..len]), None);
        }
        let longer: Vec<u8> = message.iter().copied().chain([0]).collect();
        assert_eq!(Report::decode(&longer), None);
    }
    for tag in 0..=u8::MAX {
        for len in 0..64 {
            let mut message = vec![0xff; len + 1];
            message[0] = tag;
            let _ = Report::decode(&message);
        }
    }
    assert_eq!(
        Report::decode(&[EXEC_FAILED, 0, 0, 0, 0, 0]),
        None,
        "no such stage"
    );
    assert_eq!(
        Report::decode(
            &[GONE, 0, 0, 0, 0, 0, 0, 0, 0, 0]
                .into_iter()
                .chain([1; LISTING_ENTRY])
                .collect::<Vec<_>>()
        ),
        None,
        "more than the total"
    );
    assert_eq!(
        Report::decode(&[GONE, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]),
        None,
        "a torn entry"
    );
}
