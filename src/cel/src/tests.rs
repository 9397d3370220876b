//! Expressions and what they come to. The golden vectors of `headroom-conformance` have more.

use super::*;

fn run(text: &str) -> Result<bool, String> {
    let attributes = Value::map(vec![
        (Value::text("model"), Value::text("A100")),
        (Value::text("index"), Value::Int(3)),
        (Value::text("ecc"), Value::Bool(false)),
        (Value::text("version"), Value::Version(Arc::new(Version::parse("550.54.15").unwrap()))),
    ]);
    let variable = Type::map(Type::String, Type::Dyn);
    let program = Program::compile(text, &[("gpu", variable)]).map_err(|error| error.to_string())?;
    match program.evaluate(&[("gpu", attributes)]) {
        Ok(Value::Bool(value)) => Ok(value),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn holds(texts: &[&str]) {
    for text in texts {
        assert_eq!(run(text), Ok(true), "{text}");
    }
}

fn fails(text: &str, with: &str) {
    let error = run(text).expect_err(text);
    assert!(error.contains(with), "{text}: {error}");
}

#[test]
fn operators_bind_as_in_the_language() {
    holds(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 4 - 3 == 3",
        "-2 * -3 == 6",
        "!false && !!true",
        "--1 == 1",
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1",
        "true ? true : false",
        "false ? false : true ? true : false",
        "1 < 2 == true",
        "2 in [1, 2] && !(3 in [1, 2])",
        "-9223372036854775808 < 0",
        "0x1F == 31 && 1e3 == 1000.0 && 5u == uint(5)",
    ]);
}

#[test]
fn numbers_are_equal_across_their_types() {
    holds(&[
        "gpu.index == 3.0",
        "gpu.index == 3u",
        "gpu.index in [1.0, 3.0]",
        "gpu.index < 3.5",
        "gpu.model != 3",
    ]);
}

#[test]
fn one_side_of_a_logical_operator_makes_up_for_an_error_of_the_other() {
    holds(&[
        "!(gpu.nosuch == 1 && false)",
        "gpu.nosuch == 1 || true",
        "[0, 1].exists(i, 1 / i == 1)",
        "![0, 1].all(i, 1 / i == 2)",
    ]);
    fails("gpu.nosuch == 1 || false", "no such key: nosuch");
    fails("gpu.index == 3 ? gpu.nosuch : true", "no such key: nosuch");
}

#[test]
fn macros_go_through_lists_and_keys() {
    holds(&[
        "[1, 2, 3].map(i, i * 2) == [2, 4, 6]",
        "[1, 2, 3].map(i, i > 1, i * 2) == [4, 6]",
        "[1, 2, 3].filter(i, i != 2) == [1, 3]",
        "gpu.exists_one(k, k == 'model')",
        "!gpu.all(k, k == 'model')",
        "{'a': 1, 'b': 2}.all(k, v, k != 'c' && v < 3)",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "[5, 6].transformList(i, v, i == 0, i + v) == [5]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
        "['bb', 'a'].sortBy(t, size(t)) == ['a', 'bb']",
        "cel.bind(x, 2, cel.bind(y, x + 1, x * y)) == 6",
        "[[1, 2], [3]].exists(l, l.exists(i, i == 3))",
    ]);
}

#[test]
fn optional_values_are_unwrapped_or_replaced() {
    holds(&[
        "gpu.?nosuch.orValue('y') == 'y'",
        "gpu[?'model'].value() == 'A100'",
        "!gpu.?nosuch.hasValue()",
        "gpu.?nosuch.or(optional.of(4)).value() == 4",
        "optional.ofNonZeroValue('').orValue('z') == 'z'",
        "gpu.?model.optMap(m, m + '!').value() == 'A100!'",
        "gpu.?nosuch.optFlatMap(m, optional.of(m)).orValue(1) == 1",
        "[?gpu.?nosuch, ?gpu.?model].size() == 1",
        "{?'a': gpu.?model, ?'b': gpu.?nosuch}.size() == 1",
        "[1, 2].last().value() == 2",
    ]);
    fails("gpu.?nosuch.value() == 1", "dereference");
}

#[test]
fn texts_have_the_functions_of_version_two() {
    holds(&[
        "'tacocat'.charAt(3) == 'o' && 'abc'.charAt(3) == ''",
        "'hello mellow'.indexOf('ello', 2) == 7 && 'hello'.indexOf('') == 0",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'a-b-c'.replace('-', '', 1) == 'ab-c'",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'abc'.substring(1, 2) == 'b' && ' x '.trim() == 'x'",
        "'%s %d %.2f %x %b %%'.format(['a', 3, 1234.5, 255, 5]) == 'a 3 1,234.50 ff 101 %'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "gpu.model.matches('^A[0-9]+$') && gpu.model.find('[0-9]') == '1'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "size('häß') == 3 && 'häß'.substring(1, 2) == 'ä' && size(b'ä') == 2",
        "r'\\d' == '\\\\d' && '''a'b''' == \"a'b\" && '\\u00e4' == 'ä' && '\\x41\\101' == 'AA'",
    ]);
    fails("'abc'.substring(2, 1) == ''", "out of range");
    fails("'abc'.matches('(') ", "regular expression");
}

#[test]
fn lists_have_the_functions_of_version_three_and_of_kubernetes() {
    holds(&[
        "[3, 1, 2].sum() == 6 && [3, 1, 2].max() == 3 && ['b', 'a'].min() == 'a' && [1, 2].isSorted()",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(7) == -1",
        "[1, 2, 3].slice(1, 3) == [2, 3] && lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]",
        "[1, 2, 2, 1].distinct() == [1, 2] && [3, 1].sort() == [1, 3]",
        "[[1], [2, 3]].flatten() == [1, 2, 3]",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
    ]);
    fails("[].max() == 1 || [dyn(1), 'a'].sort() == []", "");
}

#[test]
fn quantities_versions_and_addresses_are_types_of_their_own() {
    holds(&[
        "quantity('1Gi').add(1).compareTo(quantity('1073741825')) == 0",
        "quantity('500m').isInteger() == false && quantity('2k').asInteger() == 2000 && sign(quantity('-1')) == -1",
        "quantity('1.5').asApproximateFloat() == 1.5",
        "gpu.version.isGreaterThan(semver('550.54.14')) && gpu.version.major() == 550",
        "semver('v1.2', true) == semver('1.2.0') && isSemver('1.2') == false && isSemver('1.2', true)",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')",
        "string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8' && ip('::1').isLoopback() && ip('1.2.3.4').family() == 4",
        "url('https://u@example.com:80/p?q=1&q=2').getPort() == '80'",
        "url('https://example.com/p?q=1&q=2').getQuery() == {'q': ['1', '2']}",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('a_b').hasValue()",
        "type(gpu.index) == int && type('a') == string && type(ip('1.2.3.4')) == net.IP",
    ]);
    fails("gpu.version == '550.54.15'", "no such overload");
    assert_eq!(run("gpu.version != '550.54.15'"), Ok(true));
    fails("gpu.version in ['550.54.15']", "unhashable");
    assert_eq!(run("'550.54.15' == gpu.version"), Ok(false));
    fails("quantity('abc').isInteger()", "");
}

#[test]
fn expressions_whose_types_do_not_fit_do_not_compile() {
    for text in [
        "'a' in 'abc'",
        "nosuch",
        "gpu.model.nosuchFunction()",
        "[1, 'a'].size() == 2",
        "[gpu.index, 1].size() == 2",
        "{'a': 1, 'b': 'c'}.size() == 2",
        "quantity('1') >= quantity('2')",
        "'a' + 1 == 'a1'",
        "1 && true",
        "'abc'.reverse() == 'cba'",
        "base64.encode(b'a') == ''",
        "{} == 1",
        "[1].exists(x.y, true)",
        "has(gpu)",
        "1 +",
        "(1",
        "'a",
        "for == 1",
        "a b",
        "gpu.index == 99999999999999999999",
        "",
    ] {
        let error = Program::compile(text, &[("gpu", Type::map(Type::String, Type::Dyn))]).expect_err(text);
        assert!(!matches!(error, CompileError::Unsupported(_)), "{text}: {error}");
    }
}

#[test]
fn times_have_parts_and_are_added_and_compared() {
    holds(&[
        "duration('1h30m') == duration('90m') && duration('-1.5s') < duration('0') && duration('1ms').getMilliseconds() == 1",
        "duration('90s').getMinutes() == 1 && string(duration('1h')) == '3600s' && int(duration('1us')) == 1000",
        "timestamp('2024-02-29T12:00:00Z') + duration('24h') == timestamp('2024-03-01T12:00:00Z')",
        "timestamp('2024-03-01T00:00:00Z') - timestamp('2024-02-01T00:00:00Z') == duration('696h')",
        "timestamp('2024-03-01T00:30:00+01:00').getFullYear() == 2024 && timestamp(0).getHours('+02:00') == 2",
        "timestamp('2024-03-01T00:30:00Z').getDayOfWeek() == 5 && timestamp('2024-03-01T00:30:00Z').getMonth() == 2",
        "[duration('2s'), duration('1s')].sum() == duration('3s') && [duration('2s')].max() == duration('2s')",
    ]);
    fails("duration('1 s') == duration('1s')", "duration");
    fails("duration('s') == duration('1s') || duration('') == duration('1s')", "duration");
    fails("timestamp('2024-02-30T00:00:00Z') == timestamp(0)", "timestamp");
    fails("timestamp(0).getHours('Nowhere') == 1", "time zone");
}

#[test]
fn functions_that_are_left_out_are_named() {
    for (text, name) in [
        ("format.date().validate('2020-01-01').hasValue()", "format.date"),
        ("google.protobuf.Int32Value{value: 1} == 1", "message construction"),
    ] {
        let error = Program::compile(text, &[("gpu", Type::map(Type::String, Type::Dyn))]).expect_err(text);
        assert_eq!(error, CompileError::Unsupported(name.into()), "{text}");
    }
}

#[test]
fn work_is_bounded_in_time_space_and_depth() {
    fails("lists.range(200).all(a, lists.range(200).all(b, lists.range(200).all(c, true)))", "cost limit");
    fails("lists.range(2000000000).size() == 1", "cost limit");
    let doubled = (0..40).fold("x == ''".to_owned(), |body, _| format!("cel.bind(x, x + x, {body})"));
    fails(&format!("cel.bind(x, 'aaaaaaaaaa', {doubled})"), "cost limit");
    let replaced =
        (0..40).fold("x == ''".to_owned(), |body, _| format!("cel.bind(x, x.replace('', x), {body})"));
    fails(&format!("cel.bind(x, 'aaaaaaaaaa', {replaced})"), "cost limit");
    let nested = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
    holds(&[&nested(MAX_NESTING - 1)]);
    fails(&nested(MAX_NESTING + 1), "nested deeper");
    holds(&[&vec!["true"; MAX_ROW].join(" && "), &format!("{}true", "!".repeat(4000))]);
    let rows = (0..90).fold("true".to_owned(), |inner, _| format!("({inner}{})", " && true".repeat(5)));
    fails(&rows, "nested deeper");
    fails(&" ".repeat(MAX_LENGTH + 1), "longer than");
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused_or_evaluated_without_panic(text in "[a-z0-9 .,:?!&|<>=+*/%'\"\\[\\](){}\\\\-]{0,60}") {
        let _ = run(&text);
    }

    #[test]
    fn any_words_of_the_language_are_refused_or_evaluated_without_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "gpu", ".", "model", "index", "?", "[", "]", "(", ")", "{", "}", "==", "!=", "<", "&&", "||", "!", "-", "+",
            "'a'", "1", "2u", "1.5", "true", "null", ",", ":", "in", "size", "map", "all", "exists", "x", "has", "quantity",
            "semver", "orValue", "optional", "of", "type", "cel", "bind", "matches", "sum", "filter",
        ]), 0..25)
    ) {
        let _ = run(&words.join(" "));
        let _ = run(&words.concat());
    }
}

