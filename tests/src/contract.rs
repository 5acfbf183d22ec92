//! The sentences of the contract that the kit checks, and what to do when one is broken.

/// A sentence of `mcp_lifecycle_core::launch`'s documentation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// A name for what is broken.
    pub(crate) name: &'static str,
    /// Where the sentence is.
    pub(crate) place: &'static str,
    /// The sentence as it is there, without its links.
    pub(crate) sentence: &'static str,
    /// Advice to the author of a launcher that breaks it.
    pub(crate) advice: &'static str,
}

macro_rules! rules {
    ($($rule:ident: $name:literal, $place:literal, $sentence:literal, $advice:literal;)*) => {
        $(pub(crate) static $rule: Rule =
            Rule { name: $name, place: $place, sentence: $sentence, advice: $advice };)*
        #[cfg(test)]
        const ALL: &[&Rule] = &[$(&$rule),*];
    };
}

rules! {
    STARTS: "a server starts", "ServerLauncher::launch",
        "Starts the server that `spec` describes.",
        "run the program of the spec with its arguments, environment and working directory, and with a pipe for each of its three streams";
    STREAMS: "its streams are connected", "LaunchedServer",
        "A started server: its three streams and the means to end it.",
        "give the server pipes for all three streams; a shell runs a command behind `&` with standard input from /dev/null";
    ENVIRONMENT: "its environment", "EnvPolicy",
        "The environment of a server: inherited variables, then those passed by name, then literal values; the last one wins.",
        "clear the environment of the server and set `spec.env().resolve(..)`";
    STDERR: "standard error is kept apart", "LaunchedParts::stderr",
        "The server's stderr, if separate.",
        "give standard error a pipe of its own, or `None`: on standard output only the protocol may appear";
    IDENTITY: "identity", "ProcessTerminator::identity",
        "Returns the server's identity, for logs and operators.",
        "answer with the pid of the process that was started, or with `ServerIdentity::Other`";
    NO_GAP: "no gap", "ServerLauncher",
        "When the future of `launch` is dropped at any await point, or returns an error, nothing of the server is left",
        "give what was started an owner that kills it in its `Drop`, before the first await that follows";
    NO_THREAD: "no thread", "ServerLauncher",
        "The life of a server depends on no thread of the host.",
        "PR_SET_PDEATHSIG comes when the *thread* that forked has ended: fork on a thread that stays as long as the host";
    NO_BLOCKING: "no blocking", "ServerLauncher",
        "No poll of a future blocks the thread.",
        "do what blocks in `spawn_blocking` or on a thread of the launcher";
    NO_STRANGER: "no stranger", "ServerLauncher",
        "Nothing is ended that is identified only by a pid, a name or an image.",
        "recognise what is yours by a cookie in its environment, a cgroup, a label, or pid and start time: never by its command line";
    LIVING: "the living are spared", "ServerLauncher::reap_orphans",
        "Leaves servers of a living host, of this host, and of another machine alone.",
        "end only what belongs to a host that is proven dead";
    ERRORS: "errors come", "ServerLauncher::launch",
        "A `LaunchError` names the command, the problem and its remedy.",
        "return the error of the start at once";
    END_OF_FILE: "end of file arrives", "TerminationSemantics::stdin_eof",
        "Closing stdin reaches the server as end of file.",
        "hold the write end of its standard input once, closed on exec, and never in the server itself; or do not claim `stdin_eof`";
    REQUEST: "the polite signal arrives", "ProcessTerminator::request_end",
        "Asks the whole server to end: SIGTERM (and SIGCONT, for a stopped one).",
        "send SIGTERM and then SIGCONT; or do not claim `polite_signal`";
    REACH: "the end reaches as far as declared", "ProcessTerminator",
        "Server means the main process and whatever it started, as far as `semantics` declares.",
        "signal the group, cgroup or container and not the main process, or declare a narrower `Reach`";
    PROOF: "proof", "ProcessTerminator::gone",
        "Completes on proof that nothing of the server is left.",
        "complete when everybody was reaped or the container is gone, not when the main process has exited or the order was given";
    EXIT: "the exit status", "ProcessTerminator::exited",
        "Completes when the main process has ended for any reason.",
        "keep the status that the wait has returned, and give it to all waiters";
    SURVIVORS: "survivors", "ProcessTerminator::survivors",
        "Lists the living parts of the server.",
        "name the main process while it lives, and nobody after the end";
    ANY_ORDER: "any order", "ProcessTerminator",
        "Every method takes `&self` and may be called concurrently, in any order, again after success, and after the server has ended.",
        "answer with the same after the end, and treat a signal to nobody as success";
    DROPPED_WAIT: "dropped waits", "ProcessTerminator",
        "Dropping a returned future undoes nothing and loses nothing.",
        "keep what `exited` and `gone` tell in a `watch` channel";
    LAST_RESORT: "the last resort", "ProcessTerminator::kill_now",
        "Works in `Drop`, during a panic, and without or after a runtime.",
        "kill by a system call, not by a task or an await";
    NOTHING_KEPT: "nothing is kept", "ProcessTerminator::kill_now",
        "leaves no zombie: the launcher reaps by its own means.",
        "close every descriptor with its server, and wait for each child that is started";
    HOST_DEATH: "the death of the host", "Containment::on_host_death",
        "The reach of the end that follows when the host dies abruptly (SIGKILL, OOM kill), without waiting for a later `reap_orphans`.",
        "declare less, or have somebody outside of the host end the server";
    ATOMIC: "atomic placement", "Containment::placement_is_atomic",
        "`true` if containment is complete before the server's first instruction, so that a host killed at any instant of a launch leaks nothing.",
        "close the hole between the start and the containment (after PR_SET_PDEATHSIG, look whether the parent is still there), or do not claim it";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    /// In the repository only: the package does not hold the core's sources.
    #[test]
    fn each_sentence_is_in_the_documentation_of_the_core() {
        let core = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../mcp-lifecycle-core/src/launch"
        );
        let mut text = String::new();
        for file in std::fs::read_dir(core).unwrap().flatten() {
            text += &std::fs::read_to_string(file.path()).unwrap_or_default();
        }
        let words = |text: &str| {
            let lines = text
                .lines()
                .map(|line| line.trim().trim_start_matches("///"));
            lines
                .flat_map(str::split_whitespace)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let links = |text: String| {
            let mut parts = text.split("](");
            let first = parts.next().unwrap_or_default().to_owned();
            let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
            (first + &rest.collect::<String>()).replace(['[', ']', '*'], "")
        };
        let text = links(words(&text));
        let missing: Vec<_> = ALL
            .iter()
            .filter(|rule| !text.contains(rule.sentence))
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
