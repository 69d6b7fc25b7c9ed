use std::borrow::Cow;
use std::io;

use measure::LoadSummary;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::thresholds::Verdict;

/// The verdict as JUnit's XML, which CI systems show: a test case for the requests and one per threshold.
pub fn report(summary: &LoadSummary, verdict: &Verdict<'_>) -> String {
    let requests = &summary.requests;
    let told = format!("{} succeeded, {} failed, {} dropped", requests.succeeded, requests.failed, requests.dropped);
    let mut cases =
        vec![Case { name: "requests succeed".to_owned(), failure: verdict.failed_requests.clone(), measured: told }];
    cases.extend(verdict.judgements.iter().map(|judgement| Case {
        name: judgement.text().to_owned(),
        failure: (!judgement.holds()).then(|| format!("measured: {}", judgement.measured())),
        measured: judgement.measured(),
    }));
    let bytes = write(&cases, summary).expect("writing to memory cannot fail");
    String::from_utf8(bytes).expect("everything written is text") + "\n"
}

struct Case {
    name: String,
    failure: Option<String>,
    measured: String,
}

fn write(cases: &[Case], summary: &LoadSummary) -> io::Result<Vec<u8>> {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count().to_string();
    let (tests, time) = (cases.len().to_string(), format!("{:.3}", summary.wall_s));
    let suite = format!("fairlane load {}", summary.url);
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("testsuites").write_inner_content(|xml| {
        let attributes = [("name", &suite), ("tests", &tests), ("failures", &failures), ("time", &time)];
        let attributes = attributes.map(|(key, value)| (key, printable(value)));
        let attributes = attributes.iter().map(|(key, value)| (*key, value.as_ref()));
        xml.create_element("testsuite")
            .with_attributes(attributes)
            .write_inner_content(|xml| cases.iter().try_for_each(|case| case.write(xml, &time)))?;
        Ok(())
    })?;
    Ok(xml.into_inner())
}

impl Case {
    fn write(&self, xml: &mut Writer<Vec<u8>>, time: &str) -> io::Result<()> {
        let name = printable(&self.name);
        let attributes = [("classname", "fairlane.load"), ("name", name.as_ref()), ("time", time)];
        xml.create_element("testcase").with_attributes(attributes).write_inner_content(|xml| {
            if let Some(failure) = &self.failure {
                xml.create_element("failure").with_attribute(("message", printable(failure).as_ref())).write_empty()?;
            }
            xml.create_element("system-out").write_text_content(BytesText::new(&printable(&self.measured)))?;
            Ok(())
        })?;
        Ok(())
    }
}

/// XML 1.0 cannot hold control characters in any form, and a server's words may have them.
fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) { text.replace(char::is_control, " ").into() } else { text.into() }
}
