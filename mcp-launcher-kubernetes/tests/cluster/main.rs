//! The Kubernetes launcher on a real cluster, that of `KUBECONFIG`: as `tests/kubernetes/lane`
//! sets it. `kubectl` is the witness. Without a cluster these tests fail.
//!
//! One at a time: some kill a service of the cluster.

mod support;

mod ends;
mod errors;
mod faults;
mod launches;
mod main_job;
mod orphans;
