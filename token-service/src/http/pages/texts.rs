//! The texts of the pages, one constant per language. A language with a missing text does not compile.
//!
//! `{...}` is a placeholder for a value, which pages emphasise.

use std::time::Duration;

use protocol::oauth::authorize::UnsafeRequest;

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
    pub find_account: &'static str,
    pub filter: &'static str,
    pub accounts_shown: &'static str,
    pub signed_in: &'static str,
    pub signed_in_as: &'static str,
    pub sign_out: &'static str,
    pub nobody_signed_in: &'static str,
    pub sign_in_here: &'static str,
    pub manage_sign_in: &'static str,
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
    pub password_missing: &'static str,
    pub code_wrong: &'static str,
    pub recovery_code_wrong: &'static str,
    pub recovery_code_used: &'static str,
    pub password_alone: &'static str,
    pub password_alone_why: &'static str,
    pub password_alone_entry: &'static str,
    pub password_alone_earlier: &'static str,
    pub password_alone_advice: &'static str,
    pub unknown_network: &'static str,
    pub code_used: &'static str,
    pub wait: &'static str,
    pub app_on_this_device: &'static str,
    pub app_that_opens: &'static str,
    pub confirm: &'static str,
    pub confirm_why: &'static str,
    pub no_account: &'static str,
    pub no_account_why: &'static str,
    pub return_to: &'static str,
    pub recovery_code: &'static str,
    pub use_recovery_code: &'static str,
    pub recovery_codes_of: &'static str,
    pub save_codes: &'static str,
    pub email: &'static str,
    pub second: &'static str,
    pub seconds: &'static str,
    pub minute: &'static str,
    pub minutes: &'static str,
    pub stopped: &'static str,
    pub for_developers: &'static str,
    pub to_quote: &'static str,
    pub request: &'static str,
    pub time: &'static str,
    pub application: &'static str,
    pub to_home: &'static str,
    pub sent_back: &'static str,
    pub sign_in_ended: &'static str,
    pub request_wrong: &'static str,
    pub nothing_here: &'static str,
    pub cookies_off: &'static str,
    pub no_cookies: &'static str,
    pub form_foreign: &'static str,
    pub form_unreadable: &'static str,
    pub form_too_large: &'static str,
    pub form_too_slow: &'static str,
    pub account_not_linked: &'static str,
    pub wrong_method: &'static str,
    pub unavailable: &'static str,
    pub internal: &'static str,
    pub allow_cookies: &'static str,
    pub wait_and_retry: &'static str,
    pub tell_the_developers: &'static str,
    pub start_again: &'static str,
    pub request_unreadable: &'static str,
    pub request_too_large: &'static str,
    pub application_missing: &'static str,
    pub application_repeated: &'static str,
    pub application_unknown: &'static str,
    pub application_without_people: &'static str,
    pub destination_missing: &'static str,
    pub destination_repeated: &'static str,
    pub destination_unknown: &'static str,
}

