//! The Kubernetes launcher on a real cluster, that of `KUBECONFIG`: as `tests/kubernetes/lane`
//! sets it. `kubectl` is the witness. Without a cluster these tests fail.
//!
//! `faults` and `nodes` one at a time, and alone: they do something to the cluster itself.

mod proxy;
mod support;
mod way;

mod admission;
mod answers;
mod ends;
mod errors;
mod executor;
mod faults;
mod hosts;
mod launches;
mod main_job;
mod nodes;
mod orphans;
mod sessions;
