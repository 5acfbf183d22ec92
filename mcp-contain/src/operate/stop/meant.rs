//! Resolves an argument to servers. Pure.

/// Minimum number of digits of an ID, as `ps` shows.
pub(super) const SHOWN: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Called<'a> {
    pub(super) name: String,
    pub(super) id: &'a str,
    pub(super) pids: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Name,
    Pid,
    Id,
}

/// Returns the matching servers, by the whole name, or a pid, or the beginning of an ID.
pub(super) fn meant(servers: &[Called<'_>], word: &str) -> Option<(By, Vec<usize>)> {
    let those = |is_meant: &dyn Fn(&Called<'_>) -> bool| -> Vec<usize> {
        let all = servers.iter().enumerate();
        all.filter(|(_, it)| is_meant(it))
            .map(|(at, _)| at)
            .collect()
    };
    let pid = word.parse::<u32>().ok();
    let is_id = word.len() >= SHOWN;
    [
        (By::Name, those(&|it| it.name == word)),
        (
            By::Pid,
            those(&|it| pid.is_some_and(|pid| it.pids.contains(&pid))),
        ),
        (By::Id, those(&|it| is_id && it.id.starts_with(word))),
    ]
    .into_iter()
    .find(|(_, those)| !those.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "00004321aaaaaaaa";
    const SECOND: &str = "00004321bbbbbbbb";

    fn server<'a>(name: &str, id: &'a str, pids: &[u32]) -> Called<'a> {
        Called {
            name: name.to_owned(),
            id,
            pids: pids.to_owned(),
        }
    }

    #[test]
    fn a_name_is_before_a_pid_and_that_before_an_id() {
        let all = [
            server("4321", SECOND, &[7, 8]),
            server("00004321", FIRST, &[4321, 9]),
            server("twice", "1111111100000000", &[4321]),
            server("twice", "2222222200000000", &[]),
        ];
        for (word, expected) in [
            ("4321", Some((By::Name, vec![0]))),
            ("00004321", Some((By::Name, vec![1]))),
            ("twice", Some((By::Name, vec![2, 3]))),
            ("8", Some((By::Pid, vec![0]))),
            ("00004321aa", Some((By::Id, vec![1]))),
            (SECOND, Some((By::Id, vec![0]))),
            ("11111111", Some((By::Id, vec![2]))),
            ("1111111", None),
            ("", None),
            ("twic", None),
        ] {
            assert_eq!(meant(&all, word), expected, "{word}");
        }
        // Without the name, the same digits are a pid, and then an ID, of whomever.
        assert_eq!(meant(&all[1..], "4321"), Some((By::Pid, vec![0, 1])));
        let unnamed = [server("a", FIRST, &[]), server("b", SECOND, &[])];
        assert_eq!(meant(&unnamed, "00004321"), Some((By::Id, vec![0, 1])));
    }
}
