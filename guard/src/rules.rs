//! The rules: what a request needs, by path and method. No spelling of a path can reach a wider rule than the
//! path itself (RFC 9700 §4.13).

use std::borrow::Cow;

use percent_encoding::percent_decode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub pattern: PathPattern,
    /// Empty for all methods.
    pub methods: Vec<String>,
    pub access: Access,
}

/// The rules of a configuration.
#[derive(Debug)]
pub struct Rules {
    list: Vec<Rule>,
    case: PathCase,
    /// True if no pattern has an upper-case letter.
    is_lower: bool,
}

/// Whether the API distinguishes two paths that differ only in the case of letters (D-44).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathCase {
    /// The API may serve `/docs` for `/Docs`, so the lower-case form is one more reading of a path.
    Insensitive,
    Sensitive,
}

/// The paths of a rule. Paths are compared byte for byte, without the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPattern {
    /// Exactly this path.
    Exact(String),
    /// This path and all paths below it. A prefix matches only whole segments.
    Prefix(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// No token. Headers that only the filter may set are still removed.
    Anonymous,
    Token {
        /// The token must have all of these scopes.
        scopes: Vec<String>,
    },
}

/// A server could read the path in several ways, for which different rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmbiguousPath;

impl PathCase {
    fn is_same(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Insensitive => one.eq_ignore_ascii_case(other),
            Self::Sensitive => one == other,
        }
    }
}

impl Access {
    /// What a request needs that needs both.
    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Anonymous, access) | (access, Self::Anonymous) => access.clone(),
            (Self::Token { scopes }, Self::Token { scopes: others }) => {
                let others = others.iter().filter(|scope| !scopes.contains(scope));
                let scopes = scopes.iter().chain(others).cloned().collect();
                Self::Token { scopes }
            }
        }
    }
}

impl PathPattern {
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Exact(_) => "path",
            Self::Prefix(_) => "path_prefix",
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) => text,
        }
    }

    /// Checks that a request can match the pattern: what [`find`] refuses in requests is refused in rules.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub fn check(&self) -> Result<(), &'static str> {
        let text = self.text();
        if !text.starts_with('/') {
            return Err("must start with a slash");
        }
        if text.contains('*') {
            return Err("has no wildcards: path_prefix matches everything below a path");
        }
        if text.contains(['?', '%', ';']) || refuses(text.as_bytes()) {
            return Err(
                "must be a plain path: no query, percent signs, semicolons, dot segments or double slashes",
            );
        }
        // RFC 3986 §3.3: clients percent-encode all other characters, which results in a different path.
        let legal = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'/' | b'-'
                        | b'.'
                        | b'_'
                        | b'~'
                        | b'!'
                        | b'$'
                        | b'&'
                        | b'\''
                        | b'('
                        | b')'
                        | b'+'
                        | b','
                        | b'='
                        | b':'
                        | b'@'
                )
        };
        if !text.bytes().all(legal) {
            return Err(
                "has a character that requests only carry percent-encoded; no rule can name such a path",
            );
        }
        Ok(())
    }

    fn matches(&self, path: &[u8], case: PathCase) -> bool {
        let text = self.text().as_bytes();
        let Some((start, rest)) = path.split_at_checked(text.len()) else {
            return false;
        };
        case.is_same(text, start)
            && match self {
                Self::Exact(_) => rest.is_empty(),
                Self::Prefix(_) => {
                    text.ends_with(b"/") || matches!(rest.first(), None | Some(b'/'))
                }
            }
    }

    /// True if the pattern names this path with a slash added to its end or removed from it, which is the same path for
    /// many servers.
    fn is_twin_of(&self, path: &[u8], case: PathCase) -> bool {
        let text = self.text().as_bytes();
        match (path.strip_suffix(b"/"), text.strip_suffix(b"/")) {
            (Some(path), None) => case.is_same(text, path),
            (None, Some(text)) => case.is_same(text, path),
            _ => false,
        }
    }

    /// Exact paths before prefixes, longer paths before shorter ones.
    fn precedence(&self) -> (bool, usize) {
        (matches!(self, Self::Exact(_)), self.text().len())
    }
}

