//! The same requests, at random, once straight to the engine and once through
//! the proxy: the answers are the same, and so is what is left in the engine.
//!
//! `MCP_PROXY_REQUESTS` of them, from `MCP_PROXY_SEED`.

mod create;
mod exceptions;
mod normal;
mod others;
mod request;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use mcp_launcher_docker::ReapPolicy;
use mcp_lifecycle_conformance::random::Random;
use serde_json::Value;

use super::super::policy;
use super::Tracked;
use crate::support::{PrivateEngine, Rig};
use normal::{Normal, Normaliser};
use request::{Fault, Request};
use wire::{Answer, Client};

/// Requests in each run of a batch, after which the engine is emptied.
const BATCH: usize = 200;

const DEFAULT: usize = 2000;

/// As many differences are shown before it stops.
const SHOWN: usize = 20;

/// Requests on one connection.
struct Talk {
    requests: Vec<Request>,
    pipelined: bool,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_requests_have_the_same_answers() {
    if std::env::var("MCP_DOCKER_TESTS").is_ok_and(|value| value == "skip") {
        return eprintln!("skipped: MCP_DOCKER_TESTS=skip");
    }
    let private = PrivateEngine::start(&[]);
    let rig = Rig::on(private.engine.clone(), "differential");
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let tracked = Tracked::launch(&rig, &tracker).await;
    let engine = rig.engine.host.trim_start_matches("unix://").to_owned();
    let requests = number("MCP_PROXY_REQUESTS").unwrap_or(DEFAULT as u64) as usize;
    let seed = number("MCP_PROXY_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("{requests} requests, MCP_PROXY_SEED={seed}");
    let mut run = Run {
        engine: engine.clone(),
        proxy: tracked.socket.display().to_string(),
        normaliser: Normaliser {
            sockets: (tracked.socket.display().to_string(), engine),
        },
        asked: 0,
        created: 0,
        explained: BTreeMap::new(),
        different: Vec::new(),
    };
    run.empty();
    let mut batch = 0;
    while run.asked < requests && run.different.len() < SHOWN {
        // Any batch can be repeated alone.
        run.batch(seed.wrapping_add(batch));
        batch += 1;
        if batch % 25 == 0 {
            println!("{} asked, {} created", run.asked, run.created);
        }
    }
    println!(
        "{} requests, {} creates, all labelled",
        run.asked, run.created
    );
    for (why, count) in &run.explained {
        println!("{count:6} explained: {why}");
    }
    let report = tracked.server.end(&policy()).await.unwrap();
    assert!(run.different.is_empty(), "{}", run.different.join("\n"));
    assert!(run.created > 0, "nothing was created {report}");
}

struct Run {
    engine: String,
    proxy: String,
    normaliser: Normaliser,
    asked: usize,
    created: usize,
    explained: BTreeMap<&'static str, usize>,
    different: Vec<String>,
}

impl Run {
    fn batch(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        let mut talks = Vec::new();
        let mut count = 0;
        while count < BATCH {
            let talk = talk(&mut random);
            count += talk.requests.len();
            talks.push(talk);
        }
        let straight = self.all(&self.engine.clone(), &talks, seed, false);
        let state = self.state();
        self.empty();
        let proxied = self.all(&self.proxy.clone(), &talks, seed, true);
        let after = self.state();
        self.all_labelled(seed);
        self.empty();
        let before = self.different.len();
        let requests = talks.iter().flat_map(|talk| &talk.requests);
        for (index, request) in requests.enumerate() {
            self.compare(seed, index, request, &straight[index], &proxied[index]);
        }
        if state != after && before == self.different.len() {
            let problem = format!("seed {seed}: another state:\n  {state:?}\n  {after:?}");
            self.different.push(problem);
        }
        self.asked += count;
    }

    /// The answers to all, one list for each request.
    fn all(&mut self, socket: &str, talks: &[Talk], seed: u64, proxied: bool) -> Vec<Vec<Answer>> {
        let mut all = Vec::new();
        let mut last_id = "nobody".to_owned();
        for talk in talks {
            let mut client = Client::new(Path::new(socket));
            let requests = talk.requests.iter();
            let bytes: Vec<_> = requests
                .map(|request| self.bytes(request, &last_id))
                .collect();
            let answers: Vec<Vec<Answer>> = match &talk.requests[..] {
                [one] if one.fault.is_some() => {
                    let truncated = one.fault == Some(Fault::ShortBody);
                    vec![client.raw(&bytes[0], one.is_head(), truncated)]
                }
                requests => {
                    let pairs = bytes.iter().zip(requests);
                    let pairs: Vec<_> = pairs
                        .map(|(bytes, request)| (&bytes[..], request.is_head()))
                        .collect();
                    let answers = client.ask(&pairs, talk.pipelined);
                    answers.into_iter().map(|answer| vec![answer]).collect()
                }
            };
            for (request, answers) in talk.requests.iter().zip(&answers) {
                for id in answers.iter().filter_map(created) {
                    if request.kind != "create" {
                        continue;
                    }
                    if proxied {
                        self.created += 1;
                        self.is_labelled(seed, &id);
                    }
                    last_id = id;
                }
            }
            all.extend(answers);
        }
        all
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
    ) {
        let normal = |answers: &[Answer]| -> Vec<Normal> {
            answers
                .iter()
                .map(|answer| self.normaliser.answer(answer))
                .collect()
        };
        let (left, right) = (normal(straight), normal(proxied));
        if left == right {
            return;
        }
        if let Some(why) = exceptions::explain(request, &left, &right) {
            *self.explained.entry(why).or_default() += 1;
            return;
        }
        let sent = request.bytes("ID");
        let sent = String::from_utf8_lossy(&sent[..sent.len().min(700)]).into_owned();
        self.different.push(format!(
            "seed {seed} request {index} {:?}\n{sent}\n  straight {left:?}\n  proxied  {right:?}\n",
            request.fault
        ));
    }

    fn ask(&self, method: &str, target: &str) -> Answer {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
        let mut client = Client::new(Path::new(&self.engine));
        client.ask(&[(request.as_bytes(), false)], false).remove(0)
    }

    fn is_labelled(&mut self, seed: u64, id: &str) {
        let answer = self.ask("GET", &format!("/containers/{id}/json"));
        let container: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let end = &container["Config"]["Labels"]["dev.mcp-lifecycle.on-end"];
        if answer.status == 200 && end != "end" {
            let problem = format!("seed {seed}: created without labels: {}", answer.text());
            self.different.push(problem);
        }
    }

    fn all_labelled(&mut self, seed: u64) {
        let answer = self.ask("GET", "/containers/json?all=1");
        let all: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
        for one in all {
            if one["Labels"]["dev.mcp-lifecycle.on-end"] != "end" {
                self.different
                    .push(format!("seed {seed}: not labelled: {one}"));
            }
        }
    }

    /// What is in the engine.
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

/// The id of a container that was created.
fn created(answer: &Answer) -> Option<String> {
    let value: Value = serde_json::from_slice(&answer.body).ok()?;
    let id = value.get("Id")?.as_str()?;
    (answer.status == 201).then(|| id.to_owned())
}
