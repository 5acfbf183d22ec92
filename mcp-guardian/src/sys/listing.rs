//! The output of `ps -A -o pgid= -o pid= -o stat= -o comm=`. Pure.

use super::{Member, Pid};

/// Returns the live members of `group`; zombies do not count.
pub(super) fn members(listing: &str, group: Pid) -> Vec<Member> {
    let member = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let pgid = fields.next()?.parse::<i64>().ok()?;
        let pid = Pid::new(fields.next()?.parse().ok()?)?;
        let is_zombie = fields.next()?.starts_with('Z');
        let name = fields.collect::<Vec<_>>().join(" ");
        (Pid::new(pgid) == Some(group) && !is_zombie).then_some(Member { pid, name })
    };
    listing.lines().filter_map(member).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_living_of_one_group_are_listed() {
        let listing = "    1     1 Ss   init\n   40    40 Z    sh\n   40    41 S+   a b\n\
                       400   402 R    other\n   40 garbage S x\n   40    43 T\n\n";
        let seen: Vec<_> = members(listing, Pid::new(40).unwrap())
            .into_iter()
            .map(|member| (member.pid.as_u32(), member.name))
            .collect();
        assert_eq!(seen, [(41, "a b".to_owned()), (43, String::new())]);
    }

    #[test]
    fn ps_of_this_system_is_understood() {
        // A new group: the tests' own may have no number in their namespace.
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let ps = Command::new("ps")
            .args([
                "-A", "-o", "pgid=", "-o", "pid=", "-o", "stat=", "-o", "comm=",
            ])
            .output();
        drop(child.stdin.take());
        child.wait().unwrap();
        let Ok(ps) = ps else {
            eprintln!("SKIPPED: this system has no ps(1), and no need of one");
            return;
        };
        let group = Pid::new(child.id().into()).unwrap();
        let members = members(&String::from_utf8_lossy(&ps.stdout), group);
        let cat = Member {
            pid: group,
            name: "cat".to_owned(),
        };
        assert_eq!(members, [cat]);
    }
}
