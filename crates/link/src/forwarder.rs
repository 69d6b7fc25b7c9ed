//! The forwarder: one thread that moves frames between the two cables when the model says so.
//!
//! ```text
//!           ring                                              sendmmsg when due
//!  client ──> m0 ──> tap ──> model ──> FIFO of the direction ──> m1 ──> origin
//!  client <── m0 <── FIFO of the direction <── model <── tap <── m1 <── origin
//! ```
//!
//! Instants are nanoseconds of CLOCK_MONOTONIC. A frame counts as arrived when the kernel stamped it, not when this
//! thread got to see it, so a thread that wakes late delays nothing that is not due yet.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::{CpuTime, Histogram};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use crate::LabError;
use crate::lab::{M0, M1};
use crate::model::{Direction, Link, Verdict};
use crate::sys;
use crate::sys::packet::{BATCH, PacketSocket};
use crate::tap::Tap;

/// How long the forwarder rests between batches while frames come without a break. A wake-up costs more than a frame,
/// so a train of frames is served in small batches, each frame late by about this at most, and a single one at once.
const PAUSE: Duration = Duration::from_micros(100);

/// What a forwarder did.
pub struct Forwarded {
    /// What it saw.
    pub tap: Tap,
    /// How late frames left: the instant at which the kernel had taken them, minus the instant set by the model.
    pub lateness: Histogram,
    /// Frames that were lost although the model did not order it: full ring, refused, or too large.
    pub lost: u64,
    /// CPU time of the thread.
    pub cpu: CpuTime,
}

/// A running forwarder.
pub struct Forwarder {
    thread: JoinHandle<nix::Result<Forwarded>>,
    stop: Arc<EventFd>,
}

impl Forwarder {
    /// Starts to forward between the two cables.
    pub fn start(link: Link, socket: PacketSocket) -> Result<Forwarder, LabError> {
        let failed = |error| LabError::setup("starting the forwarder", error);
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|error| failed(error.into()))?);
        let worker = Worker {
            link,
            tap: Tap::new(),
            socket,
            lanes: [VecDeque::new(), VecDeque::new()],
            spare: Vec::new(),
            lateness: Histogram::default(),
            lost: 0,
        };
        let thread = thread::Builder::new()
            .name("forwarder".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || worker.run(&stop)
            })
            .map_err(failed)?;
        Ok(Forwarder { thread, stop })
    }

    /// Stops at once; frames that are still under way are gone.
    pub fn stop(self) -> Result<Forwarded, LabError> {
        let failed = |error| LabError::setup("forwarding packets", error);
        self.stop.write(1).map_err(failed)?;
        let forwarded = self.thread.join().expect("the forwarder does not panic");
        forwarded.map_err(failed)
    }
}

/// A frame that waits until it is due.
struct Waiting {
    due_ns: u64,
    frame: Vec<u8>,
}

struct Worker {
    link: Link,
    tap: Tap,
    /// Both cables.
    socket: PacketSocket,
    /// What is under way, by direction. The model lets no packet overtake another, so it is in order.
    lanes: [VecDeque<Waiting>; 2],
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    lateness: Histogram,
    lost: u64,
}

impl Worker {
    fn run(mut self, stop: &EventFd) -> nix::Result<Forwarded> {
        sys::run_promptly();
        prctl::set_timerslack(1)?;
        let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        let mut armed_ns = None;
        let mut last_ns = 0;
        loop {
            let now_ns = read(ClockId::CLOCK_MONOTONIC)?;
            let admitted = self.admit()?;
            let has_sent = self.deliver()?;
            let is_train = (admitted > 0 || has_sent) && now_ns - last_ns < 2 * PAUSE.as_nanos() as u64;
            last_ns = now_ns;
            // Where a full batch was waiting there is probably more.
            let pause = if admitted < BATCH { PAUSE } else { Duration::ZERO };
            let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let stopped = if is_train {
                ppoll(&mut [watch(stop.as_fd())], Some(TimeSpec::from_duration(pause)), None)? > 0
            } else {
                let next_ns = self.next_due();
                if next_ns != armed_ns {
                    set_alarm(&timer, next_ns)?;
                    armed_ns = next_ns;
                }
                let mut events = [stop.as_fd(), timer.as_fd(), self.socket.as_fd()].map(watch);
                poll(&mut events, PollTimeout::NONE)?;
                let [stopped, _, socket] = events.map(|event| event.revents().unwrap_or(PollFlags::empty()));
                if socket.contains(PollFlags::POLLERR) {
                    return Err(Errno::ENETDOWN);
                }
                !stopped.is_empty()
            };
            if stopped {
                break;
            }
        }
        self.lost += self.socket.take_drops()?;
        let cpu = CpuTime::from_usage(&getrusage(UsageWho::RUSAGE_THREAD)?);
        Ok(Forwarded { tap: self.tap, lateness: self.lateness, lost: self.lost, cpu })
    }

