//! The manager and the pool, measured: ratios of one run on one machine.
//!
//! ```text
//! cargo bench -p mcp-lifecycle-conformance --bench manager -- [PART]... [--scale N]
//! ```
//!
//! Parts: `warm`, `end`, `live`, `refresh`; all of them without a name. `--scale 10`
//! divides the numbers of servers and cycles by ten, for a quick look.
//! `refresh` writes a plot to `--svg FILE` (`manager-refresh.svg`).

mod common;
mod end;
mod live;
mod plot;
mod refresh;
mod warm;

use common::Options;

fn main() {
    let options = Options::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        if options.wants("warm") {
            warm::run(&options).await;
        }
        if options.wants("end") {
            end::run(&options).await;
        }
        if options.wants("live") {
            live::run(&options).await;
        }
        if options.wants("refresh") {
            refresh::run(&options).await;
        }
    });
}
