//! The manager and the pool, measured: ratios of one run on one machine.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench manager -- [PART]... [--scale N]
//! ```
//!
//! Parts: `warm`, `end`, `live`, `refresh`; all of them without a name. `--scale 10`
//! divides the numbers of servers and cycles by ten, for a quick look.

mod common;
mod end;
mod live;
mod refresh;
mod warm;

use common::Options;
use mcp_lifecycle_measure::Run;

fn main() {
    let options = Options::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut run = Run::begin("manager");
    runtime.block_on(async {
        if options.wants("warm") {
            warm::run(&mut run, &options).await;
        }
        if options.wants("end") {
            end::run(&mut run, &options).await;
        }
        if options.wants("live") {
            live::run(&mut run, &options).await;
        }
        if options.wants("refresh") {
            refresh::run(&mut run, &options).await;
        }
    });
    run.finish();
}
