//! The Docker launcher, and the tracking of wrapped containers, against a real
//! engine: the one of `DOCKER_HOST`, as `.ci/dockerd run` sets it.
//!
//! Without an engine these tests fail, unless `MCP_DOCKER_TESTS=skip` is set.

mod support;

mod crash;
mod ends;
mod images;
mod launches;
mod main_job;
mod options;
mod supervised;
mod wrapped;
