use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn link(text: &str) -> Link {
    Link::new(&Profile::parse(text).unwrap(), 1)
}

fn packet(ip_bytes: u32) -> PacketMeta {
    PacketMeta { ip_bytes, key: None, flow: None }
}

fn keyed(kind: LossKind, cell: u64) -> PacketMeta {
    PacketMeta { key: Some(LossKey { flow: 0, kind, cell, nth: 0 }), ..packet(1500) }
}

fn due(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::Deliver { due_ns } => due_ns,
        Verdict::Drop(reason) => panic!("dropped: {reason}"),
    }
}

#[test]
fn without_limits_a_packet_is_due_at_once() {
    let mut link = link("online");
    assert_eq!(link.admit(17, Direction::Up, &packet(1500)), Verdict::Deliver { due_ns: 17 });
}

#[test]
fn the_delay_of_each_direction_is_its_own() {
    let mut link = link("delay=30ms/20ms");
    assert_eq!(due(link.admit(5, Direction::Down, &packet(40))), 30 * MS + 5);
    assert_eq!(due(link.admit(5, Direction::Up, &packet(40))), 20 * MS + 5);
}

#[test]
fn packets_wait_for_those_before_them_in_the_same_direction_only() {
    // 1500 bytes take 1 ms at 12 Mbit/s and 10 ms at 1.2 Mbit/s.
    let mut link = link("rate=12mbit/1.2mbit delay=5ms");
    assert_eq!(due(link.admit(0, Direction::Down, &packet(1500))), 6 * MS);
    assert_eq!(due(link.admit(0, Direction::Down, &packet(1500))), 7 * MS);
    assert_eq!(due(link.admit(0, Direction::Up, &packet(1500))), 15 * MS);
    assert_eq!(due(link.admit(MS / 2, Direction::Down, &packet(750))), 7 * MS + MS / 2);
    // Idle from 2.5 ms to 4 ms: that time is not saved up.
    assert_eq!(due(link.admit(4 * MS, Direction::Down, &packet(1500))), 10 * MS);
    assert_eq!(due(link.admit(4 * MS, Direction::Down, &packet(1500))), 11 * MS);
}

#[test]
fn the_rate_does_not_drift() {
    // No packet takes a whole number of nanoseconds here: 1500 bytes at 7 Mbit/s are 1714285.714... ns.
    let mut link = link("rate=7mbit queue=4GB");
    let last = (0..1_000_000).map(|_| due(link.admit(0, Direction::Up, &packet(1500)))).last();
    assert_eq!(last, Some((1_000_000_u128 * 12_000 * u128::from(SECOND) / 7_000_000) as u64));
}

#[test]
fn packets_that_come_early_wait_and_cost_no_time() {
    // One packet per millisecond, just what the link carries; some arrive early and wait, and no time is lost.
    let mut link = link("rate=12mbit");
    let last = (0..1000_u64).map(|n| due(link.admit(n * MS - n % 3 * (MS / 4), Direction::Up, &packet(1500)))).last();
    assert_eq!(last, Some(1000 * MS));
}

#[test]
fn the_queue_overflows_at_the_exact_byte() {
    let mut link = link("rate=12mbit queue=4500");
    for n in 1..=3 {
        assert_eq!(due(link.admit(0, Direction::Up, &packet(1500))), n * MS);
    }
    let full = Verdict::Drop(DropReason::Queue);
    assert_eq!(link.admit(0, Direction::Up, &packet(1)), full);
    // One byte is sent in 666.67 ns.
    assert_eq!(link.admit(666, Direction::Up, &packet(1)), full);
    assert_eq!(link.admit(667, Direction::Up, &packet(2)), full);
    assert_eq!(due(link.admit(667, Direction::Up, &packet(1))), 3 * MS + 666);
    // A dropped packet leaves no trace in the other direction, nor once the queue is empty.
    assert_eq!(due(link.admit(0, Direction::Down, &packet(1500))), MS);
    assert_eq!(due(link.admit(5 * MS, Direction::Up, &packet(1500))), 6 * MS);
}

