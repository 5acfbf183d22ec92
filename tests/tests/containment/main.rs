//! What holds servers together, level by level: the cgroup, the guardian that
//! is killed, the host that is killed, and what the next host finds.
//!
//! Every test is a role that this program plays as a process of its own
//! ([`stage`]): as root and as nobody, in a cgroup of its own.

#![cfg(target_os = "linux")]

mod adopted;
mod bytes;
mod dropped_rights;
mod ended;
mod file_size;
mod first_launch;
mod forked;
mod gate;
mod group;
mod guardian_held;
mod guardian_killed;
mod guardian_known;
mod half_launched;
mod hardened;
mod headless;
mod hidden;
mod instants;
mod inventory;
mod kill_first;
mod leavers;
mod leaves;
mod left;
mod namespace;
mod nested;
mod no_log;
mod noexec;
mod orphans;
mod panics;
mod places;
mod removed_directory;
mod shortage;
mod shortage_in_group;
mod sigchld;
mod silent;
mod stage;
mod strangers;
mod stuck;
mod tidy;
mod unkillable;
mod unrecorded;
mod unsaid;
mod unseen;
