pub(super) use crate::protocol::process::ProcessEvent as Event;
use crate::protocol::process::{ClosedNotification, ExitedNotification};
use crate::protocol::{encode_notification, encode_output, method};

pub(super) fn frame(event: Event, process_id: &str, seq: u64) -> String {
    let id = || process_id.to_owned();
    match event {
        Event::Output(stream, bytes) => encode_output(process_id, seq, stream, &bytes),
        Event::Exited(exit_code) => encode_notification(
            method::EXITED,
            &ExitedNotification {
                process_id: id(),
                seq,
                exit_code,
                sandbox_denied: Some(false),
            },
        ),
        Event::Closed => encode_notification(
            method::CLOSED,
            &ClosedNotification {
                process_id: id(),
                seq: Some(seq),
            },
        ),
        Event::Gone(mut proof) => {
            proof.seq = seq;
            encode_notification(method::GONE, &proof)
        }
    }
}
