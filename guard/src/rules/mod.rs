//! The rules: what a request needs, by path and method. No spelling of a path can reach a wider rule than the
//! path itself (RFC 9700 §4.13).

mod claim;
mod pattern;
mod readings;

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode;
use serde_json::{Map, Value};

pub use self::claim::RequiredClaim;
pub use self::pattern::PathPattern;
pub use self::readings::PathCase;
use self::readings::{MAX_LAYERS, before, plain_path, refuses, without_case, without_parameters};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// No token. Headers that only the filter may set are still removed.
    Anonymous {
        /// Whether the resource server receives the `Authorization` header, which the guard does not verify here.
        forward_authorization: bool,
    },
    Token {
        /// The token must have all of these scopes.
        scopes: Vec<String>,
        /// The token must have all of these values.
        claims: Vec<Arc<RequiredClaim>>,
        sign_in: SignIn,
    },
}

/// How and when the person must have signed in (RFC 9470).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignIn {
    /// Values of `acr` and `amr`. The token must have all of them.
    pub claims: Vec<Arc<RequiredClaim>>,
    /// Longest time since `auth_time`, in seconds.
    pub max_age: Option<u64>,
}

impl SignIn {
    fn and(&self, other: &Self) -> Self {
        Self {
            claims: union(&self.claims, &other.claims),
            max_age: self.max_age.into_iter().chain(other.max_age).min(),
        }
    }
}

/// A server could read the path or the method in several ways, for which different rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmbiguousPath;

impl Access {
    /// What a request needs that needs both.
    #[cold]
    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (
                Self::Anonymous {
                    forward_authorization: one,
                },
                Self::Anonymous {
                    forward_authorization: other,
                },
            ) => Self::Anonymous {
                forward_authorization: *one && *other,
            },
            (Self::Anonymous { .. }, token) | (token, Self::Anonymous { .. }) => token.clone(),
            (
                Self::Token {
                    scopes,
                    claims,
                    sign_in,
                },
                Self::Token {
                    scopes: more_scopes,
                    claims: more_claims,
                    sign_in: other,
                },
            ) => Self::Token {
                scopes: union(scopes, more_scopes),
                claims: union(claims, more_claims),
                sign_in: sign_in.and(other),
            },
        }
    }
}

/// The elements of `one`, then the elements of `other` that `one` lacks.
fn union<T: Clone + PartialEq>(one: &[T], other: &[T]) -> Vec<T> {
    let more = other.iter().filter(|element| !one.contains(element));
    one.iter().chain(more).cloned().collect()
}

impl Rule {
    fn allows_method(&self, method: &[u8]) -> bool {
        self.methods.is_empty()
            || self
                .methods
                .iter()
                .any(|allowed| allowed.as_bytes() == method)
    }

    /// The one of two rules for a path that takes precedence.
    fn over<'a>(&'a self, other: Option<&'a Self>) -> Option<&'a Self> {
        let rank = |rule: &Self| (rule.pattern.precedence(), !rule.methods.is_empty());
        other
            .filter(|other| rank(other) > rank(self))
            .or(Some(self))
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
                "differs from another rule only in the case of letters: if the API distinguishes the two, set path_case to sensitive",
            );
        }
        Ok(())
    }
}

impl Rules {
    pub fn new(list: Vec<Rule>, case: PathCase) -> Self {
        let has_upper = |rule: &Rule| rule.pattern.text().bytes().any(|b| b.is_ascii_uppercase());
        Self {
            is_lower: !list.iter().any(has_upper),
            list,
            case,
        }
    }

    /// The required values of all rules that these claims have.
    pub fn values_in(&self, claims: &Map<String, Value>) -> Vec<Arc<RequiredClaim>> {
        let mut met = Vec::new();
        for rule in &self.list {
            let Access::Token {
                claims: required,
                sign_in,
                ..
            } = &rule.access
            else {
                continue;
            };
            for required in required.iter().chain(&sign_in.claims) {
                if !met.contains(required) && required.is_in(claims) {
                    met.push(Arc::clone(required));
                }
            }
        }
        met
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.list.iter()
    }

    /// Returns what the rule for a request requires; `None` if no rule applies. Exact paths take precedence over
    /// prefixes, and longer paths over shorter ones. Among equal paths, a rule that names the method takes precedence.
    ///
    /// `target` is the `:path` of the request, with the query. Resource servers differ in how they read percent
    /// signs, path parameters (`;`), encoded question marks and number signs, and the case of letters, also of the method,
    /// and some decode twice. Therefore all these readings must require the same.
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
        let access = self.find_as(method, target)?;
        let has_lower = method.iter().any(u8::is_ascii_lowercase);
        if has_lower && access != self.find_as(&method.to_ascii_uppercase(), target)? {
            return Err(AmbiguousPath);
        }
        Ok(access)
    }

    /// [`Self::find`] for the method as it is.
    fn find_as(
        &self,
        method: &[u8],
        target: &[u8],
    ) -> Result<Option<Cow<'_, Access>>, AmbiguousPath> {
        if (self.is_lower || self.case == PathCase::Sensitive)
            && let Some(path) = plain_path(target, self.case)
        {
            return Ok(self.access(method, path, PathCase::Sensitive));
        }
        self.agreed(method, before(target, b'?'))
    }

    /// What all readings of a path require.
    #[inline(never)]
    fn agreed(&self, method: &[u8], path: &[u8]) -> Result<Option<Cow<'_, Access>>, AmbiguousPath> {
        // A fragment is no part of a request (RFC 9112 §3.2).
        if refuses(path) || path.contains(&b'#') {
            return Err(AmbiguousPath);
        }
        let access = self.access(method, path, PathCase::Sensitive);
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
            for cut in [&layer, before(&layer, b'?'), before(&layer, b'#')] {
                for reading in [Cow::Borrowed(cut), without_parameters(cut)] {
                    if refuses(&reading) || !agrees(&reading) {
                        return Err(AmbiguousPath);
                    }
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
        let (mut own, mut twin) = (None, None);
        for rule in self.list.iter().filter(|rule| rule.allows_method(method)) {
            if rule.pattern.matches(path, case) {
                own = rule.over(own);
            }
            if rule.pattern.is_twin_of(path, case) {
                twin = rule.over(twin);
            }
        }
        let own = own?;
        let is_named = own.pattern.text().len() == path.len();
        Some(match twin.filter(|_| !is_named) {
            Some(twin) => Cow::Owned(own.access.and(&twin.access)),
            None => Cow::Borrowed(&own.access),
        })
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

#[cfg(test)]
mod tests;
