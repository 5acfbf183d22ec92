//! A client that says exactly what a test wants, over a WebSocket.
#![allow(
    clippy::allow_attributes,
    dead_code,
    reason = "each suite uses its part of this module"
)]

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::within;

/// The token that it shows, where one is asked for or not.
pub(crate) const TOKEN: &str = "the-token-of-a-raw-client";

pub(crate) struct Raw {
    pub(crate) socket: WebSocketStream<TcpStream>,
    /// Messages that arrived before somebody asked for them.
    pub(crate) early: VecDeque<Value>,
    next: i64,
}

impl Raw {
    /// Connects; nothing is said yet.
    pub(crate) async fn connect(url: &str) -> Self {
        let address = url.trim_start_matches("ws://");
        let stream = TcpStream::connect(address).await.unwrap();
        Self::over(url, stream).await
    }

    /// As [`connect`](Self::connect), over this stream.
    pub(crate) async fn over(url: &str, stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        let mut request = url.into_client_request().unwrap();
        let token = format!("Bearer {TOKEN}").parse().unwrap();
        request.headers_mut().insert("authorization", token);
        let (socket, _) = within(client_async(request, stream)).await.unwrap();
        Self {
            socket,
            early: VecDeque::new(),
            next: 0,
        }
    }

    /// Connects and shakes hands as a plain client does.
    pub(crate) async fn open(url: &str) -> (Self, Value) {
        Self::open_with(url, json!({"clientName": "raw", "resumeSessionId": null})).await
    }

    /// Connects and shakes hands; also what `initialize` answered.
    pub(crate) async fn open_with(url: &str, params: Value) -> (Self, Value) {
        let mut raw = Self::connect(url).await;
        let hello = raw.request("initialize", params).await.unwrap();
        raw.notify("initialized", json!({})).await;
        (raw, hello)
    }

    /// As [`open`](Self::open), and what to say to come back.
    pub(crate) async fn open_to_resume(url: &str) -> (Self, Value) {
        let (raw, hello) = Self::open(url).await;
        let again = json!({"clientName": "raw", "resumeSessionId": hello["sessionId"]});
        (raw, again)
    }

    pub(crate) async fn text(&mut self, text: String) {
        self.socket.send(Message::Text(text.into())).await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.text(json!({"method": method, "params": params}).to_string())
            .await;
    }

    /// Sends a request and waits for nothing; its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let request = json!({"id": self.next, "method": method, "params": params});
        self.text(request.to_string()).await;
        self.next
    }

    /// Makes a request; its result, or its error.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// The answer to this request.
    pub(crate) async fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let early = self.early.iter().position(|message| message["id"] == id);
        let mut message = early.and_then(|at| self.early.remove(at));
        let answer = loop {
            match message {
                Some(answer) if answer["id"] == id => break answer,
                Some(other) => self.early.push_back(other),
                None => {}
            }
            message = Some(self.read().await.expect("an answer, not the end"));
        };
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// As [`answer`](Self::answer), where the connection may end before it.
    pub(crate) async fn answer_or_end(&mut self, id: i64) -> Option<Value> {
        loop {
            let message = self.read().await?;
            if message["id"] == id {
                return Some(message);
            }
        }
    }

    /// With which code the other end closes the connection; `None` without one.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        within(async {
            loop {
                match self.socket.next().await? {
                    Ok(Message::Close(frame)) => return frame.map(|frame| frame.code.into()),
                    Err(_) => return None,
                    Ok(_) => {}
                }
            }
        })
        .await
    }

    /// The next notification of this kind.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        let wanted = |message: &Value| message["method"] == method;
        if let Some(at) = self.early.iter().position(wanted) {
            return self.early.remove(at).unwrap()["params"].clone();
        }
        loop {
            let message = self.read().await.expect("a notification, not the end");
            if wanted(&message) {
                return message["params"].clone();
            }
            self.early.push_back(message);
        }
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        within(async {
            loop {
                match self.socket.next().await? {
                    Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        })
        .await
    }
}

/// Parameters of `process/start` as codex writes them.
pub(crate) fn start(id: &str, argv: &[&str]) -> Value {
    json!({"processId": id, "argv": argv, "cwd": "file:///tmp", "env": {},
           "tty": false, "pipeStdin": true, "arg0": null})
}
