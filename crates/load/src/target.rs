use std::net::{SocketAddr, ToSocketAddrs};

use url::{Host, Url};

use crate::LoadError;

/// Where requests go: a URL, and the addresses behind it.
#[derive(Clone, Debug)]
pub struct Target {
    url: Url,
    connect_to: Option<String>,
}

impl Target {
    /// Reads an `http` or `https` URL. `connect_to`, as `HOST:PORT`, replaces the address that is connected to and
    /// nothing else: server name, certificate check and authority stay those of the URL.
    ///
    /// # Errors
    /// The URL cannot be read, has another scheme, or carries a user name.
    pub fn parse(url: &str, connect_to: Option<&str>) -> Result<Target, LoadError> {
        let bad = |what: String| LoadError::Plan(format!("'{url}' is not a URL to load: {what}"));
        let mut parsed = Url::parse(url).map_err(|error| bad(format!("{error}; expected http://… or https://…")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad(format!("the scheme is '{}', expected http or https", parsed.scheme())));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(bad("it carries a user name; send it with -H 'Authorization: …'".to_owned()));
        }
        parsed.set_fragment(None);
        Ok(Target { url: parsed, connect_to: connect_to.map(str::to_owned) })
    }

    /// The URL, without a fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Host and, unless it is the scheme's default, port.
    pub fn authority(&self) -> String {
        self.url.authority().to_owned()
    }

    /// Path and query.
    pub fn path(&self) -> String {
        path_of(&self.url)
    }

    /// The host as TLS names it: IPv6 addresses without brackets.
    pub fn server_name(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => self.url.host_str().unwrap_or_default().to_owned(),
        }
    }

    /// What is connected to, as `HOST:PORT`.
    pub fn endpoint(&self) -> String {
        match &self.connect_to {
            Some(endpoint) => endpoint.clone(),
            None => {
                let port = self.url.port_or_known_default().unwrap_or_default();
                format!("{}:{port}", self.url.host_str().unwrap_or_default())
            }
        }
    }

    /// The addresses of the endpoint, at least one, in the resolver's order.
    ///
    /// # Errors
    /// The name does not resolve.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, LoadError> {
        let host = self.endpoint();
        let failed = |source| LoadError::Resolve { host: host.clone(), source };
        let addresses: Vec<SocketAddr> = host.to_socket_addrs().map_err(failed)?.collect();
        if addresses.is_empty() {
            return Err(failed(std::io::Error::other("the name has no address")));
        }
        Ok(addresses)
    }
}

/// Path and query of a URL, as a request names them.
pub(crate) fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let target = Target::parse("https://[::1]:8443/a?b=c#d", None).unwrap();
        assert_eq!(target.authority(), "[::1]:8443");
        assert_eq!(target.path(), "/a?b=c");
        assert_eq!(target.server_name(), "::1");
        assert_eq!(target.endpoint(), "[::1]:8443");
        assert_eq!(target.resolve().unwrap(), ["[::1]:8443".parse().unwrap()]);
        let target = Target::parse("http://example.org", Some("127.0.0.1:9")).unwrap();
        assert_eq!((target.authority().as_str(), target.path().as_str()), ("example.org", "/"));
        assert_eq!(target.resolve().unwrap(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(Target::parse("http://example.org", None).unwrap().endpoint(), "example.org:80");
    }

    #[test]
    fn says_what_is_wrong_with_a_url() {
        for (url, part) in [
            ("localhost:8080", "scheme is 'localhost'"),
            ("ftp://host/", "scheme is 'ftp'"),
            ("/path", "expected http"),
            ("http://user@host/", "user name"),
        ] {
            let message = Target::parse(url, None).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(url), "{message}");
        }
    }
}
