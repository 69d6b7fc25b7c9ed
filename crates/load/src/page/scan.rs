/// Finds the objects that an HTML document embeds, while the document arrives.
///
/// It knows as much of HTML as that takes: tags with quoted and bare attributes, comments, and elements whose content
/// is text (WHATWG HTML, "Tokenization"). Bytes that are not UTF-8 are replaced.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// What has arrived and could not be understood yet: an incomplete tag or comment.
    rest: Vec<u8>,
    /// Inside a comment or an element whose content is text: what ends it.
    until: Option<&'static [u8]>,
}

/// A longer start tag is taken for text, so that little of a document is kept.
const TAG_LIMIT: usize = 64 << 10;

/// Elements whose content is text, with the beginning of their end tags.
const TEXT: [(&[u8], &[u8]); 6] = [
    (b"script", b"</script"),
    (b"style", b"</style"),
    (b"textarea", b"</textarea"),
    (b"title", b"</title"),
    (b"noscript", b"</noscript"),
    (b"template", b"</template"),
];

impl Scanner {
    /// Takes the next bytes of the document and passes on each link that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8], link: &mut impl FnMut(String)) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut position = 0;
        while let Some(length) = self.step(&rest[position..], link) {
            position += length;
        }
        self.rest = rest;
        self.rest.drain(..position);
    }

    /// Understands one piece at the front of `text` and gives its length; `None` when more must arrive first.
    fn step(&mut self, text: &[u8], link: &mut impl FnMut(String)) -> Option<usize> {
        if let Some(end) = self.until {
            let found = text.windows(end.len()).position(|window| window.eq_ignore_ascii_case(end));
            if found.is_some() {
                self.until = None;
            }
            // Without the end, keep what might be its beginning.
            return found.or_else(|| text.len().checked_sub(end.len()).filter(|length| *length > 0));
        }
        match text {
            [] => None,
            [b'<', b'!', b'-', b'-', ..] => {
                self.until = Some(b"-->");
                Some(4)
            }
            [b'<', b'!', ..] if b"<!--".starts_with(text) => None,
            [b'<', letter, ..] if letter.is_ascii_alphabetic() => {
                let Some(tag) = Tag::read(&text[..text.len().min(TAG_LIMIT)]) else {
                    return (text.len() >= TAG_LIMIT).then_some(1);
                };
                self.until = TEXT.iter().find(|(name, _)| tag.name.eq_ignore_ascii_case(name)).map(|(_, end)| *end);
                if let Some(found) = tag.link() {
                    link(found);
                }
                Some(tag.length)
            }
            [b'<'] => None,
            _ => Some(1 + text[1..].iter().position(|byte| *byte == b'<').unwrap_or(text.len() - 1)),
        }
    }
}

/// A start tag.
struct Tag<'a> {
    name: &'a [u8],
    attributes: Vec<(&'a [u8], &'a [u8])>,
    length: usize,
}

