//! Batches of requests, straight and through the proxy, compared.

use std::path::Path;

use mcp_lifecycle_conformance::random::Random;
use serde_json::Value;

use super::exceptions;
use super::normal::{Normal, Normaliser};
use super::request::{Fault, Request};
use super::tally::Tally;
use super::wire::{Answer, Client, Late};

/// Requests in each run of a batch, after which the engine is emptied.
const BATCH: usize = 200;

/// How often a batch with a late answer is run, each time with more patience.
const TRIES: u32 = 4;

/// Requests on one connection.
struct Talk {
    requests: Vec<Request>,
    pipelined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    Proxied,
}

/// The meaning of two answers for the rest of their batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It can be compared.
    Settled,
    /// They have not changed the same, for a reason that is known: what comes after it
    /// differs for that.
    Apart,
    /// One of them is not there yet.
    Late,
}

/// An engine, and the proxy of a server in front of it.
pub(super) struct Run {
    engine: String,
    proxy: String,
    normaliser: Normaliser,
    tally: Tally,
    /// A connection of this batch has ended without an answer.
    has_lost: bool,
}

impl Run {
    pub(super) fn new(engine: String, proxy: String) -> Self {
        let run = Self {
            normaliser: Normaliser {
                sockets: (proxy.clone(), engine.clone()),
            },
            engine,
            proxy,
            tally: Tally::default(),
            has_lost: false,
        };
        run.empty();
        run
    }

    /// Asks what comes of this seed on either way, and compares.
    ///
    /// An answer that is late may be missing, and a request whose answer was lost may be
    /// carried out twice: then nothing of the batch is compared, and it is asked again.
    pub(super) fn batch(&mut self, seed: u64) -> Tally {
        let mut again = Vec::new();
        for patience in 1..=TRIES {
            match self.try_batch(seed, patience) {
                Ok(()) => break,
                Err(Late(what)) => {
                    println!("seed {seed}: {what}");
                    self.tally = Tally::default();
                    if patience == TRIES {
                        let problem = format!("seed {seed}: {what}, {TRIES} times");
                        self.tally.different.push(problem);
                    } else {
                        again.push(format!("seed {seed}: {what}"));
                    }
                }
            }
        }
        let tally = std::mem::take(&mut self.tally);
        Tally { again, ..tally }
    }

    fn try_batch(&mut self, seed: u64, patience: u32) -> Result<(), Late> {
        self.has_lost = false;
        let mut random = Random::new(seed);
        let mut talks = Vec::new();
        let mut count = 0;
        while count < BATCH {
            let talk = talk(&mut random);
            count += talk.requests.len();
            talks.push(talk);
        }
        self.empty();
        let straight = self.all(&talks, seed, patience, Way::Straight)?;
        let state = self.state();
        self.empty();
        let proxied = self.all(&talks, seed, patience, Way::Proxied)?;
        let after = self.state();
        self.all_labelled(seed);
        let requests = talks.iter().flat_map(|talk| &talk.requests);
        for (index, request) in requests.enumerate() {
            self.tally.asked += 1;
            match self.compare(seed, index, request, &straight[index], &proxied[index]) {
                Verdict::Settled => {}
                // The engines are not the same any more.
                Verdict::Apart => return Ok(()),
                Verdict::Late => {
                    let target = &request.target;
                    return Err(Late(format!("an answer to {target}, on one way")));
                }
            }
        }
        if state != after && self.tally.different.is_empty() {
            let problem = format!("seed {seed}: another state:\n  {state:?}\n  {after:?}");
            self.tally.different.push(problem);
        }
        if self.has_lost && !self.tally.different.is_empty() && patience < TRIES {
            return Err(Late("an answer was lost, and others differ".to_owned()));
        }
        Ok(())
    }