impl Rule {
    fn allows_method(&self, method: &[u8]) -> bool {
        self.methods.is_empty()
            || self
                .methods
                .iter()
                .any(|allowed| allowed.as_bytes() == method)
    }

    /// Checks that [`Rules::find`] can choose between the two rules.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check_beside(&self, other: &Self, case: PathCase) -> Result<(), &'static str> {
        let share_methods = match (self.methods.as_slice(), other.methods.as_slice()) {
            ([], []) => true,
            ([], _) | (_, []) => false,
            (mine, theirs) => mine.iter().any(|method| theirs.contains(method)),
        };
        if share_methods && self.pattern == other.pattern {
            return Err("has another rule for the same method");
        }
        let (mine, theirs) = (&self.pattern, &other.pattern);
        let differ_in_case =
            mine.key() == theirs.key() && mine.text().eq_ignore_ascii_case(theirs.text());
        if share_methods
            && differ_in_case
            && case == PathCase::Insensitive
            && self.access != other.access
        {
            return Err(
                "differs from another rule in the case of letters alone: if the API distinguishes the two, set path_case to sensitive",
            );
        }
        Ok(())
    }
}

impl Rules {
    #[must_use]
    pub fn new(list: Vec<Rule>, case: PathCase) -> Self {
        let has_upper = |rule: &Rule| rule.pattern.text().bytes().any(|b| b.is_ascii_uppercase());
        Self {
            is_lower: !list.iter().any(has_upper),
            list,
            case,
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.list.iter()
    }

    /// Returns what the rule for a request requires; `None` if no rule applies. Exact paths take precedence over
    /// prefixes, and longer paths over shorter ones. Among equal paths, a rule that names the method takes precedence.
    ///
    /// `target` is the `:path` of the request, with the query. Resource servers differ in how they read percent
    /// signs, path parameters (`;`), encoded question marks and the case of letters, and some decode twice. Therefore
    /// all these readings must require the same.
    ///
    /// # Errors
    /// [`AmbiguousPath`] if the readings do not require the same, or if the path contains something that no client
    /// needs: encoded slashes and backslashes, double slashes, dot segments, fragments, control characters, `%u`
    /// escapes or overlong UTF-8, each also when encoded twice.
    pub fn find(
        &self,
        method: &[u8],
        target: &[u8],
    ) -> Result<Option<Cow<'_, Access>>, AmbiguousPath> {
        let path = before(target, b'?');
        let access = self.access(method, path, PathCase::Sensitive);
        if is_plain(path, self.case) && (self.is_lower || self.case == PathCase::Sensitive) {
            return Ok(access);
        }
        if refuses(path) {
            return Err(AmbiguousPath);
        }
        let agrees_in_any_case = |reading: &[u8]| {
            self.case == PathCase::Sensitive
                || access == self.access(method, &without_case(reading), PathCase::Insensitive)
        };
        if !path.iter().any(|byte| matches!(byte, b'%' | b';')) {
            return match agrees_in_any_case(path) {
                true => Ok(access),
                false => Err(AmbiguousPath),
            };
        }
        let agrees = |reading: &[u8]| {
            access == self.access(method, reading, PathCase::Sensitive)
                && agrees_in_any_case(reading)
        };
        let mut layer = Cow::Borrowed(path);
        for _ in 0..MAX_LAYERS {
            let unquestioned = before(&layer, b'?');
            for reading in [
                Cow::Borrowed(layer.as_ref()),
                Cow::Borrowed(unquestioned),
                without_parameters(&layer),
                without_parameters(unquestioned),
            ] {
                if refuses(&reading) || !agrees(&reading) {
                    return Err(AmbiguousPath);
                }
            }
            let decoded = match percent_decode(&layer).into() {
                Cow::Borrowed(_) => return Ok(access),
                Cow::Owned(decoded) => decoded,
            };
            layer = Cow::Owned(decoded);
        }
        Err(AmbiguousPath)
    }