#[test]
fn formula_counts_in_doubles_and_has_functions_of_several_numbers() {
    let of = |text: &str| {
        let program =
            Program::compile_formula(text, &["queue", "rate"]).map_err(|error| error.to_string())?;
        match program.evaluate(&[("queue", Value::Double(7.0)), ("rate", Value::Double(0.5))]) {
            Ok(Value::Double(number)) => Ok(number),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    };
    for (text, number) in [
        ("queue / 2", 3.5),
        ("1 / 2 + -1", -0.5),
        ("(queue + rate) * 2 - 1", 14.0),
        ("max(queue, 9, rate)", 9.0),
        ("min([queue, rate])", 0.5),
        ("sum(queue, 1) + max([1, 2]) + [3, 4].max()", 14.0),
        ("queue > 5 && !(rate >= 1) ? queue * 10 : 0", 70.0),
        ("queue / 0", f64::INFINITY),
    ] {
        assert_eq!(of(text), Ok(number), "{text}");
    }
    for (text, part) in [
        ("queue > 1", "its value is of type bool"),
        ("queue + lag", "undeclared reference to 'lag'"),
        ("queue + 'x'", "numbers, operators and functions only"),
        ("queue + true", "no matching overload"),
        ("queue % 2", "no matching overload"),
        ("max()", "its value is of type int"),
        ("[1, 2].map(x, x)[0]", "numbers, operators and functions only"),
        ("queue.rate", "numbers, operators and functions only"),
        ("queue +", "syntax error at column 8"),
    ] {
        let error = of(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}