    /// The answers to all, one list for each request.
    fn all(
        &mut self,
        talks: &[Talk],
        seed: u64,
        patience: u32,
        way: Way,
    ) -> Result<Vec<Vec<Answer>>, Late> {
        let mut all = Vec::new();
        let mut last_id = "nobody".to_owned();
        let socket = match way {
            Way::Straight => self.engine.clone(),
            Way::Proxied => self.proxy.clone(),
        };
        for talk in talks {
            let mut client = Client::new(Path::new(&socket), patience);
            let requests = talk.requests.iter();
            let bytes: Vec<_> = requests
                .map(|request| self.bytes(request, &last_id))
                .collect();
            let answers: Result<Vec<Vec<Answer>>, Late> = match &talk.requests[..] {
                [one] if one.fault.is_some() => {
                    let truncated = one.fault == Some(Fault::ShortBody);
                    let answers = client.raw(&bytes[0], one.is_head(), truncated);
                    answers.map(|answers| vec![answers])
                }
                requests => {
                    let pairs = bytes.iter().zip(requests);
                    let pairs: Vec<_> = pairs
                        .map(|(bytes, request)| (&bytes[..], request.is_head()))
                        .collect();
                    let answers = client.ask(&pairs, talk.pipelined);
                    answers.map(|all| all.into_iter().map(|answer| vec![answer]).collect())
                }
            };
            self.has_lost |= client.has_lost;
            let answers = answers.map_err(|Late(what)| {
                let first = &talk.requests[0];
                let count = talk.requests.len();
                let sent = shown(&first.bytes("ID"));
                Late(format!(
                    "{what}, {way:?}, {count} requests, {:?}\n{sent}\n",
                    first.fault
                ))
            })?;
            for (request, answers) in talk.requests.iter().zip(&answers) {
                for id in answers.iter().filter_map(created) {
                    if request.kind != "create" {
                        continue;
                    }
                    if way == Way::Proxied {
                        self.tally.created += 1;
                        self.is_labelled(seed, &id);
                    }
                    last_id = id;
                }
            }
            all.extend(answers);
        }
        Ok(all)
    }

    fn bytes(&self, request: &Request, last_id: &str) -> Vec<u8> {
        let mut request = request.clone();
        let socket = self.engine.as_bytes();
        let marker = b"@SOCKET@";
        let at = |body: &[u8]| body.windows(marker.len()).position(|part| part == marker);
        while let Some(at) = at(&request.body) {
            let place = at..at + marker.len();
            drop(request.body.splice(place, socket.iter().copied()));
        }
        request.bytes(last_id)
    }

    fn compare(
        &mut self,
        seed: u64,
        index: usize,
        request: &Request,
        straight: &[Answer],
        proxied: &[Answer],
    ) -> Verdict {
        let normal = |answers: &[Answer]| -> Vec<Normal> {
            answers
                .iter()
                .map(|answer| self.normaliser.answer(answer))
                .collect()
        };
        let (left, right) = (normal(straight), normal(proxied));
        if left == right {
            return Verdict::Settled;
        }
        if let Some(why) = exceptions::explain(request, &left, &right) {
            *self.tally.explained.entry(why).or_default() += 1;
            let succeeds = |one: &Normal| (200..300).contains(&one.status);
            let has_changed = !is_safe(request) && left.iter().chain(&right).any(succeeds);
            return match has_changed {
                true => Verdict::Apart,
                false => Verdict::Settled,
            };
        }
        if is_one_late(straight, proxied) {
            return Verdict::Late;
        }
        let sent = shown(&request.bytes("ID"));
        let problem = format!(
            "seed {seed} request {index} {:?}\n{sent}\n  straight {left:?}\n  proxied  {right:?}\n",
            request.fault
        );
        println!("{problem}");
        self.tally.different.push(problem);
        Verdict::Settled
    }

    fn ask(&self, method: &str, target: &str) -> Answer {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
        let mut client = Client::new(Path::new(&self.engine), TRIES);
        let answers = client.ask(&[(request.as_bytes(), false)], false);
        answers.expect("the engine answers").remove(0)
    }

    fn is_labelled(&mut self, seed: u64, id: &str) {
        let answer = self.ask("GET", &format!("/containers/{id}/json"));
        let container: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status == 200 && !is_ours(&container["Config"]["Labels"]) {
            let problem = format!("seed {seed}: created without labels: {}", answer.text());
            self.unlabelled(problem);
        }
    }

