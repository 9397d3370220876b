//! Addresses, ranges of addresses and URLs, as the libraries of Kubernetes read them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

/// A URL, cut into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(super) scheme: Arc<str>,
    pub(super) host: Arc<str>,
    pub(super) path: Arc<str>,
    pub(super) query: Arc<str>,
}

/// An address without zone; IPv4 written as IPv6 is refused.
///
/// Source: apiserver pkg/cel/library/ip.go, parseIPAddr.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let mapped = matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
    (!mapped).then_some(address)
}

pub(super) fn family(address: &IpAddr) -> i64 {
    if address.is_ipv4() { 4 } else { 6 }
}

pub(super) fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(super) fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

/// Source: Go net/netip, IsGlobalUnicast.
pub(super) fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    let never = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !broadcast && !never && !is_link_local_unicast(address)
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address = parse_ip(address)?;
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = length.len() > 1 && length.starts_with('0');
        let length: u8 = length.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (digits && !leading_zero && length <= most).then_some(Self { address, length })
    }

    /// The range with its lowest address.
    pub(super) fn masked(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(four) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & mask))
            }
            IpAddr::V6(six) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask))
            }
        };
        Self { address, length: self.length }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, length: self.length }.masked().address == self.masked().address
    }

    pub(super) fn contains_range(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl Url {
    /// An absolute URL, or an absolute path. A fragment is left out.
    ///
    /// Source: apiserver pkg/cel/library/urls.go, which reads them by Go's url.ParseRequestURI and url.Parse.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let (rest, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) =
            if rest.starts_with('/') || rest == "*" { ("", rest) } else { rest.split_once(':')? };
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let starts = scheme.is_empty() || scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts || !scheme.chars().all(letters) || (scheme.is_empty() && text.starts_with(':')) {
            return None;
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (host_of(authority)?, path)
            }
            // A URL with neither host nor path, such as mailto:a@b, has empty parts.
            None if rest.starts_with('/') || rest == "*" => ("", rest),
            None => ("", ""),
        };
        let path = escaped(path)?;
        let scheme = scheme.to_ascii_lowercase();
        Some(Self { scheme: scheme.into(), host: host.into(), path: path.into(), query: query.into() })
    }

    pub(super) fn port(&self) -> &str {
        port_of(&self.host)
    }

    pub(super) fn hostname(&self) -> &str {
        let bare = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.host,
        };
        bare.trim_start_matches('[').trim_end_matches(']')
    }

    /// Keys and values of the query, in their order.
    pub(super) fn query(&self) -> Vec<(String, String)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.map(|(key, value)| (unescaped(key), unescaped(value))).collect()
    }
}

/// The host and port of an authority.
fn host_of(authority: &str) -> Option<&str> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let closed = !host.starts_with('[') || host.contains(']');
    let digits = port_of(host).bytes().all(|byte| byte.is_ascii_digit());
    (closed && digits && !host.contains(' ')).then_some(host)
}

/// A path with what may not be in one escaped; none if an escape is broken.
fn escaped(path: &str) -> Option<String> {
    let mut escaped = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
        match first {
            b'%' if !hex => return None,
            b'%' => escaped.push('%'),
            first if first.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]".contains(first) => {
                escaped.push(char::from(*first));
            }
            first => escaped.push_str(&format!("%{first:02X}")),
        }
        rest = after;
    }
    Some(escaped)
}

fn port_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => port,
        _ => "",
    }
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (other, _) => bytes.push(*other),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
