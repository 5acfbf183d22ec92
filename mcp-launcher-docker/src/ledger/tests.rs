use std::fs;

use super::*;

fn place(dir: &tempfile::TempDir) -> Place {
    Place::At(dir.path().to_owned())
}

fn seen(dir: &tempfile::TempDir) -> Vec<ForeignLedger> {
    place(dir).records().others
}

/// As a death does: the lock goes, the file stays.
fn die(ledger: &Ledger) {
    ledger.held.lock().file.unlock().unwrap();
}

#[test]
fn a_held_ledger_is_alive_and_a_dropped_one_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::take(&place(&dir)).unwrap();
    ledger.note("unix:///a").unwrap();
    ledger.note("unix:///a").unwrap();
    let found = seen(&dir);
    assert!(found.iter().all(|other| other.alive));
    assert_eq!(found[0].instance, ledger.instance);
    drop(ledger);
    assert!(seen(&dir).is_empty());
}

#[test]
fn a_ledger_whose_holder_died_tells_where_to_look() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::take(&place(&dir)).unwrap();
    ledger.note("unix:///a").unwrap();
    ledger.note("tcp://b:1").unwrap();
    die(&ledger);
    let found = seen(&dir);
    assert!(!found[0].alive);
    assert_eq!(found[0].endpoints, ["unix:///a", "tcp://b:1"]);
    // Who cleans up holds the lock, so that it is one at a time.
    assert!(seen(&dir)[0].alive);
    for other in found {
        other.forget();
    }
    assert!(seen(&dir).is_empty());
}

#[test]
fn the_sockets_of_a_dead_host_are_removed_with_its_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let [dead, living] = [(); 2].map(|()| Ledger::take(&place(&dir)).unwrap());
    let [gone, kept] = [&dead, &living].map(|of| of.socket(&of.directory, "launch"));
    for socket in [&gone, &kept] {
        fs::write(socket, "").unwrap();
    }
    die(&dead);
    let found = seen(&dir);
    let found = found.into_iter().filter(|other| !other.alive);
    found.for_each(ForeignLedger::forget);
    assert!(!gone.exists());
    assert!(kept.exists());
}

/// As a cleaner of temporary files does, with the files or with all.
#[test]
fn a_ledger_that_was_removed_is_made_again_with_its_domain() {
    for with_directory in [false, true] {
        let above = tempfile::tempdir().unwrap();
        let place = Place::At(above.path().join("ledgers"));
        let ledger = Ledger::take(&place).unwrap();
        ledger.note("unix:///a").unwrap();
        match with_directory {
            true => fs::remove_dir_all(&ledger.directory).unwrap(),
            false => {
                for file in fs::read_dir(&ledger.directory).unwrap() {
                    fs::remove_file(file.unwrap().path()).unwrap();
                }
            }
        }
        assert!(place.records().others.is_empty());
        ledger.refresh();
        let found = place.records();
        assert!(found.others[0].alive);
        assert_eq!(found.others[0].instance, ledger.instance);
        assert_eq!(found.domains, [ledger.domain.as_str()]);
        die(&ledger);
        let found = place.records().others;
        assert_eq!(found[0].endpoints, ["unix:///a"]);
    }
}

#[test]
fn what_is_no_ledger_of_ours_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let fifo = std::process::Command::new("mkfifo")
        .arg(at("a.ledger"))
        .status();
    assert!(fifo.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", at("b.ledger")).unwrap();
    fs::create_dir(at("c.ledger")).unwrap();
    assert!(seen(&dir).is_empty());
}

#[test]
fn a_directory_keeps_its_domain() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of = |dir| Ledger::take(&place(dir)).unwrap().domain.clone();
    assert_eq!(of(&one), of(&one));
    assert_ne!(of(&one), of(&two));
}

#[test]
fn a_damaged_domain_is_named_by_the_launch_that_meets_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("domain");
    fs::write(&file, "half of").unwrap();
    let error = Ledger::take(&place(&dir)).unwrap_err().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    assert!(error.contains("remove it"), "{error}");
    fs::remove_file(file).unwrap();
    Ledger::take(&place(&dir)).unwrap();
}

/// In a process of its own, which the signal would end.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    use nix::errno::Errno;
    use nix::sys::resource::{Resource, setrlimit};

    const ROLE: &str = "MCP_TEST_FILE_SIZES";
    if std::env::var_os(ROLE).is_none() {
        let name = "ledger::tests::a_limit_of_file_sizes_is_an_error";
        let mut host = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = host.args(["--exact", name]).env(ROLE, "1").output();
        let ended = ended.unwrap();
        assert!(ended.status.success(), "{ended:?}");
        return;
    }
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ledger = Ledger::take(&place(&dir)).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0).unwrap();
    for refused in [
        ledger.note("unix:///a"),
        ledger.keep_file("program", b"x").map(drop),
        Ledger::take(&place(&other)).map(drop),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(Errno::EFBIG.desc()), "{error}");
    }
}

/// The name of a directory may change hands, the directory that is open does not.
#[test]
fn what_is_put_in_the_place_of_the_directory_is_not_written_to() {
    let above = tempfile::tempdir().unwrap();
    let at = |name: &str| above.path().join(name);
    let ledger = Ledger::take(&Place::At(at("ledgers"))).unwrap();
    fs::rename(at("ledgers"), at("moved")).unwrap();
    fs::create_dir(at("victim")).unwrap();
    std::os::unix::fs::symlink(at("victim"), at("ledgers")).unwrap();
    ledger.note("unix:///a").unwrap();
    ledger.refresh();
    ledger.keep_file("program", b"x").unwrap();
    assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
    Ledger::take(&Place::At(at("ledgers"))).unwrap_err();
    drop(ledger);
    assert!(!at("moved").read_dir().unwrap().any(|file| {
        let name = file.unwrap().file_name();
        name.to_string_lossy().ends_with(".ledger")
    }));
}

/// Anybody runs it in a container, whatever the host's umask is.
#[test]
fn a_file_for_containers_can_be_executed_by_everybody() {
    use std::os::unix::fs::PermissionsExt;
    const ME: &str = "ledger::tests::a_file_for_containers_can_be_executed_by_everybody";
    if !crate::alone::is_alone(ME, "umask 077") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::take(&place(&dir)).unwrap();
    let mode = || {
        let file = ledger.keep_file("program", b"x").unwrap();
        fs::metadata(file).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o555);
    // As an earlier version left it.
    let file = dir.path().join("program");
    fs::set_permissions(file, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(mode(), 0o555);
}
