//! A relay that writes down what passes it, for tshark to read: a capture that needs no privileges.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use etherparse::PacketBuilder;
use tempfile::TempDir;

use super::output;

/// A relay to a port of this machine.
pub struct Tap {
    port: u16,
    packets: Arc<Mutex<Vec<Vec<u8>>>>,
    folder: TempDir,
}

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

impl Tap {
    /// A relay of TCP connections.
    pub fn tcp(to: u16) -> Tap {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let tap = Tap::new(listener.local_addr().unwrap());
        let packets = Arc::clone(&tap.packets);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).unwrap();
                let ports = [client.peer_addr().unwrap().port(), client.local_addr().unwrap().port()];
                // Bytes so far in each direction, which are what sequence numbers count.
                let counts = Arc::new(Mutex::new([1, 1]));
                for (direction, from, into) in [(0, &client, &server), (1, &server, &client)] {
                    let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    let (packets, counts) = (Arc::clone(&packets), Arc::clone(&counts));
                    thread::spawn(move || {
                        let mut buffer = [0; 16_384];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            let mut packets = packets.lock().unwrap();
                            let mut counts = counts.lock().unwrap();
                            let header = PacketBuilder::ipv4(LOOPBACK, LOOPBACK, 64)
                                .tcp(ports[direction], ports[1 - direction], counts[direction], 65_535)
                                .ack(counts[1 - direction]);
                            let mut packet = Vec::new();
                            header.write(&mut packet, &buffer[..count]).unwrap();
                            packets.push(packet);
                            counts[direction] += count as u32;
                            drop((packets, counts));
                            if into.write_all(&buffer[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = into.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        tap
    }

    /// A relay of one flow of datagrams.
    pub fn udp(to: u16) -> Tap {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        back.connect((Ipv4Addr::LOCALHOST, to)).unwrap();
        let tap = Tap::new(front.local_addr().unwrap());
        let port = tap.port;
        let packets = Arc::clone(&tap.packets);
        thread::spawn(move || {
            let note = move |ports: [u16; 2], datagram: &[u8]| {
                let mut packet = Vec::new();
                let header = PacketBuilder::ipv4(LOOPBACK, LOOPBACK, 64).udp(ports[0], ports[1]);
                header.write(&mut packet, datagram).unwrap();
                packets.lock().unwrap().push(packet);
            };
            let mut buffer = [0; 65_536];
            let (count, client) = front.recv_from(&mut buffer).unwrap();
            note([client.port(), port], &buffer[..count]);
            back.send(&buffer[..count]).unwrap();
            let (front_too, back_too, note_too) = (front.try_clone().unwrap(), back.try_clone().unwrap(), note.clone());
            thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(count) = back_too.recv(&mut buffer) {
                    note_too([port, client.port()], &buffer[..count]);
                    let _ = front_too.send_to(&buffer[..count], client);
                }
            });
            while let Ok(count) = front.recv(&mut buffer) {
                note([client.port(), port], &buffer[..count]);
                let _ = back.send(&buffer[..count]);
            }
        });
        tap
    }

    fn new(address: SocketAddr) -> Tap {
        Tap { port: address.port(), packets: Arc::default(), folder: tempfile::tempdir().unwrap() }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Writes down what has passed until now, as a capture of IP packets.
    pub fn capture(&self) -> PathBuf {
        const RAW_IP: u32 = 101;
        let mut bytes = Vec::new();
        for field in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x4_0000, RAW_IP] {
            bytes.extend_from_slice(&u32::to_ne_bytes(field));
        }
        for (number, packet) in self.packets.lock().unwrap().iter().enumerate() {
            let length = packet.len() as u32;
            for field in [0, number as u32, length, length] {
                bytes.extend_from_slice(&field.to_ne_bytes());
            }
            bytes.extend_from_slice(packet);
        }
        let path = self.folder.path().join("capture.pcap");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// All values of a field that tshark sees in a capture of TLS or QUIC with these keys.
pub fn fields(capture: &Path, keys: &Path, port: u16, field: &str) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture).arg("-o").arg(format!("tls.keylog_file:{}", keys.display()));
    tshark.args(["-d", &format!("tcp.port=={port},tls"), "-d", &format!("udp.port=={port},quic")]);
    tshark.args(["-Y", field, "-T", "fields", "-E", "aggregator=\t", "-e", field]);
    output(&mut tshark).split_whitespace().map(str::to_owned).collect()
}
