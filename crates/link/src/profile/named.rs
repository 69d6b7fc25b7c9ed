/// A link that other tools have a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedProfile {
    /// The name that [`Profile::parse`](super::Profile::parse) reads.
    pub name: &'static str,
    /// The name that a sentence or a table uses.
    pub title: &'static str,
    /// Where the numbers come from.
    pub source: &'static str,
    /// Origin to client, bits per second; `None` is unlimited.
    pub down: Option<u64>,
    /// Client to origin, bits per second; `None` is unlimited.
    pub up: Option<u64>,
    /// Delay of both directions together, milliseconds.
    pub rtt_ms: u64,
}

const DEVTOOLS: &str = "Chrome DevTools";
const DEVTOOLS_RENAMED: &str = "Chrome DevTools, formerly named Fast 3G there";
const DEVTOOLS_NOW_3G: &str = "Chrome DevTools, now named 3G there";
const LIGHTHOUSE_MOBILE: &str = "Lighthouse, throttling.mobileSlow4G";
const LIGHTHOUSE_3G: &str = "Lighthouse, throttling.mobileRegular3G";
const LIGHTHOUSE_DESKTOP: &str = "Lighthouse, throttling.desktopDense4G";
const WEBPAGETEST: &str = "WebPageTest at commit a7cf6a77";

/// What is on the wire in the end: DevTools hands its network stack inflated delays and deflated rates to reach these
/// targets, and those numbers must not be copied. None of the sources sets a queue, loss or jitter.
pub(super) const NAMED: &[NamedProfile] = &[
    NamedProfile { name: "online", title: "No limits", source: "fairlane", down: None, up: None, rtt_ms: 0 },
    kbit("fast-4g", "Fast 4G", DEVTOOLS, 9000, 1500, 60),
    kbit("slow-4g", "Slow 4G", DEVTOOLS_RENAMED, 1600, 750, 150),
    kbit("slow-3g", "Slow 3G", DEVTOOLS_NOW_3G, 500, 500, 400),
    bits("lighthouse-slow-4g", "Lighthouse Slow 4G", LIGHTHOUSE_MOBILE, 1_638_400, 750_000, 150),
    kbit("lighthouse-3g", "Lighthouse Regular 3G", LIGHTHOUSE_3G, 700, 700, 300),
    kbit("lighthouse-desktop", "Lighthouse Desktop", LIGHTHOUSE_DESKTOP, 10_240, 10_240, 40),
    kbit("fios", "WebPageTest FIOS", WEBPAGETEST, 20_000, 5000, 4),
    kbit("cable", "WebPageTest Cable", WEBPAGETEST, 5000, 1000, 28),
    kbit("dsl", "WebPageTest DSL", WEBPAGETEST, 1500, 384, 50),
    kbit("lte", "WebPageTest LTE", WEBPAGETEST, 12_000, 12_000, 70),
    kbit("4g", "WebPageTest 4G", WEBPAGETEST, 9000, 9000, 170),
    kbit("3g", "WebPageTest 3G", WEBPAGETEST, 1600, 768, 300),
    kbit("3g-fast", "WebPageTest 3G Fast", WEBPAGETEST, 1600, 768, 150),
    kbit("3g-slow", "WebPageTest 3G Slow", WEBPAGETEST, 400, 400, 400),
    kbit("3g-em", "WebPageTest 3G Emerging Markets", WEBPAGETEST, 400, 400, 400),
    kbit("2g", "WebPageTest 2G", WEBPAGETEST, 280, 256, 800),
    kbit("edge", "WebPageTest Edge", WEBPAGETEST, 240, 200, 840),
    kbit("dial", "WebPageTest Dial-up", WEBPAGETEST, 49, 30, 120),
];

const fn kbit(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    down: u64,
    up: u64,
    rtt_ms: u64,
) -> NamedProfile {
    bits(name, title, source, down * 1000, up * 1000, rtt_ms)
}

const fn bits(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    down: u64,
    up: u64,
    rtt_ms: u64,
) -> NamedProfile {
    NamedProfile { name, title, source, down: Some(down), up: Some(up), rtt_ms }
}
