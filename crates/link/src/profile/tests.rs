use super::*;

fn parameters(text: &str) -> (DirectionProfile, DirectionProfile) {
    let profile = Profile::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (profile.down, profile.up)
}

#[test]
fn a_name_stands_for_its_numbers() {
    let (down, up) = parameters("slow-4g");
    let expected = DirectionProfile { rate: Some(1_600_000), delay_ns: 75_000_000, queue_bytes: 64_000, loss: 0.0 };
    assert_eq!(down, expected);
    assert_eq!(up, DirectionProfile { rate: Some(750_000), ..expected });
}

#[test]
fn the_same_link_can_be_written_in_many_ways() {
    let spelled = parameters("rate=1.6mbit/750kbit delay=75ms queue=64kB loss=2%");
    for text in [
        "slow-4g loss=2%",
        "  slow-4g   loss=0.02 ",
        "loss=2%/2% rtt=150ms rate=1600kbit/0.75mbit",
        "fast-4g rate=1.6mbit/750kbit rtt=150ms loss=2%",
        "online rate=1600000bit/750kbit delay=0.075s/75000us loss=2%",
    ] {
        assert_eq!(parameters(text), spelled, "{text}");
    }
}

#[test]
fn down_comes_before_up() {
    let (down, up) = parameters("rate=unlimited/1mbit delay=1ms/2ms queue=3kB/4kB loss=5%/6%");
    assert_eq!(down, DirectionProfile { rate: None, delay_ns: 1_000_000, queue_bytes: 3000, loss: 0.05 });
    assert_eq!(up, DirectionProfile { rate: Some(1_000_000), delay_ns: 2_000_000, queue_bytes: 4000, loss: 0.06 });
}

#[test]
fn an_odd_round_trip_is_halved_without_loss() {
    let (down, up) = parameters("rtt=3ns");
    assert_eq!((down.delay_ns, up.delay_ns), (2, 1));
}

#[test]
fn the_default_queue_holds_the_bandwidth_delay_product() {
    let queues = |text| {
        let (down, up) = parameters(text);
        (down.queue_bytes, up.queue_bytes)
    };
    assert_eq!(queues("rate=100mbit/1mbit rtt=80ms"), (1_000_000, QUEUE_BYTES));
    assert_eq!(queues("slow-4g delay=1s"), (400_000, 187_500), "overrides count");
    assert_eq!(queues("rate=100mbit rtt=80ms queue=10kB"), (10_000, 10_000));
    assert_eq!(queues("online"), (QUEUE_BYTES, QUEUE_BYTES));
}

#[test]
fn named_profiles_are_well_formed_and_round_trip() {
    for named in Profile::named() {
        let profile = Profile::parse(named.name).unwrap();
        assert_eq!((profile.down.rate, profile.up.rate), (named.down, named.up), "{}", named.name);
        assert_eq!(profile.down.delay_ns + profile.up.delay_ns, named.rtt_ms * 1_000_000, "{}", named.name);
        assert_eq!(profile.title(), named.title);
        let same = |other: &&NamedProfile| other.name == named.name || other.title == named.title;
        assert_eq!(Profile::named().iter().filter(same).count(), 1, "{} is ambiguous", named.name);
        assert_eq!(parameters(&profile.to_string()), (profile.down, profile.up), "{profile}");
    }
}

#[test]
fn canonical_text_reads_back_exactly() {
    for (text, canonical) in [
        ("online", "rate=unlimited delay=0ns queue=64kB loss=0"),
        ("slow-4g loss=2%", "rate=1600kbit/750kbit delay=75ms queue=64kB loss=0.02"),
        ("lighthouse-slow-4g", "rate=1638400bit/750kbit delay=75ms queue=64kB loss=0"),
        ("rtt=3ns queue=0/1 loss=0.1%/12.5%", "rate=unlimited delay=2ns/1ns queue=0B/1B loss=0.001/0.125"),
    ] {
        let profile = Profile::parse(text).unwrap();
        assert_eq!(profile.to_string(), canonical);
        assert_eq!(parameters(canonical), (profile.down, profile.up), "{canonical}");
    }
}

#[test]
fn titles_and_descriptions_read_well() {
    for (text, title, description) in [
        ("slow-4g loss=2%", "Slow 4G + 2 % loss", "1.6/0.75 Mbit/s, RTT 150 ms, queue 64 kB, loss 2 %"),
        ("lte", "WebPageTest LTE", "12 Mbit/s, RTT 70 ms, queue 105 kB, no loss"),
        ("dial", "WebPageTest Dial-up", "49/30 kbit/s, RTT 120 ms, queue 64 kB, no loss"),
        ("online rtt=20ms", "No limits, rtt=20ms", "unlimited rate, RTT 20 ms, no loss"),
        ("rate=1gbit/unlimited", "rate=1gbit/unlimited", "1 Gbit/s down, unlimited up, no delay, queue 64 kB, no loss"),
        ("delay=1ms/2.5ms loss=1%/2%", "delay=1ms/2.5ms, loss=1%/2%", "unlimited rate, RTT 3.5 ms, loss 1 %/2 %"),
    ] {
        let profile = Profile::parse(text).unwrap();
        assert_eq!((profile.title().as_str(), profile.describe().as_str()), (title, description));
    }
}

#[test]
fn errors_name_the_fault_and_the_cure() {
    for (text, named) in [
        (" ", ["empty", "slow-4g"]),
        ("fast-3g", ["'fast-3g'", "online, fast-4g, slow-4g"]),
        ("slow-4g fast-4g", ["'fast-4g'", "rate="]),
        ("rate=1mbit slow-4g", ["'slow-4g'", "rate="]),
        ("slow-4g jitter=1ms", ["'jitter'", "loss="]),
        ("loss=1% loss=2%", ["'loss'", "twice"]),
        ("rtt=1ms delay=1ms", ["'delay'", "'rtt'"]),
        ("slow-4g loss=120%", ["'loss'", "such as 2%"]),
        ("rate=1.6", ["'rate'", "such as 1.6mbit"]),
        ("rate=1mbit/", ["'rate'", "such as 1.6mbit"]),
        ("rate=1mbit/2mbit/3mbit", ["'rate'", "'2mbit/3mbit'"]),
        ("rtt=1ms/2ms", ["'rtt'", "such as 20ms"]),
        ("rate=0bit", ["rate 0", "unlimited"]),
        ("rate=1mbit/0.1bit", ["rate 0", "unlimited"]),
        ("loss", ["'loss'", "expected one of"]),
    ] {
        let error = Profile::parse(text).expect_err(text).to_string();
        assert!(named.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
}
