//! What the pages say, in one place for each language. A language without one of the texts does not compile.
//!
//! `{...}` stands for a value; pages show it emphasised.

use actix_web::HttpRequest;
use actix_web::http::header;

/// The texts of one language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Texts {
    /// The language's tag (RFC 5646).
    pub tag: &'static str,
    pub sign_in: &'static str,
    pub sign_in_to: &'static str,
    pub not_signed_in: &'static str,
    pub continue_to: &'static str,
    pub username: &'static str,
    pub password: &'static str,
    pub cancel: &'static str,
    pub other_user: &'static str,
    pub enter_code: &'static str,
    pub open_authenticator: &'static str,
    pub code: &'static str,
    pub go_on: &'static str,
    pub choose_account: &'static str,
    pub choose_account_for: &'static str,
    pub choose_account_why: &'static str,
    pub linked_accounts: &'static str,
    pub signed_in: &'static str,
    pub signed_in_as: &'static str,
    pub sign_out: &'static str,
    pub nobody_signed_in: &'static str,
    pub start_from_application: &'static str,
    pub second_factor: &'static str,
    pub second_factor_absent: &'static str,
    pub second_factor_present: &'static str,
    pub recovery_codes_left: &'static str,
    pub set_up_app: &'static str,
    pub set_up_another_app: &'static str,
    pub scan_picture: &'static str,
    pub picture: &'static str,
    pub or_type_secret: &'static str,
    pub open_app: &'static str,
    pub first_code: &'static str,
    pub your_password: &'static str,
    pub turn_on: &'static str,
    pub go_back: &'static str,
    pub not_set_up: &'static str,
    pub recovery_codes: &'static str,
    pub keep_recovery_codes: &'static str,
    pub codes_are_kept: &'static str,
    pub password_refused: &'static str,
    pub password_wrong: &'static str,
    pub code_wrong: &'static str,
    pub code_used: &'static str,
    pub wait: &'static str,
    pub app_on_this_device: &'static str,
    pub app_that_opens: &'static str,
}

static ENGLISH: Texts = Texts {
    tag: "en",
    sign_in: "Sign in",
    sign_in_to: "Sign in to {client}",
    not_signed_in: "Not signed in",
    continue_to: "to continue to {client}. Afterwards you are sent to {destination}.",
    username: "Username",
    password: "Password",
    cancel: "Cancel and return to {client}",
    other_user: "Sign in as somebody else",
    enter_code: "Enter your code",
    open_authenticator: "Open your authenticator app to continue to {client}. Without it, enter one of your recovery codes.",
    code: "Six-digit code, or a recovery code",
    go_on: "Continue",
    choose_account: "Choose an account",
    choose_account_for: "Choose an account for {client}",
    choose_account_why: "You are signed in as {username}. {client} will work with the account that you choose, and you are sent to {destination}.",
    linked_accounts: "Linked accounts",
    signed_in: "You are signed in",
    signed_in_as: "as {username} with this browser.",
    sign_out: "Sign out",
    nobody_signed_in: "You are not signed in",
    start_from_application: "To sign in, start from the application that you want to use.",
    second_factor: "Authenticator app",
    second_factor_absent: "Your password alone opens your account.",
    second_factor_present: "Signing in takes your password and a code of your app.",
    recovery_codes_left: "Recovery codes left: {count}.",
    set_up_app: "Set up an authenticator app",
    set_up_another_app: "Set up another app",
    scan_picture: "Scan this picture with the app. Clients keep the access that they have; other browsers are signed out.",
    picture: "QR code with the secret for the app",
    or_type_secret: "Or enter this secret into the app:",
    open_app: "Open an app on this device",
    first_code: "Code that the app shows",
    your_password: "Your password",
    turn_on: "Turn on",
    go_back: "Leave everything as it is",
    not_set_up: "Not set up",
    recovery_codes: "Your recovery codes",
    keep_recovery_codes: "The app is set up. Each of these codes lets you in once without it. Keep them where only you find them: they are not shown again.",
    codes_are_kept: "I have kept them",
    password_refused: "Username or password is wrong. Check both and try again.",
    password_wrong: "The password is wrong.",
    code_wrong: "This code is not right. Enter the one that your app shows now.",
    code_used: "This code has been used. Wait until your app shows the next one.",
    wait: "There were too many wrong attempts. Wait {seconds} seconds, then try again.",
    app_on_this_device: "an app on this device",
    app_that_opens: "the app on this device that opens {scheme}: links",
};

