//! Misbehaviours that combine: a server does any number of them, in any order,
//! before it serves.
//!
//! Each is one that was seen to break, or was tried in order to break, what
//! holds a server together. All of them run while the process has one thread.

use std::convert::Infallible;
use std::time::Duration;

use crate::program::family::{
    DEAF, Descendant, linger, reexec, start_daemon, start_wiped_daemon, start_wiped_orphan,
};
use crate::program::serve::{Plain, serve};
use crate::program::{Context, exit, sys};

/// The function of an act, called with the number behind its colon.
type Act = fn(&mut Context, u64);

const ACTS: &[(&str, Act)] = &[
    ("helper", |context, _| {
        Descendant::default().start(context, "helper");
    }),
    ("setsid", |context, _| DEAF.start(context, "setsid")),
    ("daemon", |context, _| start_daemon(context)),
    ("wiped", |context, _| start_wiped_daemon(context)),
    ("wiped-orphan", |context, _| start_wiped_orphan(context)),
    ("burst", |context, count| {
        for number in 1..=count {
            DEAF.start_and_go_on(context, &format!("burst-{number}"));
        }
    }),
    ("threads-only", |context, _| {
        DEAF.start_as(context, "threads-only", |context| {
            if let Some(alive) = &context.alive {
                alive.answer_in_background();
            }
            sys::exit_main_thread()
        });
    }),
    ("undumpable", |context, _| {
        DEAF.start_as(context, "undumpable", |context| {
            sys::forbid_dumps();
            linger(context.alive.as_ref())
        });
    }),
    ("other-user", |context, _| {
        DEAF.start_as(context, "other-user", |context| {
            sys::become_nobody();
            linger(context.alive.as_ref())
        });
    }),
    ("own-namespace", |context, _| {
        DEAF.start_as(context, "namespace", |context| {
            sys::new_pid_namespace();
            DEAF.start(context, "namespace-init");
            linger(context.alive.as_ref())
        });
    }),
    ("enter-namespace", |context, holder| {
        // As `nsenter` does: whoever goes there is a child, and does not stay.
        DEAF.start_as(context, "nsenter", |context| {
            sys::next_child_in_namespace_of(holder);
            start_daemon(context);
            std::process::exit(0)
        });
    }),
    ("sub-cgroup", |context, _| {
        DEAF.start_as(context, "sub-cgroup", |context| {
            sys::enter_cgroup("soak-sub");
            linger(context.alive.as_ref())
        });
    }),
    ("leave-cgroup", |_, _| sys::leave_cgroup()),
    ("no-pdeath", |_, _| sys::outlive_parent()),
    ("kill-guardian", |context, after| {
        signal_parent(context, after, nix::libc::SIGKILL);
    }),
    ("stop-guardian", |context, after| {
        signal_parent(context, after, nix::libc::SIGSTOP);
    }),
    #[cfg(target_os = "linux")]
    ("hostile", |context, _| {
        refuse_unrestricted();
        let above = sys::hostile::ancestors();
        attack(&above);
        DEAF.start_as(context, "attacker", |context| {
            attack(&above);
            linger(context.alive.as_ref())
        });
    }),
    #[cfg(target_os = "linux")]
    ("kill-all", |_, _| {
        refuse_unrestricted();
        sys::hostile::kill_all();
    }),
    ("zombies", |context, count| {
        for _ in 0..count {
            sys::fork_into(context.args.lifetime, || {});
        }
    }),
    ("close-stdout", |_, _| sys::close_stdout()),
    ("exec", |context, again| {
        let role = context.args.role.clone();
        let mut command = reexec(context, "acts", &role);
        if again > 1 {
            command.args(["--act", &format!("exec:{}", again - 1)]);
        }
        let error = std::os::unix::process::CommandExt::exec(&mut command);
        exit::refused("exec", error)
    }),
    ("crash", |_, after| {
        sys::crash_after(Duration::from_millis(after));
    }),
];

/// The names of all acts.
pub(super) fn names() -> Vec<&'static str> {
    ACTS.iter().map(|act| act.0).collect()
}

/// Does what `--act` says, then serves.
pub(super) fn run(mut context: Context) -> ! {
    for act in std::mem::take(&mut context.args.acts) {
        let (name, number) = act.split_once(':').unwrap_or((&act, "0"));
        let known = ACTS.iter().find(|known| known.0 == name);
        let (Some((_, perform)), Ok(number)) = (known, number.parse()) else {
            exit::usage(&format!("unknown act {act}"));
        };
        perform(&mut context, number);
    }
    serve(context, &mut Plain)
}

/// Is the first process of a PID namespace that belongs to no server.
pub(super) fn foreign_namespace(context: &Context) -> ! {
    sys::new_pid_namespace();
    DEAF.start(context, "foreign-init");
    linger(context.alive.as_ref())
}

/// Attacks all above this process: its guardian, its host, their cgroups. Each attempt must be
/// refused; one that is not ends the server before its hello.
#[cfg(target_os = "linux")]
fn attack(above: &[nix::libc::c_long]) {
    use sys::hostile::{cgroups, fill_descriptors, limits, signals, traces};
    let mut all = cgroups();
    for pid in above {
        all.extend(signals(*pid));
        all.extend(traces(*pid));
        all.extend(limits(*pid));
    }
    fill_descriptors();
    let through = all.into_iter().filter(|(_, result)| result.is_ok());
    let through: Vec<_> = through.map(|(what, _)| what).collect();
    if !through.is_empty() {
        exit::refused("hostile", format!("not refused: {through:?}"));
    }
}

#[cfg(target_os = "linux")]
fn refuse_unrestricted() {
    if !sys::hostile::is_restricted() {
        exit::refused("hostile", "this process is not restricted");
    }
}

/// A process that lets the guardian be for a while, and then does not.
fn signal_parent(context: &mut Context, after: u64, signal: i32) {
    let Some(parent) = sys::Parent::hold() else {
        return;
    };
    let attacker: &dyn Fn(&Context) -> Infallible = &|context| {
        if let Some(alive) = &context.alive {
            alive.answer_for(Duration::from_millis(after));
        }
        parent.signal(signal);
        linger(context.alive.as_ref())
    };
    DEAF.start_as(context, "attacker", attacker);
}