    /// A path that no rule names needs what its own rule requires, and what the rule requires that names the path with or
    /// without a slash at the end.
    fn access(&self, method: &[u8], path: &[u8], case: PathCase) -> Option<Cow<'_, Access>> {
        let own = self.best(method, |pattern| pattern.matches(path, case))?;
        let twin = match own.pattern.text().len() == path.len() {
            true => None,
            false => self.best(method, |pattern| pattern.is_twin_of(path, case)),
        };
        Some(match twin {
            Some(twin) => Cow::Owned(own.access.and(&twin.access)),
            None => Cow::Borrowed(&own.access),
        })
    }

    fn best(&self, method: &[u8], applies: impl Fn(&PathPattern) -> bool) -> Option<&Rule> {
        let rules = self.list.iter();
        rules
            .filter(|rule| applies(&rule.pattern) && rule.allows_method(method))
            .max_by_key(|rule| (rule.pattern.precedence(), !rule.methods.is_empty()))
    }

    /// Prefixes with a slash at the end, for which the path without the slash falls to a rule with other requirements.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (number, rule) in self.list.iter().enumerate() {
            let PathPattern::Prefix(text) = &rule.pattern else {
                continue;
            };
            let Some(path) = text.strip_suffix('/').filter(|path| !path.is_empty()) else {
                continue;
            };
            let matches =
                |other: &&Rule| other.pattern.matches(path.as_bytes(), PathCase::Sensitive);
            let mut others = self.list.iter().filter(matches);
            let is_named = others.clone().any(|other| other.pattern.text() == path);
            if !is_named && others.any(|other| other.access != rule.access) {
                warnings.push(format!(
                    "rules[{number}].path_prefix: {path} falls to another rule, and requests for it need what both rules require; without the slash at the end, this rule covers {path} too"
                ));
            }
        }
        warnings
    }
}

/// Layers of percent-encoding that are examined. A path that a third decoding changes is refused.
const MAX_LAYERS: usize = 3;

/// The bytes before the first occurrence of `byte`.
fn before(text: &[u8], byte: u8) -> &[u8] {
    let end = text.iter().position(|other| *other == byte);
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// The path as servers read it that ignore the case of letters. ASCII letters stay, because [`PathPattern::matches`]
/// ignores their case. The Kelvin sign and the long s become ASCII letters.
fn without_case(path: &[u8]) -> Cow<'_, [u8]> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let text = String::from_utf8_lossy(path);
    Cow::Owned(text.to_uppercase().to_lowercase().into_bytes())
}

/// True if the path has exactly one reading (no escapes, dots or duplicate slashes, and no upper-case letters if the API
/// may ignore case). Checked first, because nearly all paths are such.
fn is_plain(path: &[u8], case: PathCase) -> bool {
    let mut before = b' ';
    path.first() == Some(&b'/')
        && path.iter().all(|byte| {
            let after_slash = std::mem::replace(&mut before, *byte) == b'/';
            match byte {
                b'/' => !after_slash,
                b'-' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' => true,
                b'A'..=b'Z' => case == PathCase::Sensitive,
                _ => false,
            }
        })
}

/// True if servers are known to read the path, before or after decoding, in different ways.
fn refuses(path: &[u8]) -> bool {
    let Some(inner) = path.strip_prefix(b"/") else {
        // The asterisk form of OPTIONS, which no rule can match.
        return path != b"*";
    };
    let mut segments = inner.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(|byte| *byte == b';').next();
        let empty_within = segment.is_empty() && segments.peek().is_some();
        if empty_within || matches!(name, Some(b"." | b"..")) {
            return true;
        }
    }
    let strange = |byte: &u8| matches!(byte, 0..=0x1f | 0x7f | b'\\' | b'#');
    path.iter().any(strange) || has_treacherous_bytes(path)
}

/// Finds `%2f` and `%5c`, which some servers decode before they split the path; `%00`; escapes such as `%u002f`
/// of some old servers; and overlong UTF-8, which lenient decoders read as ASCII (RFC 3629 §10).
fn has_treacherous_bytes(path: &[u8]) -> bool {
    path.windows(3).any(|window| {
        matches!(
            window,
            [b'%', b'2', b'f' | b'F'] | [b'%', b'5', b'c' | b'C'] | [b'%', b'0', b'0']
        )
    }) || path.windows(2).any(|window| {
        matches!(
            window,
            [b'%', b'u' | b'U']
                | [0xc0 | 0xc1, 0x80..=0xbf]
                | [0xe0, 0x80..=0x9f]
                | [0xf0, 0x80..=0x8f]
        )
    })
}