pub(super) static ENGLISH: Texts = Texts {
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
    open_authenticator: "Open your authenticator app to continue to {client}.",
    code: "Six-digit code",
    go_on: "Continue",
    choose_account: "Choose an account",
    choose_account_for: "Choose an account for {client}",
    choose_account_why: "You are signed in as {username}. {client} will work with the account that you choose, and you are sent to {destination}.",
    linked_accounts: "Linked accounts",
    find_account: "Find an account",
    filter: "Show matching accounts",
    accounts_shown: "{shown} of {linked} accounts match.",
    signed_in: "You are signed in",
    signed_in_as: "as {username} with this browser.",
    sign_out: "Sign out",
    nobody_signed_in: "You are not signed in",
    sign_in_here: "Sign in here to set up an authenticator app. To use an application, start from the application.",
    manage_sign_in: "Your sign-in and authenticator app",
    second_factor: "Authenticator app",
    second_factor_absent: "Not set up. You sign in with your password only.",
    second_factor_present: "Set up. You sign in with your password and a code from your app.",
    recovery_codes_left: "Recovery codes left: {count}.",
    set_up_app: "Set up an authenticator app",
    set_up_another_app: "Set up another app",
    scan_picture: "Scan this picture with the app. Applications have to ask for access again, and other browsers are signed out.",
    picture: "QR code with the secret for the app",
    or_type_secret: "Or enter this secret into the app:",
    open_app: "Open an app on this device",
    first_code: "Code that the app shows",
    your_password: "Your password",
    turn_on: "Turn on",
    go_back: "Cancel",
    not_set_up: "Not set up",
    recovery_codes: "Your recovery codes",
    keep_recovery_codes: "The app is set up. Each of these codes lets you in once without it. Keep them where only you find them: they are not shown again.",
    codes_are_kept: "I have kept them",
    password_refused: "Username or password is wrong. Check both and try again.",
    password_wrong: "The password is wrong.",
    password_missing: "Enter your password again.",
    code_wrong: "This code is not right. Enter the one that your app shows now.",
    recovery_code_wrong: "This recovery code is not right, or has been used. Each works once: enter another one from your list.",
    recovery_code_used: "You used a recovery code",
    password_alone: "Somebody entered your password",
    password_alone_why: "Since your last sign-in, somebody entered your right password, but not the code that has to follow it:",
    password_alone_entry: "{time}, from {network}",
    password_alone_earlier: "Earlier ones: {count}.",
    password_alone_advice: "If this was not you, somebody else knows your password. Change it: ask those who run {service} for a new one, and change it wherever else you use it.",
    unknown_network: "an unknown network",
    code_used: "This code has been used. Wait until your app shows the next one.",
    wait: "There were too many wrong attempts. Wait {time}, then try again.",
    app_on_this_device: "an app on this device",
    app_that_opens: "the app on this device that opens {scheme}: links",
    confirm: "Continue as {username} to {client}?",
    confirm_why: "{client} will work with your account {account} at {site}. Afterwards you are sent to {destination}. Go on only if you started this yourself.",
    no_account: "No linked account",
    no_account_why: "You are signed in as {username}. No project account is linked to it, so {client} cannot work with it. Ask the people who manage your account, or sign in as somebody else.",
    return_to: "Return to {client}",
    recovery_code: "Recovery code",
    use_recovery_code: "Use a recovery code instead",
    recovery_codes_of: "Recovery codes of {username} for {service}. Each works once.",
    save_codes: "Save as a text file",
    email: "E-mail address",
    second: "1 second",
    seconds: "{count} seconds",
    minute: "1 minute",
    minutes: "{count} minutes",
    stopped: "Sign-in stopped",
    for_developers: "For the developers of the application",
    to_quote: "If you ask for help, quote this",
    request: "Request",
    time: "Time",
    application: "Application",
    to_home: "To the start page of {service}",
    sent_back: "You are sent back to the application.",
    sign_in_ended: "Your sign-in has ended: sign in again.",
    request_wrong: "The application sent a wrong request to sign in.",
    nothing_here: "There is nothing at this address.",
    cookies_off: "Your browser accepts no cookies from this site, and you cannot sign in without them. Allow cookies for this site, then reload this page.",
    no_cookies: "Your browser sent no cookies with the form.",
    form_foreign: "This form does not come from your browser, or your browser has lost its cookies.",
    form_unreadable: "The form cannot be read.",
    form_too_large: "The form is too large.",
    form_too_slow: "The form did not arrive in time.",
    account_not_linked: "The chosen account is not linked to your sign-in.",
    wrong_method: "This address cannot be opened in this way.",
    unavailable: "Signing in is not possible at the moment.",
    internal: "The service failed. This is not your fault.",
    allow_cookies: "Allow cookies for this site, then go back to the application and start again.",
    wait_and_retry: "Wait a few seconds and try again.",
    tell_the_developers: "Tell the people who run the application, and show them this page.",
    start_again: "Go back to the application and start again.",
    request_unreadable: "The address of this request cannot be read.",
    request_too_large: "The application sent a request that is too large.",
    application_missing: "The request does not say which application it comes from.",
    application_repeated: "The request names more than one application.",
    application_unknown: "The application that sent you here is not known.",
    application_without_people: "People do not sign in to the application that sent you here.",
    destination_missing: "The request does not say where to send you afterwards.",
    destination_repeated: "The request names more than one place to send you to.",
    destination_unknown: "The application has not registered the address to which the request would send you.",
};

