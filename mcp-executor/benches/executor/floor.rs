//! The least cost of a call: blocking threads that pass bytes on and know of
//! no protocol, on a pipe, and with a process and a TCP connection in between.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REQUEST: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}
"#;

/// The first argument of this program when it is to be the process in between.
const RELAY: &str = "--relay";

/// Never returns in the process in between.
pub(crate) fn relay_if_asked() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(RELAY) {
        return;
    }
    let echo = args.next().expect("a server to pass bytes to");
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    println!("{}", listener.local_addr().expect("bound"));
    let (client, _) = listener.accept().expect("accepts");
    client.set_nodelay(true).expect("a TCP socket");
    let mut server = spawn(&mut Command::new(echo));
    let (mut stdin, mut stdout) = (server.stdin.take(), server.stdout.take());
    let mut of_client = client.try_clone().expect("clones");
    std::thread::spawn(move || pass(&mut of_client, stdin.as_mut().expect("piped")));
    pass(stdout.as_mut().expect("piped"), &mut &client);
    std::process::exit(0);
}

/// Directly, over two pipes.
pub(crate) fn pipe(echo: &str, calls: usize) -> Duration {
    let mut server = spawn(&mut Command::new(echo));
    let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let taken = median(stdin.expect("piped"), stdout.expect("piped"), calls);
    end(server);
    taken
}

/// Over a process in between.
pub(crate) fn relay(echo: &str, calls: usize) -> Duration {
    let this = std::env::current_exe().expect("this program");
    let mut relay = spawn(Command::new(this).args([RELAY, echo]));
    let mut address = String::new();
    let mut says = BufReader::new(relay.stdout.take().expect("piped"));
    says.read_line(&mut address).expect("says its address");
    let stream = TcpStream::connect(address.trim()).expect("connects");
    stream.set_nodelay(true).expect("a TCP socket");
    let taken = median(stream.try_clone().expect("clones"), stream, calls);
    end(relay);
    taken
}

fn spawn(command: &mut Command) -> Child {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.spawn().expect("starts")
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn pass(from: &mut impl io::Read, to: &mut impl io::Write) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

fn median(mut to: impl Write, from: impl io::Read, calls: usize) -> Duration {
    let mut from = BufReader::new(from);
    let mut line = String::new();
    let mut taken = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begun = Instant::now();
        to.write_all(REQUEST).expect("writes");
        line.clear();
        from.read_line(&mut line).expect("answers");
        taken.push(begun.elapsed());
        assert!(line.contains("hello"), "{line}");
    }
    taken.sort_unstable();
    taken[calls / 2]
}
