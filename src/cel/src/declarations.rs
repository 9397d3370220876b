//! Functions and operators with their types: the standard ones and those of Kubernetes' libraries.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// One way to call a function.
pub(super) struct Overload {
    /// True if the first argument is the target.
    pub(super) member: bool,
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
}

/// Overloads by name of the function.
pub(super) static FUNCTIONS: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
    for line in DECLARED.lines().filter(|line| !line.is_empty()) {
        let Some((name, ways)) = line.split_once(' ') else { continue };
        functions.entry(name).or_default().extend(ways.split(';').map(overload));
    }
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        functions.insert(name, ORDERED.split(';').map(overload).collect());
    }
    functions
});

/// Functions that Kubernetes has and that are not here.
pub(super) const UNSUPPORTED: [&str; 6] =
    ["path", "group", "serviceAccount", "resource", "format.date", "format.datetime"];

const ORDERED: &str = "bool, bool: bool; int, int: bool; int, uint: bool; int, double: bool; uint, uint: bool; \
uint, int: bool; uint, double: bool; double, double: bool; double, int: bool; double, uint: bool; \
string, string: bool; bytes, bytes: bool; timestamp, timestamp: bool; duration, duration: bool";

/// `name ways`, ways parted by semicolons: types of the arguments, the target with an @, and of the result.
///
/// Source: cel-go common/stdlib, ext and apiserver pkg/cel/library, as of Kubernetes 1.34.
const DECLARED: &str = "
_==_ A, A: bool
_!=_ A, A: bool
_?_:_ bool, A, A: A
!_ bool: bool
-_ int: int; double: double
_+_ int, int: int; uint, uint: uint; double, double: double; string, string: string; bytes, bytes: bytes
_+_ list(A), list(A): list(A)
_+_ timestamp, duration: timestamp; duration, timestamp: timestamp; duration, duration: duration
_-_ timestamp, timestamp: duration; timestamp, duration: timestamp; duration, duration: duration
_-_ int, int: int; uint, uint: uint; double, double: double
_*_ int, int: int; uint, uint: uint; double, double: double
_/_ int, int: int; uint, uint: uint; double, double: double
_%_ int, int: int; uint, uint: uint
@in A, list(A): bool; A, map(A,B): bool
_[_] list(A), int: A; map(A,B), A: B; optional(list(A)), int: optional(A); optional(map(A,B)), A: optional(B)
_[?_] list(A), int: optional(A); map(A,B), A: optional(B)
_[?_] optional(list(A)), int: optional(A); optional(map(A,B)), A: optional(B)
size string: int; bytes: int; list(A): int; map(A,B): int; @string: int; @bytes: int; @list(A): int; @map(A,B): int
type A: type(A)
dyn A: dyn
int int: int; uint: int; double: int; string: int; timestamp: int; duration: int
uint uint: uint; int: uint; double: uint; string: uint
double double: double; int: double; uint: double; string: double
bool bool: bool; string: bool
bytes bytes: bytes; string: bytes
string string: string; bool: string; int: string; uint: string; double: string; bytes: string; ip: string; cidr: string
string timestamp: string; duration: string
timestamp string: timestamp; int: timestamp; timestamp: timestamp
duration string: duration; duration: duration
getFullYear @timestamp: int; @timestamp, string: int
getMonth @timestamp: int; @timestamp, string: int
getDayOfYear @timestamp: int; @timestamp, string: int
getDayOfMonth @timestamp: int; @timestamp, string: int
getDate @timestamp: int; @timestamp, string: int
getDayOfWeek @timestamp: int; @timestamp, string: int
getHours @timestamp: int; @timestamp, string: int; @duration: int
getMinutes @timestamp: int; @timestamp, string: int; @duration: int
getSeconds @timestamp: int; @timestamp, string: int; @duration: int
getMilliseconds @timestamp: int; @timestamp, string: int; @duration: int
contains @string, string: bool
startsWith @string, string: bool
endsWith @string, string: bool
matches string, string: bool; @string, string: bool
charAt @string, int: string
indexOf @string, string: int; @string, string, int: int; @list(A), A: int
lastIndexOf @string, string: int; @string, string, int: int; @list(A), A: int
lowerAscii @string: string
upperAscii @string: string
replace @string, string, string: string; @string, string, string, int: string
split @string, string: list(string); @string, string, int: list(string)
substring @string, int: string; @string, int, int: string
trim @string: string
join @list(string): string; @list(string), string: string
format @string, list(dyn): string
strings.quote string: string
find @string, string: string
findAll @string, string: list(string); @string, string, int: list(string)
isSorted @list(int): bool; @list(uint): bool; @list(double): bool; @list(bool): bool; @list(string): bool; @list(bytes): bool
isSorted @list(timestamp): bool; @list(duration): bool
sum @list(int): int; @list(uint): uint; @list(double): double; @list(duration): duration
max @list(int): int; @list(uint): uint; @list(double): double; @list(bool): bool; @list(string): string; @list(bytes): bytes
max @list(timestamp): timestamp; @list(duration): duration
min @list(int): int; @list(uint): uint; @list(double): double; @list(bool): bool; @list(string): string; @list(bytes): bytes
min @list(timestamp): timestamp; @list(duration): duration
slice @list(A), int, int: list(A)
flatten @list(list(A)): list(A); @list(dyn), int: list(dyn)
sort @list(int): list(int); @list(uint): list(uint); @list(double): list(double)
sort @list(bool): list(bool); @list(string): list(string); @list(bytes): list(bytes)
sort @list(timestamp): list(timestamp); @list(duration): list(duration)
lists.range int: list(int)
reverse @list(A): list(A)
distinct @list(A): list(A)
sets.contains list(A), list(A): bool
sets.equivalent list(A), list(A): bool
sets.intersects list(A), list(A): bool
optional.of A: optional(A)
optional.ofNonZeroValue A: optional(A)
optional.none : optional(A)
optional.unwrap list(optional(A)): list(A)
unwrapOpt @list(optional(A)): list(A)
first @list(A): optional(A)
last @list(A): optional(A)
value @optional(A): A
hasValue @optional(A): bool
or @optional(A), optional(A): optional(A)
orValue @optional(A), A: A
quantity string: quantity
isQuantity string: bool
sign quantity: int
isGreaterThan @quantity, quantity: bool; @semver, semver: bool
isLessThan @quantity, quantity: bool; @semver, semver: bool
compareTo @quantity, quantity: int; @semver, semver: int
asApproximateFloat @quantity: double
asInteger @quantity: int
isInteger @quantity: bool
add @quantity, quantity: quantity; @quantity, int: quantity
sub @quantity, quantity: quantity; @quantity, int: quantity
semver string: semver; string, bool: semver
isSemver string: bool; string, bool: bool
major @semver: int
minor @semver: int
patch @semver: int
ip string: ip; @cidr: ip
isIP string: bool
ip.isCanonical string: bool
family @ip: int
isUnspecified @ip: bool
isLoopback @ip: bool
isLinkLocalMulticast @ip: bool
isLinkLocalUnicast @ip: bool
isGlobalUnicast @ip: bool
cidr string: cidr
isCIDR string: bool
containsIP @cidr, string: bool; @cidr, ip: bool
containsCIDR @cidr, string: bool; @cidr, cidr: bool
prefixLength @cidr: int
masked @cidr: cidr
url string: url
isURL string: bool
getScheme @url: string
getHost @url: string
getHostname @url: string
getPort @url: string
getEscapedPath @url: string
getQuery @url: map(string,list(string))
format.named string: optional(format)
validate @format, string: optional(list(string))
format.dns1123Label : format
format.dns1123LabelPrefix : format
format.dns1123Subdomain : format
format.dns1123SubdomainPrefix : format
format.dns1035Label : format
format.dns1035LabelPrefix : format
format.qualifiedName : format
format.labelValue : format
format.uuid : format
format.byte : format
format.uri : format
";

