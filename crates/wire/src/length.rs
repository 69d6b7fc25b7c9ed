//! The content-length field (RFC 9110 section 8.6), and whether the content is as long.

/// How much content of a response is to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentLeft(u64);

impl ContentLeft {
    /// As much as is told, if anything is.
    pub(crate) fn new(length: Option<u64>) -> Self {
        Self(length.unwrap_or(u64::MAX))
    }

    /// Accounts for content that comes; whether there may be so much.
    pub(crate) fn take(&mut self, len: u64) -> bool {
        let is_right = len <= self.0;
        if self.0 < u64::MAX && is_right {
            self.0 -= len;
        }
        is_right
    }

    /// Whether the content may end.
    pub(crate) fn may_end(self) -> bool {
        matches!(self.0, 0 | u64::MAX)
    }
}

impl Default for ContentLeft {
    fn default() -> Self {
        Self::new(None)
    }
}

/// The length that a field says, together with a field `before` it.
pub(crate) fn content_length(value: &[u8], before: Option<u64>) -> Result<u64, &'static str> {
    let mut length = before;
    for number in list(value) {
        let number = decimal(number).ok_or("a content-length that is no number below 2^64")?;
        if length.is_some_and(|other| other != number) {
            return Err("several content-length values that differ");
        }
        length = Some(number);
    }
    length.ok_or("an empty content-length")
}

/// The members of a comma-separated list (RFC 9110 section 5.6.1).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_number_is_a_length() {
        for (value, before, length) in [
            ("5", None, Some(5)),
            ("5, 5,", Some(5), Some(5)),
            ("18446744073709551615", None, Some(u64::MAX)),
            ("18446744073709551616", None, None),
            ("5", Some(6), None),
            ("5, 6", None, None),
            ("", None, None),
            (",", None, None),
            ("+5", None, None),
            ("5 5", None, None),
            ("0x5", None, None),
        ] {
            assert_eq!(content_length(value.as_bytes(), before).ok(), length, "{value}");
        }
    }
}
