use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// A server of HTTP/1.1 that works on one request at a time, first come, first served, each for the same time: the
/// server of a queue whose behaviour is known.
pub struct Service {
    port: u16,
    served: Arc<AtomicU64>,
}

/// A request that waits for its turn: when it arrived, and where its response goes.
type Customer = (Instant, TcpStream);

impl Service {
    pub fn start(time: Duration) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Service { port: listener.local_addr().unwrap().port(), served: Arc::default() };
        let (sender, customers) = mpsc::channel();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || receive(connection, &sender).unwrap_or_default());
            }
        });
        let served = Arc::clone(&service.served);
        thread::spawn(move || work(&customers, time, &served));
        service
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Requests that were served.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

/// Takes the requests of a connection; they have no bodies.
fn receive(connection: TcpStream, sender: &Sender<Customer>) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        if line == "\r\n" {
            let _ = sender.send((Instant::now(), connection.try_clone()?));
        }
        line.clear();
    }
    Ok(())
}

/// Serves one after the other. A turn ends at a time that follows from the arrivals alone: waking up late delays one
/// response and not the ones after it.
fn work(customers: &Receiver<Customer>, time: Duration, served: &AtomicU64) {
    let mut free = Instant::now();
    for (arrived, mut connection) in customers {
        free = free.max(arrived) + time;
        thread::sleep(free.saturating_duration_since(Instant::now()));
        served.fetch_add(1, Ordering::Relaxed);
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
}
