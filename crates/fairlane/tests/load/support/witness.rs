use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server of HTTP/1.1 that remembers what it was sent.
pub struct Witness {
    port: u16,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    requests: Vec<Received>,
    connections: usize,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Witness {
    /// Answers everything with status 200 and the body `ok`.
    pub fn start() -> Witness {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let witness = Witness { port: listener.local_addr().unwrap().port(), memory: Arc::default() };
        let memory = Arc::clone(&witness.memory);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                memory.lock().unwrap().connections += 1;
                let memory = Arc::clone(&memory);
                // A client may leave at any time.
                thread::spawn(move || serve(connection, &memory).unwrap_or_default());
            }
        });
        witness
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn requests(&self) -> Vec<Received> {
        self.memory.lock().unwrap().requests.clone()
    }

    /// How many of the requests were for a path.
    pub fn count(&self, path: &str) -> usize {
        self.memory.lock().unwrap().requests.iter().filter(|request| request.path == path).count()
    }

    pub fn connections(&self) -> usize {
        self.memory.lock().unwrap().connections
    }
}

fn serve(mut connection: TcpStream, memory: &Mutex<Memory>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Received { method, path, headers, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body)?;
        memory.lock().unwrap().requests.push(request);
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}
