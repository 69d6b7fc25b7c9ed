use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::LoadError;
use crate::channel::socket::Address;

/// Where requests go: a URL, and the addresses behind it.
#[derive(Clone, Debug)]
pub struct Target {
    url: Url,
    /// `HOST:PORT` to connect to instead of the URL's.
    connect_to: Option<String>,
    /// Unix socket to connect to instead of any address.
    socket: Option<PathBuf>,
}

impl Target {
    /// Reads an `http` or `https` URL. `connect_to` replaces the address that is connected to and nothing else: server
    /// name, certificate check and authority stay those of the URL. It is read as h2load does, `HOST` or `HOST:PORT`,
    /// and as curl does, `HOST1:PORT1:HOST2:PORT2`: instead of the URL's own host and port, which the first two name or
    /// leave empty, the others; those that are empty stay. IPv6 addresses stand in brackets.
    ///
    /// # Errors
    /// The URL cannot be read, has another scheme, or carries a user name; or `connect_to` cannot be read or is for
    /// another host or port.
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
        let mut target = Target { url: parsed, connect_to: None, socket: None };
        target.connect_to = connect_to.map(|text| target.other_endpoint(text)).transpose()?;
        Ok(target)
    }

    /// The same target behind a Unix socket: server name, certificate check and authority stay those of the URL.
    pub fn through_socket(self, path: PathBuf) -> Target {
        Target { socket: Some(path), ..self }
    }

    /// The Unix socket to connect to, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// `HOST:PORT` to connect to by the user's wish.
    fn other_endpoint(&self, text: &str) -> Result<String, LoadError> {
        let bad = |what: String| Err(LoadError::Plan(format!("cannot connect to '{text}': {what}")));
        let (host, port) = (self.url.host_str().unwrap_or_default(), self.port().to_string());
        let (new_host, new_port) = match split(text).as_slice() {
            [new_host] => (*new_host, ""),
            [new_host, new_port] => (*new_host, *new_port),
            [old_host, old_port, new_host, new_port] => {
                if !(old_host.is_empty() || old_host.eq_ignore_ascii_case(host))
                    || !(old_port.is_empty() || *old_port == port)
                {
                    return bad(format!("it is for {old_host}:{old_port}, and the URL is of {host}:{port}"));
                }
                (*new_host, *new_port)
            }
            _ => {
                return bad("expected HOST:PORT or HOST1:PORT1:HOST2:PORT2, with IPv6 addresses in brackets".to_owned());
            }
        };
        let new_host = if new_host.is_empty() { host } else { new_host };
        let new_port = if new_port.is_empty() { &port } else { new_port };
        if new_port.parse::<u16>().is_err() {
            return bad(format!("'{new_port}' is not a port; expected 1 to 65535"));
        }
        Ok(format!("{new_host}:{new_port}"))
    }

    fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
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

    /// What is connected to: `HOST:PORT`, or the path of a Unix socket.
    pub fn endpoint(&self) -> String {
        match (&self.socket, &self.connect_to) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(endpoint)) => endpoint.clone(),
            (None, None) => format!("{}:{}", self.url.host_str().unwrap_or_default(), self.port()),
        }
    }

    /// The addresses of the endpoint, at least one, in the resolver's order.
    ///
    /// # Errors
    /// The name does not resolve.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, LoadError> {
        if let Some(path) = &self.socket {
            return Ok(vec![Address::Unix(path.clone())]);
        }
        let host = self.endpoint();
        let failed = |source| LoadError::Resolve { host: host.clone(), source };
        let addresses: Vec<SocketAddr> = host.to_socket_addrs().map_err(failed)?.collect();
        if addresses.is_empty() {
            return Err(failed(std::io::Error::other("the name has no address")));
        }
        Ok(addresses.into_iter().map(Address::Ip).collect())
    }
}

/// Splits at the colons that stand outside brackets.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|character| {
        inside = (inside || character == '[') && character != ']';
        character == ':' && !inside
    })
    .collect()
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
        assert_eq!(target.addresses().unwrap(), [Address::Ip("[::1]:8443".parse().unwrap())]);
        let target = Target::parse("http://example.org", Some("127.0.0.1:9")).unwrap();
        assert_eq!((target.authority().as_str(), target.path().as_str()), ("example.org", "/"));
        assert_eq!(target.addresses().unwrap(), [Address::Ip("127.0.0.1:9".parse().unwrap())]);
        assert_eq!(Target::parse("http://example.org", None).unwrap().endpoint(), "example.org:80");
    }

    #[test]
    fn connects_elsewhere_as_h2load_and_curl_are_told() {
        for (url, to, expected) in [
            ("http://host/", "other", "other:80"),
            ("https://host:8443/", "[::1]", "[::1]:8443"),
            ("https://host/", "[::1]:9", "[::1]:9"),
            ("https://host/", "host:443:other:9", "other:9"),
            ("https://host/", "::other:", "other:443"),
            ("https://host/", "HOST:::9", "host:9"),
            ("https://[::1]/", "[::1]:443:127.0.0.1:9", "127.0.0.1:9"),
        ] {
            assert_eq!(Target::parse(url, Some(to)).unwrap().endpoint(), expected, "{to}");
        }
        for (to, part) in [
            ("else:443:other:9", "it is for else:443, and the URL is of host:443"),
            ("host:80:other:9", "it is for host:80"),
            ("::1", "with IPv6 addresses in brackets"),
            ("other:http", "'http' is not a port"),
        ] {
            let message = Target::parse("https://host/", Some(to)).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_unix_socket_replaces_every_address() {
        let target = Target::parse("http://host:1/", None).unwrap().through_socket("/run/server".into());
        assert_eq!((target.endpoint().as_str(), target.authority().as_str()), ("/run/server", "host:1"));
        assert_eq!(target.addresses().unwrap(), [Address::Unix("/run/server".into())]);
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