fn overload(text: &str) -> Overload {
    let (arguments, result) = text.rsplit_once(':').unwrap_or((text, "dyn"));
    let arguments = arguments.trim();
    let member = arguments.starts_with('@');
    let arguments = parts(arguments.trim_start_matches('@'), ", ").into_iter().map(type_of).collect();
    Overload { member, arguments, result: type_of(result.trim()) }
}

/// The text cut at each separator.
fn parts<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    if text.is_empty() { Vec::new() } else { text.split(separator).collect() }
}

fn type_of(text: &str) -> Type {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        return match outer {
            "list" => Type::list(type_of(inner)),
            "optional" => Type::optional(type_of(inner)),
            "type" => Type::Type(type_of(inner).into()),
            _ => match inner.split_once(',') {
                Some((key, value)) => Type::map(type_of(key), type_of(value)),
                None => Type::Dyn,
            },
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "quantity" => super::types::QUANTITY,
        "semver" => Type::Opaque("kubernetes.Semver"),
        "timestamp" => Type::Opaque("google.protobuf.Timestamp"),
        "duration" => Type::Opaque("google.protobuf.Duration"),
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "url" => Type::Opaque("kubernetes.URL"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read_with_all_its_types() {
        let lines = DECLARED.lines().chain(std::iter::once(ORDERED));
        let words = lines.flat_map(|line| line.split_once(' ')).flat_map(|(_, ways)| ways.split(';'));
        for way in words {
            let arguments = way.split(':').next().unwrap_or_default();
            let read = overload(way);
            let dynamic = read.arguments.iter().filter(|read| **read == Type::Dyn).count();
            assert_eq!(dynamic, 0, "{way}");
            assert_eq!(read.member, arguments.contains('@'), "{way}");
        }
        assert!(FUNCTIONS.contains_key("_<_"));
        assert_eq!(FUNCTIONS["indexOf"].len(), 3);
        assert_eq!(FUNCTIONS["optional.none"][0].arguments.len(), 0);
    }
}
