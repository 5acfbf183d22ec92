use bytes::Bytes;

use crate::protocol::extension::GoneNotification;
use crate::protocol::process::{ClosedNotification, ExitedNotification, Stream};
use crate::protocol::{encode_notification, encode_output, method};

#[derive(Debug, Clone)]
pub(super) enum Event {
    Output(Stream, Bytes),
    Exited(i64),
    Closed,
    Gone(GoneNotification),
}

impl Event {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Output(_, bytes) => bytes.len(),
            _ => 0,
        }
    }

    pub(super) fn frame(self, process_id: &str, seq: u64) -> String {
        let id = || process_id.to_owned();
        match self {
            Self::Output(stream, bytes) => encode_output(process_id, seq, stream, &bytes),
            Self::Exited(code) => encode_notification(
                method::EXITED,
                &ExitedNotification {
                    process_id: id(),
                    seq,
                    exit_code: Some(code),
                    sandbox_denied: Some(false),
                },
            ),
            Self::Closed => encode_notification(
                method::CLOSED,
                &ClosedNotification {
                    process_id: id(),
                    seq: Some(seq),
                },
            ),
            Self::Gone(mut proof) => {
                proof.seq = seq;
                encode_notification(method::GONE, &proof)
            }
        }
    }
}