impl<'a> Tag<'a> {
    /// Reads the tag at the front of `text`; `None` when it is incomplete.
    fn read(text: &'a [u8]) -> Option<Tag<'a>> {
        let mut position = 1;
        let name = word(text, &mut position, b"/>")?;
        let mut attributes = Vec::new();
        loop {
            while text.get(position)?.is_ascii_whitespace() || text[position] == b'/' {
                position += 1;
            }
            if text[position] == b'>' {
                return Some(Tag { name, attributes, length: position + 1 });
            }
            // A stray '=' begins a name rather than ending one.
            let start = position;
            position += 1;
            word(text, &mut position, b"/>=")?;
            let name = &text[start..position];
            skip_space(text, &mut position)?;
            let mut value: &[u8] = b"";
            if text[position] == b'=' {
                position += 1;
                skip_space(text, &mut position)?;
                value = match text[position] {
                    quote @ (b'"' | b'\'') => {
                        let start = position + 1;
                        position = start + text[start..].iter().position(|byte| *byte == quote)? + 1;
                        &text[start..position - 1]
                    }
                    _ => word(text, &mut position, b">")?,
                };
            }
            attributes.push((name, value));
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
    }

    /// The object that the tag embeds.
    fn link(&self) -> Option<String> {
        let is = |name: &str| self.name.eq_ignore_ascii_case(name.as_bytes());
        let link = if is("img") || is("script") {
            self.attribute("src")?
        } else if is("link") {
            let rel = self.attribute("rel")?;
            let mut kinds = rel.split(u8::is_ascii_whitespace);
            kinds.find(|kind| kind.eq_ignore_ascii_case(b"stylesheet") || kind.eq_ignore_ascii_case(b"icon"))?;
            self.attribute("href")?
        } else {
            return None;
        };
        let link = String::from_utf8_lossy(link).replace("&amp;", "&");
        (!link.trim().is_empty()).then_some(link)
    }
}

/// Reads up to white space or one of `ends`; `None` when the text ends before.
fn word<'a>(text: &'a [u8], position: &mut usize, ends: &[u8]) -> Option<&'a [u8]> {
    let start = *position;
    let length = text[start..].iter().position(|byte| byte.is_ascii_whitespace() || ends.contains(byte))?;
    *position += length;
    Some(&text[start..*position])
}

fn skip_space(text: &[u8], position: &mut usize) -> Option<()> {
    *position += text[*position..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(html: &str, piece: usize) -> Vec<String> {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        for bytes in html.as_bytes().chunks(piece) {
            scanner.feed(bytes, &mut |link| found.push(link));
        }
        found
    }

    #[test]
    fn finds_what_a_browser_would_fetch_however_it_arrives() {
        let html = r#"<!doctype html><html><head><title>a <img src=no1></title>
            <link rel="shortcut icon" href=/icon.png><LINK HREF='/s.css' REL=StyleSheet media="a>b">
            <link rel=canonical href=no2><!-- <img src=no3> --><style>a{content:"<img src=no4>"}</style>
            <script>if (a<b) "<img src=no5>"</script><script async src = "/x.js?a=1&amp;b=2" ></script></head>
            <body 1<2><img alt="a>b" src="1.png"/><img src=2.png><img src=/3/><a href=no6>x</a><img/src=4.png>
            <noscript><img src=no7></noscript><img src=""><img alt src=5.png><p title='<img src=no8>'>6 < 7
            <img srcset="no9 2x" src=6.png></body></html>"#;
        let expected = ["/icon.png", "/s.css", "/x.js?a=1&b=2", "1.png", "2.png", "/3/", "4.png", "5.png", "6.png"];
        for piece in [1, 2, 3, 7, 64, html.len()] {
            assert_eq!(links(html, piece), expected, "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn anything_is_taken_and_little_is_kept() {
        let mut scanner = Scanner::default();
        let mut count = 0;
        for seed in 0..2000u32 {
            let bytes = seed.wrapping_mul(2_654_435_761).to_le_bytes();
            scanner.feed(&bytes, &mut |_| count += 1);
        }
        let mut scanner = Scanner::default();
        scanner.feed(&[b'a'; 100_000], &mut |_| count += 1);
        scanner.feed(b"<script>", &mut |_| count += 1);
        scanner.feed(&[b'b'; 100_000], &mut |_| count += 1);
        assert!(scanner.rest.len() < 16);
        // Neither a comment nor a tag without end is kept.
        for begin in [&b"<!--"[..], b"<img src=", b"<img alt='", b"<img "] {
            let mut scanner = Scanner::default();
            scanner.feed(begin, &mut |_| count += 1);
            for _ in 0..100 {
                scanner.feed(&[b'c'; 10_000], &mut |_| count += 1);
                assert!(scanner.rest.len() < 2 * TAG_LIMIT);
            }
        }
        assert_eq!(count, 0);
    }
}
