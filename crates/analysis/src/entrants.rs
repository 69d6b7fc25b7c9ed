use measure::Protocol;

/// Which entrant the others are compared with: HTTP/1.1 over TLS where it takes part, else the first of the list.
pub(crate) fn baseline(entrants: &[Protocol]) -> usize {
    entrants.iter().position(|protocol| *protocol == Protocol::H1).unwrap_or(0)
}

/// What tables call the entrants: `h2`, and `h2 (2)` when it runs a second time.
pub(crate) fn labels(entrants: &[Protocol]) -> Vec<String> {
    numbered(entrants, Protocol::name)
}

/// What sentences call the entrants: `HTTP/2`, and `HTTP/2 (2)` when it runs a second time.
pub(crate) fn titles(entrants: &[Protocol]) -> Vec<String> {
    numbered(entrants, Protocol::title)
}

fn numbered(entrants: &[Protocol], name: fn(Protocol) -> &'static str) -> Vec<String> {
    let number = |(index, protocol): (usize, &Protocol)| {
        let before = entrants[..index].iter().filter(|earlier| *earlier == protocol).count();
        if before == 0 { name(*protocol).to_owned() } else { format!("{} ({})", name(*protocol), before + 1) }
    };
    entrants.iter().enumerate().map(number).collect()
}

#[cfg(test)]
mod tests {
    use Protocol::{H1, H2, H3};

    use super::*;

    #[test]
    fn h1_is_the_baseline_where_it_takes_part() {
        assert_eq!(baseline(&[H3, H2, H1]), 2);
        assert_eq!(baseline(&[H3, H2]), 0);
    }

    #[test]
    fn a_second_entrant_of_a_protocol_is_numbered() {
        assert_eq!(labels(&[H2, H3, H2, H2]), ["h2", "h3", "h2 (2)", "h2 (3)"]);
        assert_eq!(titles(&[H2, H2]), ["HTTP/2", "HTTP/2 (2)"]);
    }
}