pub(super) static GERMAN: Texts = Texts {
    tag: "de",
    sign_in: "Anmelden",
    sign_in_to: "Anmelden bei {client}",
    not_signed_in: "Nicht angemeldet",
    continue_to: "Melden Sie sich an, um mit {client} zu arbeiten. Danach geht es weiter zu: {destination}.",
    username: "Benutzername",
    password: "Passwort",
    cancel: "Abbrechen und zurück zu {client}",
    other_user: "Als andere Person anmelden",
    enter_code: "Code eingeben",
    open_authenticator: "Öffnen Sie Ihre Authenticator-App, um mit {client} fortzufahren.",
    code: "Sechsstelliger Code",
    go_on: "Weiter",
    choose_account: "Konto auswählen",
    choose_account_for: "Konto für {client} auswählen",
    choose_account_why: "Sie sind als {username} angemeldet. {client} arbeitet mit dem Konto, das Sie auswählen. Danach geht es weiter zu: {destination}.",
    linked_accounts: "Verknüpfte Konten",
    find_account: "Konto suchen",
    filter: "Passende Konten anzeigen",
    accounts_shown: "{shown} von {linked} Konten gefunden.",
    signed_in: "Sie sind angemeldet",
    signed_in_as: "als {username} in diesem Browser.",
    sign_out: "Abmelden",
    nobody_signed_in: "Sie sind nicht angemeldet",
    sign_in_here: "Melden Sie sich hier an, um eine Authenticator-App einzurichten. Wenn Sie eine Anwendung benutzen möchten, beginnen Sie in der Anwendung.",
    manage_sign_in: "Anmeldung und Authenticator-App verwalten",
    second_factor: "Authenticator-App",
    second_factor_absent: "Nicht eingerichtet. Sie melden sich nur mit Ihrem Passwort an.",
    second_factor_present: "Eingerichtet. Sie melden sich mit Ihrem Passwort und einem Code aus Ihrer App an.",
    recovery_codes_left: "Verbleibende Wiederherstellungscodes: {count}.",
    set_up_app: "Authenticator-App einrichten",
    set_up_another_app: "Andere App einrichten",
    scan_picture: "Scannen Sie diesen QR-Code mit der App. Sobald die App eingerichtet ist, müssen Anwendungen neu um Zugriff bitten, und in anderen Browsern werden Sie abgemeldet.",
    picture: "QR-Code mit dem Schlüssel für die App",
    or_type_secret: "Oder geben Sie diesen Schlüssel in die App ein:",
    open_app: "App auf diesem Gerät öffnen",
    first_code: "Code aus der App",
    your_password: "Ihr Passwort",
    turn_on: "Aktivieren",
    go_back: "Abbrechen",
    not_set_up: "Nicht eingerichtet",
    recovery_codes: "Ihre Wiederherstellungscodes",
    keep_recovery_codes: "Die App ist eingerichtet. Mit jedem dieser Codes können Sie sich einmal ohne die App anmelden. Bewahren Sie die Codes so auf, dass nur Sie sie finden: Sie werden nicht noch einmal angezeigt.",
    codes_are_kept: "Ich habe die Codes aufbewahrt",
    password_refused: "Benutzername oder Passwort ist falsch. Prüfen Sie beides und versuchen Sie es noch einmal.",
    password_wrong: "Das Passwort ist falsch.",
    password_missing: "Geben Sie Ihr Passwort noch einmal ein.",
    code_wrong: "Dieser Code stimmt nicht. Geben Sie den Code ein, den Ihre App gerade anzeigt.",
    recovery_code_wrong: "Dieser Wiederherstellungscode stimmt nicht oder wurde schon verwendet. Jeder Code gilt nur einmal: Geben Sie einen anderen von Ihrer Liste ein.",
    recovery_code_used: "Sie haben einen Wiederherstellungscode verwendet",
    password_alone: "Jemand hat Ihr Passwort eingegeben",
    password_alone_why: "Seit Ihrer letzten Anmeldung hat jemand Ihr richtiges Passwort eingegeben, aber nicht den Code, der darauf folgen muss:",
    password_alone_entry: "{time}, aus {network}",
    password_alone_earlier: "Davor: {count}.",
    password_alone_advice: "Wenn Sie das nicht waren, kennt jemand anderes Ihr Passwort. Ändern Sie es: Bitten Sie die Betreiber von {service} um ein neues, und ändern Sie es überall, wo Sie es sonst verwenden.",
    unknown_network: "einem unbekannten Netz",
    code_used: "Dieser Code wurde schon verwendet. Warten Sie, bis Ihre App den nächsten anzeigt.",
    wait: "Es gab zu viele falsche Versuche. Warten Sie {time} und versuchen Sie es dann noch einmal.",
    app_on_this_device: "einer App auf diesem Gerät",
    app_that_opens: "der App auf diesem Gerät, die {scheme}:-Links öffnet",
    confirm: "Als {username} mit {client} fortfahren?",
    confirm_why: "{client} arbeitet dann mit Ihrem Konto {account} ({site}). Danach geht es weiter zu: {destination}. Fahren Sie nur fort, wenn Sie das selbst begonnen haben.",
    no_account: "Kein verknüpftes Konto",
    no_account_why: "Sie sind als {username} angemeldet. Mit dieser Anmeldung ist kein Projektkonto verknüpft, deshalb kann {client} nicht damit arbeiten. Wenden Sie sich an die Personen, die Ihr Konto verwalten, oder melden Sie sich als andere Person an.",
    return_to: "Zurück zu {client}",
    recovery_code: "Wiederherstellungscode",
    use_recovery_code: "Stattdessen Wiederherstellungscode verwenden",
    recovery_codes_of: "Wiederherstellungscodes von {username} für {service}. Jeder Code gilt einmal.",
    save_codes: "Als Textdatei speichern",
    email: "E-Mail-Adresse",
    second: "1 Sekunde",
    seconds: "{count} Sekunden",
    minute: "1 Minute",
    minutes: "{count} Minuten",
    stopped: "Anmeldung abgebrochen",
    for_developers: "Für die Entwickler der Anwendung",
    to_quote: "Wenn Sie um Hilfe bitten, geben Sie dies an",
    request: "Anfrage",
    time: "Zeitpunkt",
    application: "Anwendung",
    to_home: "Zur Startseite von {service}",
    sent_back: "Sie werden zur Anwendung zurückgeleitet.",
    sign_in_ended: "Ihre Anmeldung gilt nicht mehr: Melden Sie sich neu an.",
    request_wrong: "Die Anwendung hat eine fehlerhafte Anfrage zur Anmeldung geschickt.",
    nothing_here: "Unter dieser Adresse gibt es nichts.",
    cookies_off: "Ihr Browser nimmt von dieser Website keine Cookies an. Ohne Cookies können Sie sich nicht anmelden. Erlauben Sie Cookies für diese Website und laden Sie die Seite neu.",
    no_cookies: "Ihr Browser hat mit dem Formular keine Cookies geschickt.",
    form_foreign: "Dieses Formular kommt nicht aus Ihrem Browser, oder Ihr Browser hat seine Cookies verloren.",
    form_unreadable: "Das Formular kann nicht gelesen werden.",
    form_too_large: "Das Formular ist zu groß.",
    form_too_slow: "Das Formular ist nicht rechtzeitig angekommen.",
    account_not_linked: "Das gewählte Konto ist nicht mit Ihrer Anmeldung verknüpft.",
    wrong_method: "Diese Adresse lässt sich so nicht öffnen.",
    unavailable: "Die Anmeldung ist im Moment nicht möglich.",
    internal: "Im Dienst ist ein Fehler aufgetreten. Das liegt nicht an Ihnen.",
    allow_cookies: "Erlauben Sie Cookies für diese Website. Gehen Sie dann zurück zur Anwendung und beginnen Sie von vorn.",
    wait_and_retry: "Warten Sie einige Sekunden und versuchen Sie es noch einmal.",
    tell_the_developers: "Wenden Sie sich an die Betreiber der Anwendung und zeigen Sie ihnen diese Seite.",
    start_again: "Gehen Sie zurück zur Anwendung und beginnen Sie von vorn.",
    request_unreadable: "Die Adresse dieser Anfrage kann nicht gelesen werden.",
    request_too_large: "Die Anwendung hat eine zu große Anfrage geschickt.",
    application_missing: "Die Anfrage gibt nicht an, von welcher Anwendung sie kommt.",
    application_repeated: "Die Anfrage gibt mehr als eine Anwendung an.",
    application_unknown: "Die Anwendung, die Sie hierher geschickt hat, ist nicht bekannt.",
    application_without_people: "Bei der Anwendung, die Sie hierher geschickt hat, melden sich keine Personen an.",
    destination_missing: "Die Anfrage gibt nicht an, wohin es danach weitergeht.",
    destination_repeated: "Die Anfrage gibt mehr als ein Ziel an, zu dem es danach weitergeht.",
    destination_unknown: "Die Anwendung hat die Adresse, zu der es danach weitergehen soll, nicht registriert.",
};