static GERMAN: Texts = Texts {
    tag: "de",
    sign_in: "Anmelden",
    sign_in_to: "Anmelden bei {client}",
    not_signed_in: "Nicht angemeldet",
    continue_to: "um mit {client} fortzufahren. Danach werden Sie weitergeleitet: {destination}.",
    username: "Benutzername",
    password: "Passwort",
    cancel: "Abbrechen und zurück zu {client}",
    other_user: "Als jemand anderes anmelden",
    enter_code: "Code eingeben",
    open_authenticator: "Öffnen Sie Ihre Authenticator-App, um mit {client} fortzufahren. Ohne die App geben Sie einen Ihrer Wiederherstellungscodes ein.",
    code: "Sechsstelliger Code oder Wiederherstellungscode",
    go_on: "Weiter",
    choose_account: "Konto auswählen",
    choose_account_for: "Konto für {client} auswählen",
    choose_account_why: "Sie sind als {username} angemeldet. {client} arbeitet mit dem Konto, das Sie auswählen. Danach werden Sie weitergeleitet: {destination}.",
    linked_accounts: "Verknüpfte Konten",
    signed_in: "Sie sind angemeldet",
    signed_in_as: "als {username} in diesem Browser.",
    sign_out: "Abmelden",
    nobody_signed_in: "Sie sind nicht angemeldet",
    start_from_application: "Starten Sie die Anmeldung in der Anwendung, die Sie benutzen möchten.",
    second_factor: "Authenticator-App",
    second_factor_absent: "Ihr Passwort allein öffnet Ihr Konto.",
    second_factor_present: "Zum Anmelden braucht es Ihr Passwort und einen Code Ihrer App.",
    recovery_codes_left: "Übrige Wiederherstellungscodes: {count}.",
    set_up_app: "Authenticator-App einrichten",
    set_up_another_app: "Eine andere App einrichten",
    scan_picture: "Scannen Sie dieses Bild mit der App. Anwendungen behalten ihren Zugriff, andere Browser werden abgemeldet.",
    picture: "QR-Code mit dem Geheimnis für die App",
    or_type_secret: "Oder geben Sie dieses Geheimnis in die App ein:",
    open_app: "App auf diesem Gerät öffnen",
    first_code: "Code, den die App zeigt",
    your_password: "Ihr Passwort",
    turn_on: "Einschalten",
    go_back: "Alles lassen, wie es ist",
    not_set_up: "Nicht eingerichtet",
    recovery_codes: "Ihre Wiederherstellungscodes",
    keep_recovery_codes: "Die App ist eingerichtet. Jeder dieser Codes meldet Sie einmal ohne sie an. Bewahren Sie sie so auf, dass nur Sie sie finden: Sie werden nicht noch einmal gezeigt.",
    codes_are_kept: "Ich habe sie aufbewahrt",
    password_refused: "Benutzername oder Passwort ist falsch. Prüfen Sie beide und versuchen Sie es erneut.",
    password_wrong: "Das Passwort ist falsch.",
    code_wrong: "Dieser Code stimmt nicht. Geben Sie den ein, den Ihre App jetzt zeigt.",
    code_used: "Dieser Code wurde schon benutzt. Warten Sie, bis Ihre App den nächsten zeigt.",
    wait: "Es gab zu viele falsche Versuche. Warten Sie {seconds} Sekunden und versuchen Sie es dann erneut.",
    app_on_this_device: "eine App auf diesem Gerät",
    app_that_opens: "die App auf diesem Gerät, die {scheme}:-Links öffnet",
};

/// The tags of the languages.
pub(in crate::http) const LANGUAGES: [&str; 2] = ["en", "de"];

impl Texts {
    /// The language that the browser prefers among ours; English when it names none of them.
    pub(super) fn of(http: &HttpRequest) -> &'static Self {
        let accepted = http
            .headers()
            .get(header::ACCEPT_LANGUAGE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        preferred(accepted)
    }
}

/// RFC 9110 §12.5.4; of equal weights the first counts.
fn preferred(accepted: &str) -> &'static Texts {
    let mut best: (f32, &'static Texts) = (0.0, &ENGLISH);
    for range in accepted.split(',') {
        let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight = weight
            .trim()
            .strip_prefix("q=")
            .and_then(|weight| weight.parse::<f32>().ok())
            .unwrap_or(0.0);
        let language = tag.trim().split('-').next().unwrap_or_default();
        let texts = [&ENGLISH, &GERMAN]
            .into_iter()
            .find(|texts| language.eq_ignore_ascii_case(texts.tag));
        if let Some(texts) = texts
            && weight > best.0
        {
            best = (weight, texts);
        }
    }
    best.1
}

/// `text` with `values` in the places of their names, as they are.
pub(super) fn plain(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| filled.push_str(value))
}

/// `text` as HTML, with `values` emphasised and escaped.
pub(super) fn html(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| {
        filled.push_str("<strong>");
        for character in value.chars() {
            match character {
                '&' => filled.push_str("&amp;"),
                '<' => filled.push_str("&lt;"),
                '>' => filled.push_str("&gt;"),
                '"' => filled.push_str("&quot;"),
                '\'' => filled.push_str("&#39;"),
                other => filled.push(other),
            }
        }
        filled.push_str("</strong>");
    })
}

/// Reads the text once, so that a value that looks like a name stays a value.
fn fill(text: &str, values: &[(&str, &str)], put: impl Fn(&str, &mut String)) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, named)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, after) = named.split_once('}').unwrap_or((named, ""));
        if let Some((_, value)) = values.iter().find(|(candidate, _)| *candidate == name) {
            put(value, &mut filled);
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_chooses_the_language() {
        for (accepted, tag) in [
            ("", "en"),
            ("de", "de"),
            ("DE-at", "de"),
            ("fr, de;q=0.5, en;q=0.4", "de"),
            ("en, de", "en"),
            ("de;q=0, fr", "en"),
            ("den, *", "en"),
            ("de;q=nonsense", "en"),
            ("en;q=0.1, de;q=0.2", "de"),
        ] {
            assert_eq!(preferred(accepted).tag, tag, "{accepted}");
        }
    }

    #[test]
    fn values_are_escaped_and_never_read_as_names() {
        let values = [("client", "<b>{username}</b>"), ("username", "'ada'&\"")];
        assert_eq!(
            html("{client}: {username}!", &values),
            "<strong>&lt;b&gt;{username}&lt;/b&gt;</strong>: <strong>&#39;ada&#39;&amp;&quot;</strong>!"
        );
        assert_eq!(plain("{client} {nobody}.", &values), "<b>{username}</b> .");
    }
}
