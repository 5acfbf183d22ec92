//! The one that `stop` means: by its name, by a pid, or by its ID, in this order.

use serde_json::Value;

use crate::{Place, ends};

fn id_of(place: &Place, name: &str) -> String {
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let mut own = servers.iter().filter(|it| it["name"] == name);
    let id = own.next().unwrap_or_else(|| panic!("{seen:#}"))["id"].as_str();
    assert!(own.next().is_none(), "{seen:#}");
    id.unwrap().to_owned()
}

fn says(place: &Place, words: &[&str]) -> String {
    let refused = place.call(words);
    assert_eq!(refused.status.code(), Some(1), "{words:?}");
    String::from_utf8(refused.stderr).unwrap()
}

fn stopped(place: &Place, wanted: &str) -> Value {
    let said = place.json(&["stop", wanted, "--grace", "0s", "--json"]);
    assert_eq!(said["servers"].as_array().unwrap().len(), 1, "{said:#}");
    assert_eq!(said["servers"][0]["gone"], true, "{said:#}");
    said["servers"][0]["id"].clone()
}

#[test]
fn a_name_comes_before_the_beginning_of_an_id() {
    let place = Place::new("meant");
    let (mut first, first_out) = place.start();
    let first_id = id_of(&place, &place.name);
    // Whoever chooses a name can choose that one.
    let (mut second, second_out) = place.start_with(&["--name", &first_id[..8]]);
    let second_id = id_of(&place, &first_id[..8]);
    assert_eq!(stopped(&place, &first_id[..8]), second_id);
    ends(second_out);
    second.wait().unwrap();
    // Nobody has that name any more.
    assert_eq!(stopped(&place, &first_id[..8]), first_id);
    ends(first_out);
    first.wait().unwrap();
}

#[test]
fn an_id_is_meant_by_as_many_digits_as_are_shown() {
    let place = Place::new("digits");
    let (mut host, stdout) = place.start();
    let id = id_of(&place, &place.name);
    for short in [&id[..4], &id[..7], ""] {
        let why = says(&place, &["stop", short]);
        assert!(why.contains("no server is called"), "{why}");
    }
    let pid = place.json(&["ps", "--json"])["servers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["id"] == id.as_str())
        .unwrap()["leader"]
        .to_string();
    assert_eq!(stopped(&place, &pid), id.as_str());
    ends(stdout);
    host.wait().unwrap();
}
