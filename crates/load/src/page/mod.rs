//! Loading a page as a browser with empty caches does: the document first, and the objects that it embeds as soon as
//! they are seen in it.

mod scan;

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use url::Url;
use wire::Request;

use self::scan::Scanner;
use crate::plan::{Plan, Planned};
use crate::schedule::{Job, Outcome, Schedule};
use crate::target::path_of;

/// The requests of one page load, in document order.
///
/// Like a browser's preload scanner, it reads the document while it arrives. Objects are what `img src`, `script src`
/// and `link href` (stylesheets and icons) name on the document's own origin, each once. Nothing is executed, style
/// sheets are not searched, and redirects are not followed.
pub(crate) struct Page<'a> {
    plan: &'a Plan,
    requests: Vec<Request>,
    seen: HashSet<String>,
    queue: VecDeque<Job>,
    scanner: Scanner,
    first_byte: Option<Instant>,
    last_byte: Option<Instant>,
    failure: Option<String>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(plan: &'a Plan, now: Instant) -> Page<'a> {
        let mut page = Page {
            plan,
            requests: Vec::new(),
            seen: HashSet::new(),
            queue: VecDeque::new(),
            scanner: Scanner::default(),
            first_byte: None,
            last_byte: None,
            failure: None,
        };
        page.add(plan.requests[0].path.clone(), now);
        page
    }

    /// Requests that the page needs, as far as is known.
    pub(crate) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// When the document's first and the last object's last byte came, or why the page did not load.
    pub(crate) fn outcome(&self) -> Result<(Instant, Instant), String> {
        match (&self.failure, self.first_byte, self.last_byte) {
            (Some(failure), ..) => Err(failure.clone()),
            (None, Some(first), Some(last)) => Ok((first, last)),
            (None, ..) => Err("it was not finished".to_owned()),
        }
    }

    fn add(&mut self, path: String, now: Instant) {
        if self.seen.insert(path.clone()) {
            self.queue.push_back(Job { request: self.requests.len(), due: now });
            self.requests.push(self.plan.request(&Planned { path, ..self.plan.requests[0].clone() }));
        }
    }
}

/// The path of a link in the document, if it leads to an object of the same origin.
fn object_path(document: &Url, link: &str) -> Option<String> {
    let url = document.join(link.trim()).ok()?;
    (url.origin() == document.origin()).then(|| path_of(&url))
}

impl Schedule for Page<'_> {
    const SHARED: bool = true;

    fn request(&self, index: usize) -> &Request {
        &self.requests[index]
    }

    fn next(&mut self, _lane: usize, _now: Instant) -> Option<Job> {
        self.queue.pop_front()
    }

    fn put_back(&mut self, _lane: usize, job: Job) {
        self.queue.push_front(job);
    }

    /// A browser opens a connection for each request that finds none free, up to its limit.
    fn wants_connection(&self, _lane: usize, connecting: usize) -> bool {
        self.queue.len() > connecting
    }

    fn abandon(&mut self, _lane: usize) -> u64 {
        self.failure.get_or_insert_with(|| "no connection could be made".to_owned());
        self.queue.drain(..).count() as u64
    }

    fn stop(&mut self, _now: Instant) {
        self.queue.clear();
    }

    fn head(&mut self, _request: usize, now: Instant) {
        self.first_byte.get_or_insert(now);
    }

    fn data(&mut self, request: usize, bytes: &[u8], now: Instant) {
        if request == 0 {
            let mut links = Vec::new();
            self.scanner.feed(bytes, &mut |link| links.push(link));
            for link in links {
                if let Some(path) = object_path(self.plan.target.url(), &link) {
                    self.add(path, now);
                }
            }
        }
    }

    /// A redirected document has no objects to load.
    fn accepts(&self, request: usize, status: u16) -> bool {
        request > 0 || status < 300
    }

    fn end(&mut self, _lane: usize, request: usize, outcome: Outcome, now: Instant) {
        self.last_byte = Some(now);
        let path = &self.requests[request].path;
        let failure = match outcome {
            Outcome::Answered(status) if status < 400 && self.accepts(request, status) => return,
            Outcome::Answered(status) => format!("{path} was answered with status {status}"),
            Outcome::Failed => format!("{path} was not answered"),
        };
        self.failure.get_or_insert(failure);
    }
}

#[cfg(test)]
mod tests {
    use measure::Protocol;

    use super::*;
    use crate::{Amount, Model, Target};

    fn plan() -> Plan {
        let target = Target::parse("https://host:8443/dir/page.html?x", None).unwrap();
        Plan::new(target, Protocol::H2, Model::Pages, Amount::Requests(1))
    }

    #[test]
    fn objects_of_the_same_origin_are_fetched_once_and_in_order() {
        let (plan, now) = (plan(), Instant::now());
        let mut page = Page::new(&plan, now);
        assert!(page.wants_connection(0, 0) && !page.wants_connection(0, 1));
        assert_eq!(page.next(0, now).unwrap().request, 0);
        page.head(0, now);
        let html = br#"<link rel="stylesheet" href="/a.css"><img src="b.png"><img src="./b.png#frag"><img src='data:x'>
            <script src="//other/c.js"></script><script src="https://host:8443/d.js?v=1&amp;w"></script>"#;
        // Split in the middle of a tag.
        page.data(0, &html[..50], now);
        page.data(0, &html[50..], now);
        let paths: Vec<&str> = page.requests.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/dir/page.html?x", "/a.css", "/dir/b.png", "/d.js?v=1&w"]);
        assert!(page.wants_connection(1, 2) && !page.wants_connection(1, 3));
        for request in 0..4 {
            page.end(0, request, Outcome::Answered(200), now);
        }
        assert!(page.outcome().is_ok());
        page.end(0, 2, Outcome::Answered(404), now);
        assert_eq!(page.outcome().unwrap_err(), "/dir/b.png was answered with status 404");
    }

    #[test]
    fn only_the_document_is_searched() {
        let (plan, now) = (plan(), Instant::now());
        let mut page = Page::new(&plan, now);
        page.data(1, b"<img src=x>", now);
        assert_eq!(page.requests(), 1);
        assert!(!page.accepts(0, 302) && page.accepts(0, 200) && page.accepts(1, 302));
        page.end(0, 0, Outcome::Answered(302), now);
        assert!(page.outcome().unwrap_err().contains("status 302"));
    }
}