impl Texts {
    pub(super) const fn english() -> &'static Self {
        &ENGLISH
    }

    pub(super) fn codes_left(&self, left: usize) -> String {
        plain(self.recovery_codes_left, &[("count", &left.to_string())])
    }

    /// A waiting time in words: seconds up to one minute, then whole minutes, rounded up so that the wait is over by
    /// then.
    pub(super) fn duration(&self, wait: Duration) -> String {
        let seconds = wait.as_secs().max(1);
        let (count, one, several) = if seconds <= 60 {
            (seconds, self.second, self.seconds)
        } else {
            (seconds.div_ceil(60), self.minute, self.minutes)
        };
        if count == 1 {
            one.to_owned()
        } else {
            plain(several, &[("count", &count.to_string())])
        }
    }

    /// The problem of a request without a safe redirect URI (D-5).
    pub(super) const fn unsafe_request(&'static self, reason: &UnsafeRequest) -> &'static str {
        match reason {
            UnsafeRequest::Unreadable(_) => self.request_unreadable,
            UnsafeRequest::TooLarge => self.request_too_large,
            UnsafeRequest::ClientIdMissing => self.application_missing,
            UnsafeRequest::ClientIdRepeated => self.application_repeated,
            UnsafeRequest::ClientUnknown => self.application_unknown,
            UnsafeRequest::ClientUnauthorized => self.application_without_people,
            UnsafeRequest::RedirectUriMissing => self.destination_missing,
            UnsafeRequest::RedirectUriRepeated => self.destination_repeated,
            UnsafeRequest::RedirectUriUnregistered => self.destination_unknown,
            UnsafeRequest::OfAnotherFlow(_) => self.request_wrong,
        }
    }
}

/// `text` with `values` inserted at their placeholders, unescaped.
pub(super) fn plain(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| filled.push_str(value))
}

/// `text` as HTML, with `values` inserted, emphasised and escaped.
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

/// Replaces placeholders in one pass, so that a value that looks like a placeholder is not replaced.
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
    fn waits_are_said_in_whole_units() {
        for (seconds, english, german) in [
            (0, "1 second", "1 Sekunde"),
            (45, "45 seconds", "45 Sekunden"),
            (61, "2 minutes", "2 Minuten"),
            (300, "5 minutes", "5 Minuten"),
        ] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(ENGLISH.duration(wait), english);
            assert_eq!(GERMAN.duration(wait), german);
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
