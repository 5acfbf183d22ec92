//! The Docker launcher, and the tracking of wrapped containers, against a real
//! engine: the one of `DOCKER_HOST`, as `.ci/dockerd run` sets it.
//!
//! Without an engine these tests fail, unless `MCP_DOCKER_TESTS=skip` is set.

mod support;

mod contained;
mod crash;
mod ends;
mod images;
mod launches;
mod ledgers;
mod main_job;
mod middle_box;
mod nested_hosts;
mod odd_engine;
mod options;
mod podman_engine;
mod registry;
mod ssh;
mod supervised;
mod wrapped;