    fn all_labelled(&mut self, seed: u64) {
        let answer = self.ask("GET", "/containers/json?all=1");
        let all: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
        for one in all {
            if !is_ours(&one["Labels"]) {
                self.unlabelled(format!("seed {seed}: not labelled: {one}"));
            }
        }
    }

    fn unlabelled(&mut self, problem: String) {
        self.tally.unlabelled += 1;
        self.tally.different.push(problem);
    }

    /// The contents of the engine.
    fn state(&self) -> Vec<String> {
        let places = [
            "/containers/json?all=1",
            "/images/json",
            "/volumes",
            "/networks",
        ];
        let answers = places.map(|place| self.ask("GET", place).body);
        answers
            .iter()
            .map(|body| self.normaliser.body(body))
            .collect()
    }

    /// Removes everything but the image.
    fn empty(&self) {
        let list = |place: &str| -> Vec<Value> {
            serde_json::from_slice(&self.ask("GET", place).body).unwrap()
        };
        for container in list("/containers/json?all=1") {
            let id = container["Id"].as_str().unwrap();
            self.ask("DELETE", &format!("/containers/{id}?force=1&v=1"));
        }
        for image in list("/images/json?all=1") {
            let is_ours = |tags: &Vec<Value>| tags.iter().any(|tag| tag == "mcp-fixture:test");
            if !image["RepoTags"].as_array().is_some_and(is_ours) {
                let id = image["Id"].as_str().unwrap();
                self.ask("DELETE", &format!("/images/{id}?force=1"));
            }
        }
        for volume in ["v0", "v1", "v2"] {
            self.ask("DELETE", &format!("/volumes/{volume}?force=1"));
        }
        self.ask("POST", "/volumes/prune");
        self.ask("POST", "/networks/prune");
    }
}

/// The beginning of a request, to be read by a person.
fn shown(request: &[u8]) -> String {
    let beginning = &request[..request.len().min(700)];
    String::from_utf8_lossy(beginning).into_owned()
}

fn talk(random: &mut Random) -> Talk {
    let first = Request::random(random);
    let mut requests = vec![first];
    let count = match random.below(4) {
        0 => 2 + random.below(5) as usize,
        _ => 1,
    };
    while requests[0].fault.is_none() && requests.len() < count {
        let next = Request::random(random);
        if next.fault.is_none() {
            requests.push(next);
        }
    }
    let pipelined = random.percent(30);
    if pipelined {
        // The engine answers an expectation by the end of the connection.
        for request in &mut requests {
            let headers = &mut request.headers;
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("expect"));
        }
    }
    Talk {
        requests,
        pipelined,
    }
}

/// Tells a request that changes nothing, whatever comes of it.
fn is_safe(request: &Request) -> bool {
    ["GET", "HEAD"].contains(&&*request.method)
}

/// Tells an answer, or the end of one, that one way has and the other does not, or not yet.
fn is_one_late(left: &[Answer], right: &[Answer]) -> bool {
    if left
        .iter()
        .map(|one| one.endless)
        .ne(right.iter().map(|one| one.endless))
    {
        return true;
    }
    let (fewer, more) = match left.len() < right.len() {
        true => (left, right),
        false => (right, left),
    };
    fewer.len() < more.len() && fewer.last().is_some_and(|last| last.then_silence)
}

/// The id of a container that was created.
fn created(answer: &Answer) -> Option<String> {
    let value: Value = serde_json::from_slice(&answer.body).ok()?;
    let id = value.get("Id")?.as_str()?;
    (answer.status == 201).then(|| id.to_owned())
}

/// Returns whether the proxy's host has labelled it: an instance is of 32 digits, others were made up.
fn is_ours(labels: &Value) -> bool {
    let mut labels = labels.as_object().into_iter().flatten();
    labels.any(|(key, value)| {
        let own = key.strip_prefix("dev.mcp-lifecycle.");
        let own = own.and_then(|own| own.strip_suffix(".on-end"));
        own.is_some_and(|instance| instance.len() == 32) && value == "end"
    })
}
