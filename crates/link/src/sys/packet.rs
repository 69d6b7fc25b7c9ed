use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_uint, c_void, sockaddr_ll, tpacket_req, tpacket_stats, tpacket2_hdr};
use nix::errno::Errno;

/// Bytes of `struct virtio_net_hdr`, which the kernel puts before each frame. It says among other things which checksum
/// is still to be filled in; handed back with the frame it saves computing any.
const VNET_BYTES: usize = 10;
/// Frames that [`PacketSocket::send`] takes at most.
pub const BATCH: usize = 64;
/// A slot of the ring: headers and the largest Ethernet frame of a 1500-byte packet, rounded up.
const SLOT_BYTES: usize = 2048;
/// Slots of the ring: 8 MB, which is 50 ms of 1500-byte packets at 1 Gbit/s.
const SLOTS: usize = 4096;
const BLOCK_BYTES: usize = 65_536;
/// Where in a slot the kernel puts the address of the sender.
const ADDRESS_OFFSET: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const ANY_INTERFACE: u32 = 0;

/// A frame as it came out of the ring.
pub struct Frame<'a> {
    /// The virtio header and the Ethernet frame, as [`PacketSocket::send`] takes them; complete unless `is_cut`.
    pub bytes: &'a [u8],
    /// Index of the interface at which it arrived.
    pub interface: u32,
    /// Whether the frame did not fit into its slot.
    pub is_cut: bool,
    /// When it arrived, nanoseconds of CLOCK_REALTIME.
    pub stamp_ns: u64,
}

impl<'a> Frame<'a> {
    /// The packet inside when it is IPv4 or IPv6.
    pub fn ip_packet(&self) -> Option<&'a [u8]> {
        const ETHERNET_BYTES: usize = 14;
        let (ethernet, packet) = self.bytes.get(VNET_BYTES..)?.split_at_checked(ETHERNET_BYTES)?;
        matches!(ethernet[12..], [0x08, 0x00] | [0x86, 0xdd]).then_some(packet)
    }

    /// Whether it is a packet of more than one segment, which no wire would carry.
    pub fn is_unsegmented(&self) -> bool {
        const GSO_TYPE: usize = 1;
        self.bytes[GSO_TYPE] != 0
    }
}

/// A packet socket on every interface of a network namespace (`packet(7)`): receives through a ring that it shares with
/// the kernel, in the order of arrival, and sends in batches.
///
/// Its own frames do not come back to it, and what it sends passes by the queueing discipline.
pub struct PacketSocket {
    fd: OwnedFd,
    /// First byte of the mapped ring.
    ring: *mut u8,
    /// The slot that the kernel fills next.
    next: usize,
}

// SAFETY: the ring belongs to this value alone and, like the file descriptor, to the process and not to a thread.
unsafe impl Send for PacketSocket {}

impl PacketSocket {
    /// Opens a socket in the caller's network namespace.
    pub fn open() -> nix::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a plain system call; the result is checked and owned by nobody else. Protocol 0 receives nothing yet.
        let fd = unsafe { OwnedFd::from_raw_fd(Errno::result(libc::socket(libc::AF_PACKET, kind, 0))?) };
        let request = tpacket_req {
            tp_block_size: BLOCK_BYTES as c_uint,
            tp_block_nr: (SLOTS * SLOT_BYTES / BLOCK_BYTES) as c_uint,
            tp_frame_size: SLOT_BYTES as c_uint,
            tp_frame_nr: SLOTS as c_uint,
        };
        set(fd.as_fd(), libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
        set(fd.as_fd(), libc::PACKET_VNET_HDR, &1)?;
        set(fd.as_fd(), libc::PACKET_IGNORE_OUTGOING, &1)?;
        set(fd.as_fd(), libc::PACKET_QDISC_BYPASS, &1)?;
        set(fd.as_fd(), libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice, of exactly the size that was just requested.
        let ring = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), SLOTS * SLOT_BYTES, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if ring == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let socket = PacketSocket { fd, ring: ring.cast(), next: 0 };
        let everything = address(ANY_INTERFACE);
        // SAFETY: the pointer is to a live value of the length that is passed.
        let result = unsafe {
            libc::bind(socket.fd.as_raw_fd(), (&raw const everything).cast(), size_of_val(&everything) as u32)
        };
        Errno::result(result)?;
        Ok(socket)
    }

    /// Shows the frames that wait, but at most `limit` of them, to `visit`, oldest first.
    pub fn receive(&mut self, limit: usize, mut visit: impl FnMut(Frame<'_>)) {
        for _ in 0..limit {
            // SAFETY: `next` is below SLOTS, so the slot lies within the mapping, and the header at its start is
            // aligned (slots are 2048 bytes apart in a page-aligned mapping), as is the address behind it. The status
            // word is the only field that both sides write; it is accessed atomically. Once it reads USER (acquire),
            // the kernel leaves the slot alone until it is set back (release), so the header, the address and the
            // frame, whose place and length the kernel wrote within the slot, can be borrowed until then.
            unsafe {
                let slot = self.ring.add(self.next * SLOT_BYTES);
                let status = AtomicU32::from_ptr(slot.cast());
                if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                    return;
                }
                let header = &*slot.cast::<tpacket2_hdr>();
                let source = &*slot.add(ADDRESS_OFFSET).cast::<sockaddr_ll>();
                let start = usize::from(header.tp_mac) - VNET_BYTES;
                visit(Frame {
                    bytes: slice::from_raw_parts(slot.add(start), VNET_BYTES + header.tp_snaplen as usize),
                    interface: source.sll_ifindex as u32,
                    is_cut: header.tp_snaplen < header.tp_len,
                    stamp_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
                });
                status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            }
            self.next = (self.next + 1) % SLOTS;
        }
    }

    /// Sends the first frames of `frames` through an interface, at most [`BATCH`], and returns how many went out.
    ///
    /// Zero means that the kernel refused the first.
    pub fn send<'a>(&self, interface: u32, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        // SAFETY: both structures are plain integers and pointers, for which all zeros are a value.
        let mut parts: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let mut exit = address(interface);
        let mut count = 0;
        for ((part, message), frame) in parts.iter_mut().zip(&mut messages).zip(frames) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_name = (&raw mut exit).cast();
            message.msg_hdr.msg_namelen = size_of_val(&exit) as u32;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages each point to `exit` and to one part, and each part to a frame that is
        // borrowed for the length of this call. The kernel only reads them.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        sent.max(0) as usize
    }

    /// Frames that found the ring full since the last call.
    pub fn take_drops(&self) -> nix::Result<u64> {
        let mut statistics = tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&statistics) as u32;
        // SAFETY: both pointers are to live values, and `length` is the size of the first.
        let result = unsafe {
            let value = (&raw mut statistics).cast();
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &mut length)
        };
        Errno::result(result)?;
        Ok(statistics.tp_drops.into())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this length, and no frame outlives the call of `receive`.
        unsafe { libc::munmap(self.ring.cast::<c_void>(), SLOTS * SLOT_BYTES) };
    }
}

/// Every protocol on one interface, or on all.
fn address(interface: u32) -> sockaddr_ll {
    sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn set<T>(fd: BorrowedFd<'_>, option: c_int, value: &T) -> nix::Result<()> {
    let length = size_of::<T>() as u32;
    // SAFETY: the pointer is to a live value of the length that is passed; the callers pass what `packet(7)` asks for.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, ptr::from_ref(value).cast(), length) };
    Errno::result(result).map(drop)
}