    /// Lets the model judge a batch of the frames that arrived and returns how many it was.
    fn admit(&mut self) -> nix::Result<usize> {
        let now_ns = read(ClockId::CLOCK_MONOTONIC)?;
        let stamps_ahead_ns = read(ClockId::CLOCK_REALTIME)?.wrapping_sub(now_ns);
        let Worker { link, tap, socket, lanes, spare, lost, .. } = self;
        let mut received = 0;
        socket.receive(BATCH, |frame| {
            received += 1;
            // The cables carry IP only. A frame of another kind comes from a privileged program and is not measured.
            let Some(packet) = frame.ip_packet() else { return };
            if frame.is_cut || frame.is_unsegmented() {
                *lost += 1;
                return;
            }
            let direction = if frame.interface == M0.index { Direction::Up } else { Direction::Down };
            let arrived_ns = frame.stamp_ns.wrapping_sub(stamps_ahead_ns).min(now_ns);
            let meta = tap.observe(direction, packet);
            let verdict = link.admit(arrived_ns, direction, &meta);
            tap.verdict(direction, &meta, &verdict);
            if let Verdict::Deliver { due_ns } = verdict {
                let mut buffer = spare.pop().unwrap_or_default();
                buffer.clear();
                buffer.extend_from_slice(frame.bytes);
                lanes[direction.index()].push_back(Waiting { due_ns, frame: buffer });
            }
        });
        Ok(received)
    }

    /// Sends what is due and returns whether anything was.
    fn deliver(&mut self) -> nix::Result<bool> {
        let mut has_sent = false;
        for direction in Direction::BOTH {
            let lane = &mut self.lanes[direction.index()];
            let exit = match direction {
                Direction::Up => M1.index,
                Direction::Down => M0.index,
            };
            loop {
                let now_ns = read(ClockId::CLOCK_MONOTONIC)?;
                let due = lane.iter().take(BATCH).take_while(|waiting| waiting.due_ns <= now_ns);
                let count = due.clone().count();
                if count == 0 {
                    break;
                }
                has_sent = true;
                let sent = self.socket.send(exit, due.map(|waiting| waiting.frame.as_slice()));
                let sent_ns = read(ClockId::CLOCK_MONOTONIC)?;
                for waiting in lane.drain(..sent) {
                    self.lateness.record_us((sent_ns - waiting.due_ns) / 1000);
                    self.spare.push(waiting.frame);
                }
                if sent < count {
                    // The kernel refused the frame that is now the first.
                    self.spare.extend(lane.pop_front().map(|waiting| waiting.frame));
                    self.lost += 1;
                }
            }
        }
        Ok(has_sent)
    }

    /// When the next frame is due.
    fn next_due(&self) -> Option<u64> {
        self.lanes.iter().filter_map(|lane| Some(lane.front()?.due_ns)).min()
    }
}

fn read(clock: ClockId) -> nix::Result<u64> {
    clock_gettime(clock).map(|time| Duration::from(time).as_nanos() as u64)
}

fn set_alarm(timer: &TimerFd, instant_ns: Option<u64>) -> nix::Result<()> {
    match instant_ns {
        Some(instant_ns) => {
            let instant = TimeSpec::from_duration(Duration::from_nanos(instant_ns));
            timer.set(Expiration::OneShot(instant), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
        }
        None => timer.unset(),
    }
}