/// The path without the parameters of its segments (RFC 3986 §3.3).
fn without_parameters(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b';') {
        return Cow::Borrowed(path);
    }
    let segments = path.split(|byte| *byte == b'/');
    let segments: Vec<&[u8]> = segments.map(|segment| before(segment, b';')).collect();
    Cow::Owned(segments.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(pattern: PathPattern, methods: &[&str], scope: &str) -> Rule {
        Rule {
            pattern,
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            access: Access::Token {
                scopes: vec![scope.to_owned()],
            },
        }
    }

    fn prefix(text: &str) -> PathPattern {
        PathPattern::Prefix(text.to_owned())
    }

    fn rules(case: PathCase) -> Rules {
        let list = vec![
            rule(prefix("/api"), &[], "api"),
            rule(prefix("/api/admin/"), &["POST", "PUT"], "write"),
            rule(prefix("/api/admin/"), &[], "read"),
            rule(
                PathPattern::Exact("/api/admin/open".into()),
                &["GET"],
                "open",
            ),
            Rule {
                pattern: prefix("/public/"),
                methods: vec![],
                access: Access::Anonymous,
            },
        ];
        Rules::new(list, case)
    }

    fn found_by(
        rules: &Rules,
        method: &str,
        target: &str,
    ) -> Result<Option<String>, AmbiguousPath> {
        let access = rules.find(method.as_bytes(), target.as_bytes())?;
        Ok(access.map(|access| match access.as_ref() {
            Access::Anonymous => "anonymous".to_owned(),
            Access::Token { scopes } => scopes.join(" "),
        }))
    }

    fn found(method: &str, target: &str) -> Result<Option<String>, AmbiguousPath> {
        found_by(&rules(PathCase::Insensitive), method, target)
    }

    #[test]
    fn exact_long_and_named_methods_come_first() {
        for (method, target, expected) in [
            ("GET", "/api", Some("api")),
            ("GET", "/api/", Some("api")),
            ("GET", "/api?x=/public/", Some("api")),
            ("GET", "/apis", None),
            ("GET", "/", None),
            ("OPTIONS", "*", None),
            ("GET", "/api/admin", Some("api read")),
            ("POST", "/api/admin", Some("api write")),
            ("GET", "/api/admin/open/", Some("read open")),
            ("GET", "/api/admin/", Some("read")),
            ("POST", "/api/admin/x", Some("write")),
            ("post", "/api/admin/x", Some("read")),
            ("GET", "/api/admin/open", Some("open")),
            ("DELETE", "/api/admin/open", Some("read")),
            ("GET", "/public/x", Some("anonymous")),
            ("GET", "/public", None),
            ("GET", "/public/X", Some("anonymous")),
            ("GET", "/api/X.y", Some("api")),
        ] {
            assert_eq!(
                found(method, target),
                Ok(expected.map(str::to_owned)),
                "{method} {target}"
            );
        }
    }

    #[test]
    fn rfc9700_s4_13_no_spelling_widens_a_rule() {
        for target in [
            "/public/../api/admin/x",
            "/public/..",
            "/public/.",
            "/public/./x",
            "/public/..;/api/admin/x",
            "/public/.;x/y",
            "/public/%2e%2e/api",
            "/public/%2E./api",
            "/public/..%2fapi",
            "/public/..%5Capi",
            "/public\\..\\api",
            "/public//api",
            "//public/x",
            "/public/x#/api",
            "/public/%00",
            "/public/%252e%252e/api",
            "/public/%25252e%25252e/api",
            "/public/%2525252541",
            "/public/a%252fb",
            "/public/a%255Cb",
            "/public/%2500",
            "/public/x%23/api",
            "/public/x%2523/api",
            "/public/%u002e%u002e/api",
            "/public/%25u002e./api",
            "/public/%c0%ae%c0%ae/api",
            "/public/%e0%80%ae./api",
            "/public/%f0%80%80%ae./api",
            "/public/%0a",
            "/public/\u{7f}",
            // Another rule applies after decoding or without parameters.
            "/api;x/admin/x",
            "/%61pi/admin/x",
            "/api/admin;x/y",
            "/public;x/y",
            "/%70ublic/x",
            "/%2570ublic/x",
            "/api/admin%3b/x",
            // An exact rule applies at servers that look for the query after decoding.
            "/api/admin/open%3f",
            "/api/admin/open%3Fx=1",
            "/api/admin/open%253fx=1",
            "/api%3f/admin/open",
            "public/x",
            "",
            "http://host/public/x",
        ] {
            assert_eq!(found("GET", target), Err(AmbiguousPath), "{target}");
        }
    }

    /// Express and ASP.NET Core serve `/api/admin/x` for all of these.
    #[test]
    fn no_case_of_letters_widens_a_rule() {
        let sensitive = rules(PathCase::Sensitive);
        for (target, as_sent) in [
            ("/API/admin/x", None),
            ("/api/ADMIN/x", Some("api")),
            ("/api/Admin/x.y", Some("api")),
            ("/api/admin/Open", Some("read")),
            ("/PUBLIC/x", None),
        ] {
            assert_eq!(found("GET", target), Err(AmbiguousPath), "{target}");
            let as_sent = as_sent.map(str::to_owned);
            assert_eq!(found_by(&sensitive, "GET", target), Ok(as_sent), "{target}");
        }
        for target in [
            "/api/%41dmin/x",
            "/api/%2541dmin/x",
            "/api/ADMIN;x/y",
            // The Kelvin sign and the long s.
            "/%E2%84%AAeys/x",
            "/\u{212a}eys/x",
            "/key%C5%BF/x",
        ] {
            let list = vec![
                rule(prefix("/"), &[], "all"),
                rule(prefix("/api/admin"), &[], "admin"),
                rule(prefix("/keys"), &[], "keys"),
            ];
            let rules = Rules::new(list, PathCase::Insensitive);
            assert_eq!(
                found_by(&rules, "GET", target),
                Err(AmbiguousPath),
                "{target}"
            );
        }
    }

    #[test]
    fn a_rule_in_upper_case_is_a_rule_for_the_lower_case_too() {
        let list = vec![
            rule(prefix("/"), &[], "all"),
            rule(prefix("/API/Admin"), &[], "admin"),
        ];
        let found = |target| {
            found_by(
                &Rules::new(list.clone(), PathCase::Insensitive),
                "GET",
                target,
            )
        };
        assert_eq!(found("/API/Admin/x"), Ok(Some("admin".to_owned())));
        assert_eq!(found("/api/admin/x"), Err(AmbiguousPath));
        assert_eq!(found("/api/x"), Ok(Some("all".to_owned())));
    }

    /// Most servers serve `/docs` for `/docs/`, or the reverse.
    #[test]
    fn a_slash_at_the_end_widens_no_rule() {
        let anonymous = |pattern| Rule {
            access: Access::Anonymous,
            ..rule(pattern, &[], "")
        };
        let exact = |text: &str| PathPattern::Exact(text.to_owned());
        let list = vec![
            rule(prefix("/"), &[], "all"),
            rule(prefix("/docs/"), &[], "docs"),
            rule(exact("/list"), &["GET"], "list"),
            anonymous(prefix("/public/")),
            anonymous(exact("/health")),
            rule(prefix("/both/"), &[], "below"),
            rule(exact("/both"), &[], "here"),
        ];
        let rules = Rules::new(list, PathCase::Insensitive);
        for (method, target, expected) in [
            ("GET", "/docs", "all docs"),
            ("GET", "/docs/", "docs"),
            ("GET", "/doc", "all"),
            ("GET", "/list/", "all list"),
            ("PUT", "/list/", "all"),
            ("GET", "/public", "all"),
            ("GET", "/public/", "anonymous"),
            ("GET", "/health", "anonymous"),
            ("GET", "/health/", "all"),
            ("GET", "/both", "here"),
            ("GET", "/both/", "below"),
        ] {
            let found = found_by(&rules, method, target);
            assert_eq!(found, Ok(Some(expected.to_owned())), "{method} {target}");
        }
        assert_eq!(found_by(&rules, "GET", "/DOCS"), Err(AmbiguousPath));
        let warnings = rules.warnings();
        let named: Vec<&str> = warnings
            .iter()
            .filter_map(|text| text.split(':').next())
            .collect();
        assert_eq!(named, ["rules[1].path_prefix", "rules[3].path_prefix"]);
    }

    #[test]
    fn rules_that_only_case_tells_apart_need_an_api_that_distinguishes_them() {
        let (upper, lower) = (rule(prefix("/A"), &[], "x"), rule(prefix("/a"), &[], "y"));
        assert!(upper.check_beside(&lower, PathCase::Insensitive).is_err());
        assert_eq!(upper.check_beside(&lower, PathCase::Sensitive), Ok(()));
        let same = rule(prefix("/a"), &[], "x");
        assert_eq!(upper.check_beside(&same, PathCase::Insensitive), Ok(()));
        let put = rule(prefix("/a"), &["PUT"], "y");
        assert_eq!(upper.check_beside(&put, PathCase::Insensitive), Ok(()));
    }

    #[test]
    fn harmless_encodings_and_parameters_are_fine() {
        for target in [
            "/api/caf%C3%A9",
            "/api/x;version=1",
            "/api/100%",
            "/api/100%25",
            "/api/100%25%20done",
            "/api/a%2520b",
            "/api/why%3f",
            "/api/why%3F/because",
            "/api/a%20b",
            "/api/%E2%82%AC",
        ] {
            assert_eq!(found("GET", target), Ok(Some("api".to_owned())), "{target}");
        }
    }

    #[test]
    fn rules_that_could_never_match_are_refused() {
        for bad in [
            "",
            "api",
            "/a//b",
            "/a/../b",
            "/a/.",
            "/a?b",
            "/a%20b",
            "/a%7eb",
            "/a;b",
            "/a#b",
            "/a b",
            "/caf\u{e9}",
            "/a/*",
            "/a/{id}",
            "/a\\b",
            "/a\"b",
            "/a\tb",
            "https://host/a",
            "*",
        ] {
            assert!(prefix(bad).check().is_err(), "{bad}");
            assert!(PathPattern::Exact(bad.to_owned()).check().is_err(), "{bad}");
        }
        for good in [
            "/",
            "/a",
            "/a/",
            "/.well-known/x",
            "/a-b_c.d~e",
            "/a:b@c",
            "/(a)!$&'+,=",
        ] {
            assert_eq!(prefix(good).check(), Ok(()), "{good}");
        }
    }

    proptest! {
        /// Any number of decodings, any choice of the path's end, and any case lead to the same rule.
        #[test]
        fn decoding_never_changes_the_rule(path in "/(a|p|A|P|/|;|%2|%3|%5|[0-9a-f]){0,6}(api|public|Api)?(/|%3f|%253f|%25|%61|%41){0,4}(admin/open|admin/Open)?[%0-9a-fA-F]{0,6}") {
            let rules = rules(PathCase::Insensitive);
            if let Ok(access) = rules.find(b"GET", path.as_bytes()) {
                let mut reading = path.into_bytes();
                for _ in 0..4 {
                    for seen in [reading.as_slice(), before(&reading, b'?')] {
                        for seen in [seen, &without_parameters(seen)] {
                            for seen in [seen, &seen.to_ascii_lowercase()] {
                                let read = rules.access(b"GET", seen, PathCase::Sensitive);
                                prop_assert_eq!(&access, &read);
                            }
                        }
                    }
                    reading = percent_decode(&reading).collect();
                }
            }
        }

        /// The fast check accepts no path that the full check would refuse.
        #[test]
        fn a_plain_path_can_be_read_in_one_way_only(path in "[/a.%2;~#*\\\\]{0,12}") {
            let path = path.as_bytes();
            if is_plain(path, PathCase::Sensitive) {
                prop_assert!(!refuses(path));
                prop_assert!(!path.iter().any(|byte| matches!(byte, b'%' | b';')));
            }
        }
    }
}
