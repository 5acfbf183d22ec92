//! A guardian without a server, which waits to be told what to start.
//!
//! It holds nothing of any server. Whatever else it hears or sees, and an end of its host above all, is its end.

use crate::control::{Control, Ordered};
use crate::launch::Ready;
use crate::params::Params;
use crate::order_format::ORDER_FDS_MAX;
use crate::record::Record;
use crate::sys::{self, Args, Fd, Nanos, PollFd};

/// Waits for an order: its arguments, and with `params` the rest of it. `None`: there will be none, and nothing is left.
pub(crate) fn wait(params: &mut Params<'_>, control: &mut Control, ready: &Ready) -> Option<Args> {
    sys::set_name(c"mcp-guardian");
    // Not to keep the host's directory busy.
    let _ = sys::chdir(c"/");
    let order = loop {
        let mut fds = [control.events(), PollFd::readable(ready.host.as_ref())];
        sys::poll(&mut fds, None);
        let [_, host] = fds;
        match control.receive_order() {
            // A host that has died meanwhile wants nothing started.
            Ordered::Order(order) if !host.ready() => break order,
            Ordered::Nothing if !host.ready() => {}
            _ => {
                // The host removes it as well, if it lives.
                let _ = Record::take(params).end(None);
                return None;
            }
        }
    };
    params.grace = Nanos(u64::from(order.header.grace) * 1_000_000);
    params.cwd = (!order.cwd.is_empty()).then_some(order.cwd);
    params.program = order.program;
    params.first = 0;
    // From here on the cgroup is the host's to remove, as always.
    params.cgroup_dir = None;
    let [stdin, stdout, stderr, directory] = order.fds;
    const { assert!(ORDER_FDS_MAX == 4, "the descriptors above") };
    params.directory = directory;
    let streams: [Option<Fd>; 3] = [stdin, stdout, stderr];
    for (number, stream) in (0..).zip(&streams) {
        let put = stream.as_ref().map(|stream| sys::become_stream(stream, number));
        if !matches!(put, Some(Ok(()))) {
            return None;
        }
    }
    Some(order.args)
}
