use std::fs;

use super::*;

fn place(dir: &tempfile::TempDir) -> Place {
    Place::At(dir.path().to_owned())
}

fn seen(dir: &tempfile::TempDir) -> Vec<Other> {
    place(dir).records().others
}

/// As a death does: the lock goes, the file stays.
fn die(lease: &Lease) {
    lease.held().file.unlock().unwrap();
}

#[test]
fn a_held_lease_is_alive_and_a_dropped_one_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::take(&place(&dir)).unwrap();
    lease.note("unix:///a").unwrap();
    lease.note("unix:///a").unwrap();
    let found = seen(&dir);
    assert!(found.iter().all(|other| other.alive));
    assert_eq!(found[0].instance, lease.instance());
    drop(lease);
    assert!(seen(&dir).is_empty());
}

#[cfg_attr(
    windows,
    ignore = "a death closes the file there; to unlock one is refused under wine (error 33)"
)]
#[test]
fn a_lease_whose_holder_died_tells_where_to_look() {
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::take(&place(&dir)).unwrap();
    lease.note("unix:///a").unwrap();
    lease.note("tcp://b:1").unwrap();
    die(&lease);
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

/// As a cleaner of temporary files does, with the files or with all.
#[cfg_attr(
    windows,
    ignore = "a file that is open keeps its name there until it is closed"
)]
#[test]
fn a_lease_that_was_removed_is_made_again_with_its_domain() {
    for with_directory in [false, true] {
        let above = tempfile::tempdir().unwrap();
        let place = Place::At(above.path().join("leases"));
        let lease = Lease::take(&place).unwrap();
        lease.note("unix:///a").unwrap();
        match with_directory {
            true => fs::remove_dir_all(lease.directory()).unwrap(),
            false => {
                for file in fs::read_dir(lease.directory()).unwrap() {
                    fs::remove_file(file.unwrap().path()).unwrap();
                }
            }
        }
        assert!(place.records().others.is_empty());
        lease.refresh();
        let found = place.records();
        assert!(found.others[0].alive);
        assert_eq!(found.others[0].instance, lease.instance());
        assert_eq!(found.domains, [lease.owner().domain.clone()]);
        die(&lease);
        let found = place.records().others;
        assert_eq!(found[0].endpoints, ["unix:///a"]);
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_lease_of_ours_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let fifo = std::process::Command::new("mkfifo")
        .arg(at("a.lease"))
        .status();
    assert!(fifo.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", at("b.lease")).unwrap();
    fs::create_dir(at("c.lease")).unwrap();
    assert!(seen(&dir).is_empty());
}

#[test]
fn a_directory_keeps_its_domain() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of = |dir| Lease::take(&place(dir)).unwrap().owner().domain.clone();
    assert_eq!(of(&one), of(&one));
    assert_ne!(of(&one), of(&two));
}

#[test]
fn a_damaged_domain_is_named_by_the_launch_that_meets_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("domain");
    fs::write(&file, "half of").unwrap();
    let error = Lease::take(&place(&dir)).unwrap_err().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    assert!(error.contains("remove it"), "{error}");
    fs::remove_file(file).unwrap();
    Lease::take(&place(&dir)).unwrap();
}

/// The name of a directory may change hands, the directory that is open does not.
#[cfg(unix)]
#[test]
fn what_is_put_in_the_place_of_the_directory_is_not_written_to() {
    let above = tempfile::tempdir().unwrap();
    let at = |name: &str| above.path().join(name);
    let lease = Lease::take(&Place::At(at("leases"))).unwrap();
    fs::rename(at("leases"), at("moved")).unwrap();
    fs::create_dir(at("victim")).unwrap();
    std::os::unix::fs::symlink(at("victim"), at("leases")).unwrap();
    lease.note("unix:///a").unwrap();
    lease.refresh();
    lease.keep_file("program", b"x").unwrap();
    assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
    Lease::take(&Place::At(at("leases"))).unwrap_err();
    drop(lease);
    assert!(!at("moved").read_dir().unwrap().any(|file| {
        let name = file.unwrap().file_name();
        name.to_string_lossy().ends_with(".lease")
    }));
}

#[test]
fn what_a_killed_host_had_not_named_yet_is_tidied_away() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(&dir);
    let lease = Lease::take(&place).unwrap();
    let home = lease.home();
    for (name, is_old) in [("a.new", true), ("domain.a", true), ("b.new", false)] {
        let file = home.create_new(name, 0o600).unwrap();
        if is_old {
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }
    for name in home.names().unwrap() {
        domain::tidy(&home, &name);
    }
    let mut left = home.names().unwrap();
    left.sort();
    let lease = name_of(lease.instance());
    let mut expected = vec![lease, "b.new".to_owned(), "domain".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
}

/// Anybody runs it in a container, whatever the host's umask is.
#[cfg(unix)]
#[test]
fn a_file_for_containers_can_be_executed_by_everybody() {
    use std::os::unix::fs::PermissionsExt;
    const ME: &str = "lease::tests::a_file_for_containers_can_be_executed_by_everybody";
    if !crate::alone::is_alone(ME, "umask 077") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lease = Lease::take(&place(&dir)).unwrap();
    let mode = || {
        let file = lease.keep_file("program", b"x").unwrap();
        fs::metadata(file).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o555);
    // As an earlier version left it.
    let file = dir.path().join("program");
    fs::set_permissions(file, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(mode(), 0o555);
}