#[test]
fn an_idle_link_takes_a_packet_larger_than_its_queue() {
    let mut link = link("rate=12mbit queue=1000");
    assert_eq!(due(link.admit(0, Direction::Up, &packet(1500))), MS);
    assert_eq!(link.admit(MS - 1, Direction::Up, &packet(1500)), Verdict::Drop(DropReason::Queue));
    assert_eq!(due(link.admit(MS, Direction::Up, &packet(1500))), 2 * MS);
}

#[test]
fn packets_are_due_in_order_even_if_the_clock_steps_back() {
    for text in ["delay=10ms", "rate=10mbit delay=10ms"] {
        let mut link = link(text);
        let mut latest = 0;
        for now in [100, 90, 5000, 4000, 4000, 0, 6000, 20 * MS, 7] {
            let due = due(link.admit(now, Direction::Down, &packet(100)));
            assert!(due >= latest, "{text}: {due} after {latest}");
            latest = due;
        }
    }
}

#[test]
fn extreme_links_do_not_overflow() {
    let mut link = link("rate=1bit/18446744073gbit delay=500h queue=18446744073GB");
    for _ in 0..3_000_000 {
        due(link.admit(u64::MAX / 2, Direction::Down, &packet(u32::MAX)));
        due(link.admit(u64::MAX / 2, Direction::Up, &packet(u32::MAX)));
    }
}

#[test]
fn losing_everything_and_nothing() {
    let (mut all, mut none) = (link("loss=100%"), link("loss=0"));
    for cell in 0..10_000 {
        let packet = keyed(LossKind::TcpNew, cell);
        assert_eq!(all.admit(0, Direction::Up, &packet), Verdict::Drop(DropReason::Loss));
        assert_eq!(due(none.admit(0, Direction::Up, &packet)), 0);
    }
    assert_eq!(due(all.admit(0, Direction::Up, &packet(1500))), 0, "a packet without a key is never lost at random");
}

#[test]
fn a_lost_packet_takes_neither_queue_nor_time() {
    let mut link = link("rate=12mbit loss=100% queue=1500");
    link.admit(0, Direction::Up, &keyed(LossKind::UdpLarge, 0));
    assert_eq!(due(link.admit(0, Direction::Up, &packet(1500))), MS);
}

#[test]
fn each_direction_has_its_own_loss() {
    let mut link = link("loss=100%/0%");
    let packet = keyed(LossKind::UdpLarge, 0);
    assert_eq!(link.admit(0, Direction::Down, &packet), Verdict::Drop(DropReason::Loss));
    assert_eq!(due(link.admit(0, Direction::Up, &packet)), 0);
}

#[test]
fn both_drops_have_their_names() {
    assert_eq!(DropReason::ALL.map(|reason| reason.to_string()), ["loss", "queue"]);
}

#[test]
fn the_same_seed_judges_alike_and_another_does_not() {
    let profile = Profile::parse("rtt=60ms loss=2%").unwrap();
    let verdicts = |seed| {
        let mut link = Link::new(&profile, seed);
        let judge = |n| link.admit(n * MS, Direction::BOTH[n as usize % 2], &keyed(LossKind::UdpLarge, n));
        (0..20_000).map(judge).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(42), verdicts(42));
    let (first, second) = (verdicts(42), verdicts(43));
    let lost_in_both = first.iter().zip(&second).filter(|(a, b)| a == b && matches!(a, Verdict::Drop(_))).count();
    assert!(lost_in_both < 40, "{lost_in_both} of about 400: two seeds should share one loss in fifty");
}

#[test]
fn the_share_of_losses_is_within_three_sigma() {
    const PACKETS: u64 = 200_000;
    for loss in [0.02, 0.001] {
        for seed in 1..=5 {
            for direction in Direction::BOTH {
                let profile = Profile::parse(&format!("loss={loss}")).unwrap();
                let mut link = Link::new(&profile, seed);
                let is_lost = |cell: &u64| {
                    link.admit(0, direction, &keyed(LossKind::TcpNew, *cell)) == Verdict::Drop(DropReason::Loss)
                };
                let lost = (0..PACKETS).filter(is_lost).count() as f64;
                let expected = PACKETS as f64 * loss;
                let sigma = (expected * (1.0 - loss)).sqrt();
                assert!((lost - expected).abs() <= 3.0 * sigma, "{lost} lost, {expected} expected, sigma {sigma}");
            }
        }
    }
}
