//! Servers in job objects, on Windows or under wine: `tests/run windows`. Elsewhere there is nothing to test.
//!
//! Each process that is tested holds a connection to the test: its end is the end of the process.

#[cfg(windows)]
mod alive;
#[cfg(windows)]
mod cases;
#[cfg(windows)]
mod fixture;
#[cfg(windows)]
mod measures;
#[cfg(windows)]
mod owners;
#[cfg(windows)]
mod scripts;
#[cfg(windows)]
mod system;
#[cfg(windows)]
#[path = "../../../tests/src/wine.rs"]
#[expect(
    unreachable_pub,
    reason = "it is a module of the kit, whose crate depends on this one"
)]
mod wine;

#[cfg(windows)]
fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(fixture::MARK) {
        fixture::run(arguments.collect());
        return;
    }
    let tests = [
        cases::tests(),
        scripts::tests(),
        owners::tests(),
        measures::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    let mut arguments = libtest_mimic::Arguments::from_args();
    // They measure, and each starts many processes.
    arguments.test_threads = Some(1);
    let conclusion = libtest_mimic::run(&arguments, tests);
    wine::report();
    conclusion.exit();
}

#[cfg(not(windows))]
fn main() {}
