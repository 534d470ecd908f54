//! The texts of the pages, each in every language.
//!
//! `{...}` is a placeholder for a value, which pages emphasise.

use std::time::Duration;

use domain::SessionPlace;
use domain::clock::Timestamp;
use protocol::oauth::authorize::UnsafeRequest;

/// Declares the texts: each in English and in German.
macro_rules! texts {
    ($($name:ident: $english:literal, $german:literal;)*) => {
        /// The texts of one language. `tag` is the language's tag (RFC 5646).
        #[derive(Debug, PartialEq, Eq)]
        pub(super) struct Texts {
            $(pub $name: &'static str,)*
        }

        pub(super) static ENGLISH: Texts = Texts { $($name: $english,)* };

        pub(super) static GERMAN: Texts = Texts { $($name: $german,)* };
    };
}

texts! {
    tag: "en", "de";
    sign_in: "Sign in", "Anmelden";
    sign_in_to: "Sign in to {client}", "Anmelden bei {client}";
    not_signed_in: "Not signed in", "Nicht angemeldet";
    continue_to:
        "to continue to {client}. Afterwards you are sent to {destination}.",
        "Melden Sie sich an, um mit {client} zu arbeiten. Danach geht es weiter zu: {destination}.";
    username: "Username", "Benutzername";
    password: "Password", "Passwort";
    cancel: "Cancel and return to {client}", "Abbrechen und zurück zu {client}";
    other_user: "Sign in as somebody else", "Als andere Person anmelden";
    enter_code: "Enter your code", "Code eingeben";
    open_authenticator:
        "Open your authenticator app to continue to {client}.",
        "Öffnen Sie Ihre Authenticator-App, um mit {client} fortzufahren.";
    code: "Six-digit code", "Sechsstelliger Code";
    go_on: "Continue", "Weiter";
    choose_account: "Choose an account", "Konto auswählen";
    choose_account_for: "Choose an account for {client}", "Konto für {client} auswählen";
    choose_account_why:
        "You are signed in as {username}. {client} will work with the account that you choose, and you are sent to {destination}.",
        "Sie sind als {username} angemeldet. {client} arbeitet mit dem Konto, das Sie auswählen. Danach geht es weiter zu: {destination}.";
    linked_accounts: "Linked accounts", "Verknüpfte Konten";
    find_account: "Find an account", "Konto suchen";
    filter: "Show matching accounts", "Passende Konten anzeigen";
    accounts_shown: "{shown} of {linked} accounts match.", "{shown} von {linked} Konten gefunden.";
    signed_in: "You are signed in", "Sie sind angemeldet";
    signed_in_as: "as {username} with this browser.", "als {username} in diesem Browser.";
    sign_out: "Sign out", "Abmelden";
    applications: "Applications with access", "Anwendungen mit Zugriff";
    no_applications: "No application has access to your accounts.", "Keine Anwendung hat Zugriff auf Ihre Konten.";
    more_applications: "More applications", "Weitere Anwendungen";
    applications_end:
        "Ending an application's access takes effect at once. It does not sign you out here.",
        "Der Zugriff einer Anwendung endet sofort, wenn Sie ihn beenden. Hier bleiben Sie angemeldet.";
    bound_applications:
        "Your organization has set up these applications to act for you. Only the people who manage your account can end them:",
        "Diese Anwendungen hat Ihre Organisation eingerichtet, damit sie für Sie arbeiten. Beenden können sie nur die Personen, die Ihr Konto verwalten:";
    may: "It may", "Darf";
    accounts: "Accounts", "Konten";
    since: "Since", "Seit";
    last_used: "Last used", "Zuletzt benutzt";
    sends_to: "Sends you to", "Leitet weiter zu";
    sessions: "Where you are signed in", "Wo Sie angemeldet sind";
    this_browser: "This browser", "Dieser Browser";
    session_network: "Network", "Netz";
    not_known: "not known", "nicht bekannt";
    signed_in_with: "Signed in with", "Angemeldet mit";
    with_second_factor: "Password and second factor", "Passwort und zweitem Faktor";
    with_password: "Password only", "nur dem Passwort";
    browser_on: "{browser} on {system}", "{browser} unter {system}";
    unknown_browser: "Unknown browser", "Unbekannter Browser";
    end_access: "End access", "Zugriff beenden";
    end_access_why:
        "{what} loses access to all your accounts now. What it has already read or changed stays as it is. If you open it again while you are signed in here, it gets access again.",
        "{what} verliert jetzt den Zugriff auf alle Ihre Konten. Was die Anwendung schon gelesen oder geändert hat, bleibt, wie es ist. Wenn Sie die Anwendung wieder öffnen und hier angemeldet sind, erhält sie wieder Zugriff.";
    access_ended: "{what} no longer has access.", "{what} hat keinen Zugriff mehr.";
    end_session: "Sign out there", "Dort abmelden";
    end_session_why:
        "{what} is signed out. Applications keep their access: end it separately. If you do not know this browser, change your password too.",
        "{what} wird abgemeldet. Anwendungen behalten ihren Zugriff: Beenden Sie ihn gesondert. Wenn Sie diesen Browser nicht kennen, ändern Sie auch Ihr Passwort.";
    session_ended: "{what} is signed out.", "{what} ist abgemeldet.";
    end_other_sessions: "Sign out all other browsers", "Alle anderen Browser abmelden";
    end_other_sessions_why:
        "All browsers but this one are signed out. Applications keep their access: end it separately. If somebody else knows your password, change it too.",
        "Alle Browser außer diesem werden abgemeldet. Anwendungen behalten ihren Zugriff: Beenden Sie ihn gesondert. Wenn jemand anderes Ihr Passwort kennt, ändern Sie auch das Passwort.";
    other_sessions_ended: "All other browsers are signed out.", "Alle anderen Browser sind abgemeldet.";
    done: "Done", "Erledigt";
    back_to_own_page: "Back to your page", "Zurück zu Ihrer Seite";
    prove_again: "Confirm that it is you", "Bestätigen Sie, dass Sie es sind";
    prove_again_why:
        "Sign in again before this change: your last sign-in was some time ago.",
        "Melden Sie sich vor dieser Änderung noch einmal an: Ihre letzte Anmeldung liegt einige Zeit zurück.";
    may_do: "It may:", "Sie darf:";
    nobody_signed_in: "You are not signed in", "Sie sind nicht angemeldet";
    sign_in_here:
        "Sign in here to see which applications have access, to change your password or to set up an authenticator app. To use an application, start from the application.",
        "Melden Sie sich hier an, um zu sehen, welche Anwendungen Zugriff haben, Ihr Passwort zu ändern oder eine Authenticator-App einzurichten. Wenn Sie eine Anwendung benutzen möchten, beginnen Sie in der Anwendung.";
    manage_sign_in: "Your sign-in and authenticator app", "Anmeldung und Authenticator-App verwalten";
    second_factor: "Authenticator app", "Authenticator-App";
    second_factor_absent:
        "Not set up. You sign in with your password only.",
        "Nicht eingerichtet. Sie melden sich nur mit Ihrem Passwort an.";
    second_factor_present:
        "Set up. You sign in with your password and a code from your app.",
        "Eingerichtet. Sie melden sich mit Ihrem Passwort und einem Code aus Ihrer App an.";
    recovery_codes_left: "Recovery codes left: {count}.", "Verbleibende Wiederherstellungscodes: {count}.";
    set_up_app: "Set up an authenticator app", "Authenticator-App einrichten";
    set_up_another_app: "Set up another app", "Andere App einrichten";
    set_up_app_first:
        "To continue to {client}, you need a code from an authenticator app in addition to your password. If you have no such app, install one first.",
        "Um mit {client} fortzufahren, brauchen Sie zusätzlich zu Ihrem Passwort einen Code aus einer Authenticator-App. Wenn Sie noch keine solche App haben, installieren Sie zuerst eine.";
    scan_picture:
        "Scan this picture with the app. Applications have to ask for access again, and other browsers are signed out.",
        "Scannen Sie diesen QR-Code mit der App. Sobald die App eingerichtet ist, müssen Anwendungen neu um Zugriff bitten, und in anderen Browsern werden Sie abgemeldet.";
    picture: "QR code with the secret for the app", "QR-Code mit dem Schlüssel für die App";
    or_type_secret: "Or enter this secret into the app:", "Oder geben Sie diesen Schlüssel in die App ein:";
    open_app: "Open an app on this device", "App auf diesem Gerät öffnen";
    first_code: "Code that the app shows", "Code aus der App";
    your_password: "Your password", "Ihr Passwort";
    turn_on: "Turn on", "Aktivieren";
    go_back: "Cancel", "Abbrechen";
    help: "Help", "Hilfe";
    privacy: "Privacy", "Datenschutz";
    imprint: "Imprint", "Impressum";
    not_set_up: "Not set up", "Nicht eingerichtet";
    recovery_codes: "Your recovery codes", "Ihre Wiederherstellungscodes";
    keep_recovery_codes:
        "The app is set up. Each of these codes lets you in once without it. Keep them where only you find them: they are not shown again.",
        "Die App ist eingerichtet. Mit jedem dieser Codes können Sie sich einmal ohne die App anmelden. Bewahren Sie die Codes so auf, dass nur Sie sie finden: Sie werden nicht noch einmal angezeigt.";
    codes_are_kept: "I have kept them", "Ich habe die Codes aufbewahrt";
    password_refused:
        "Username or password is wrong. Check both and try again.",
        "Benutzername oder Passwort ist falsch. Prüfen Sie beides und versuchen Sie es noch einmal.";
    password_wrong: "The password is wrong.", "Das Passwort ist falsch.";
    password_missing: "Enter your password again.", "Geben Sie Ihr Passwort noch einmal ein.";
    code_wrong:
        "This code is not right. Enter the one that your app shows now.",
        "Dieser Code stimmt nicht. Geben Sie den Code ein, den Ihre App gerade anzeigt.";
    recovery_code_wrong:
        "This recovery code is not right, or has been used. Each works once: enter another one from your list.",
        "Dieser Wiederherstellungscode stimmt nicht oder wurde schon verwendet. Jeder Code gilt nur einmal: Geben Sie einen anderen von Ihrer Liste ein.";
    recovery_code_used: "You used a recovery code", "Sie haben einen Wiederherstellungscode verwendet";
    password_alone: "Somebody entered your password", "Jemand hat Ihr Passwort eingegeben";
    password_alone_why:
        "Since your last sign-in, somebody entered your right password, but not the code that has to follow it:",
        "Seit Ihrer letzten Anmeldung hat jemand Ihr richtiges Passwort eingegeben, aber nicht den Code, der darauf folgen muss:";
    password_alone_entry: "{time}, from {network}", "{time}, aus {network}";
    password_alone_earlier: "Earlier ones: {count}.", "Davor: {count}.";
    password_alone_advice:
        "If this was not you, somebody else knows your password. Change it on the start page of {service}, and wherever else you use it.",
        "Wenn Sie das nicht waren, kennt jemand anderes Ihr Passwort. Ändern Sie es auf der Startseite von {service} und überall, wo Sie es sonst verwenden.";
    choose_password: "Choose a password", "Passwort wählen";
    choose_password_why:
        "Several words that do not belong together are long enough and easy to remember. Applications have to ask for access again, and all browsers are signed out.",
        "Mehrere Wörter, die nichts miteinander zu tun haben, sind lang genug und leicht zu merken. Anwendungen müssen danach neu um Zugriff bitten, und in allen Browsern werden Sie abgemeldet.";
    change_password: "Change your password", "Passwort ändern";
    change_password_first:
        "Before you continue to {client}, choose another password. Several words that do not belong together are long enough and easy to remember. Applications have to ask for access again, and other browsers are signed out.",
        "Bevor Sie mit {client} fortfahren, wählen Sie ein anderes Passwort. Mehrere Wörter, die nichts miteinander zu tun haben, sind lang genug und leicht zu merken. Anwendungen müssen danach neu um Zugriff bitten, und in anderen Browsern werden Sie abgemeldet.";
    password_unchanged: "This is your present password. Choose another one.", "Das ist Ihr jetziges Passwort. Wählen Sie ein anderes.";
    new_password: "New password", "Neues Passwort";
    set_password: "Set the password", "Passwort festlegen";
    not_set: "Not set", "Nicht festgelegt";
    password_short: "This password is too short. It needs at least {least} characters.", "Dieses Passwort ist zu kurz. Es braucht mindestens {least} Zeichen.";
    password_long: "This password is too long.", "Dieses Passwort ist zu lang.";
    password_is_name: "Your username cannot be your password.", "Ihr Benutzername kann nicht Ihr Passwort sein.";
    password_common:
        "This password is one of the first that a stranger tries: many people choose it, or it follows a simple pattern.",
        "Dieses Passwort probieren Fremde als eines der ersten: Viele Menschen wählen es, oder es folgt einem einfachen Muster.";
    password_set: "Your password is set", "Ihr Passwort ist festgelegt";
    password_set_why: "Sign in with your new password from now on.", "Melden Sie sich ab jetzt mit dem neuen Passwort an.";
    show_password: "Show password", "Passwort anzeigen";
    forgot_password: "Forgot your password?", "Passwort vergessen?";
    ask_for_password:
        "Ask the people who manage your account.",
        "Wenden Sie sich an die Personen, die Ihr Konto verwalten.";
    forgot_password_why:
        "Enter your username. You get a message with a link with which you choose another password.",
        "Geben Sie Ihren Benutzernamen ein. Sie bekommen eine Nachricht mit einem Link, über den Sie ein neues Passwort wählen.";
    send_link: "Send the link", "Link senden";
    not_sent: "Not sent", "Nicht gesendet";
    back_to_sign_in: "Back to the sign-in", "Zurück zur Anmeldung";
    link_asked_for: "Check your mailbox", "Sehen Sie in Ihrem Postfach nach";
    link_asked_for_why:
        "If you have a password here, a message is on its way to your registered e-mail address. The link in it works once, for {time}.",
        "Wenn Sie hier ein Passwort haben, ist eine Nachricht an Ihre registrierte E-Mail-Adresse unterwegs. Der Link darin gilt einmal und für {time}.";
    link_does_not_arrive:
        "No message after some minutes? Look into the folder for spam and check your username. If that does not help, ask the people who manage your account.",
        "Nach einigen Minuten keine Nachricht? Sehen Sie im Spam-Ordner nach und prüfen Sie Ihren Benutzernamen. Wenn das nicht hilft, wenden Sie sich an die Personen, die Ihr Konto verwalten.";
    link_subject: "Your new password for {service}", "Ihr neues Passwort für {service}";
    link_message:
        "Hello,\n\nsomebody asked for a new password for {username} at {host}. If it was you, choose a password here:\n\n{url}\n\nThe link works once, for {time}.\n\nIf it was not you, do nothing: your password stays as it is.\n",
        "Guten Tag,\n\njemand hat ein neues Passwort für {username} bei {host} angefordert. Wenn Sie das waren, wählen Sie hier ein Passwort:\n\n{url}\n\nDer Link gilt einmal und für {time}.\n\nWenn Sie das nicht waren, müssen Sie nichts tun: Ihr Passwort bleibt, wie es ist.\n";
    changed_subject: "Your password for {service} was changed", "Ihr Passwort für {service} wurde geändert";
    changed_message:
        "Hello,\n\nthe password for {username} at {host} was changed.\n\nIf you did not do this, tell the people who manage your account at once.\n",
        "Guten Tag,\n\ndas Passwort für {username} bei {host} wurde geändert.\n\nWenn Sie das nicht waren, melden Sie es sofort den Personen, die Ihr Konto verwalten.\n";
    link_over:
        "This link no longer works. It works once, and for a limited time.",
        "Dieser Link gilt nicht mehr. Er gilt nur einmal und für begrenzte Zeit.";
    ask_for_link:
        "Ask the people who manage your account for another link.",
        "Bitten Sie die Personen, die Ihr Konto verwalten, um einen neuen Link.";
    unknown_network: "an unknown network", "einem unbekannten Netz";
    code_used:
        "This code has been used. Wait until your app shows the next one.",
        "Dieser Code wurde schon verwendet. Warten Sie, bis Ihre App den nächsten anzeigt.";
    wait:
        "There were too many attempts. Wait {time}, then try again.",
        "Es gab zu viele Versuche. Warten Sie {time} und versuchen Sie es dann noch einmal.";
    app_on_this_device: "an app on this device", "einer App auf diesem Gerät";
    app_that_opens:
        "the app on this device that opens {scheme}: links",
        "der App auf diesem Gerät, die {scheme}:-Links öffnet";
    confirm: "Continue as {username} to {client}?", "Als {username} mit {client} fortfahren?";
    confirm_why:
        "{client} will work with your account {account} at {site}. Afterwards you are sent to {destination}. Go on only if you started this yourself.",
        "{client} arbeitet dann mit Ihrem Konto {account} ({site}). Danach geht es weiter zu: {destination}. Fahren Sie nur fort, wenn Sie das selbst begonnen haben.";
    no_account: "No linked account", "Kein verknüpftes Konto";
    no_account_why:
        "You are signed in as {username}. No project account is linked to it, so {client} cannot work with it. Ask the people who manage your account, or sign in as somebody else.",
        "Sie sind als {username} angemeldet. Mit dieser Anmeldung ist kein Projektkonto verknüpft, deshalb kann {client} nicht damit arbeiten. Wenden Sie sich an die Personen, die Ihr Konto verwalten, oder melden Sie sich als andere Person an.";
    return_to: "Return to {client}", "Zurück zu {client}";
    recovery_code: "Recovery code", "Wiederherstellungscode";
    use_recovery_code: "Use a recovery code instead", "Stattdessen Wiederherstellungscode verwenden";
    recovery_codes_of:
        "Recovery codes of {username} for {service}. Each works once.",
        "Wiederherstellungscodes von {username} für {service}. Jeder Code gilt einmal.";
    save_codes: "Save as a text file", "Als Textdatei speichern";
    email: "E-mail address", "E-Mail-Adresse";
    second: "1 second", "1 Sekunde";
    seconds: "{count} seconds", "{count} Sekunden";
    minute: "1 minute", "1 Minute";
    minutes: "{count} minutes", "{count} Minuten";
    hour: "1 hour", "1 Stunde";
    hours: "{count} hours", "{count} Stunden";
    stopped: "Sign-in stopped", "Anmeldung abgebrochen";
    for_developers: "For the developers of the application", "Für die Entwickler der Anwendung";
    to_quote: "If you ask for help, quote this", "Wenn Sie um Hilfe bitten, geben Sie dies an";
    request: "Request", "Anfrage";
    time: "Time", "Zeitpunkt";
    application: "Application", "Anwendung";
    to_home: "To the start page of {service}", "Zur Startseite von {service}";
    sent_back: "You are sent back to the application.", "Sie werden zur Anwendung zurückgeleitet.";
    sign_in_ended: "Your sign-in has ended: sign in again.", "Ihre Anmeldung gilt nicht mehr: Melden Sie sich neu an.";
    request_wrong:
        "The application sent a wrong request to sign in.",
        "Die Anwendung hat eine fehlerhafte Anfrage zur Anmeldung geschickt.";
    nothing_here: "There is nothing at this address.", "Unter dieser Adresse gibt es nichts.";
    cookies_off:
        "Your browser accepts no cookies from this site, and you cannot sign in without them. Allow cookies for this site, then reload this page.",
        "Ihr Browser nimmt von dieser Website keine Cookies an. Ohne Cookies können Sie sich nicht anmelden. Erlauben Sie Cookies für diese Website und laden Sie die Seite neu.";
    no_cookies:
        "Your browser sent no cookies with the form.",
        "Ihr Browser hat mit dem Formular keine Cookies geschickt.";
    form_foreign:
        "This form does not come from your browser, or your browser has lost its cookies.",
        "Dieses Formular kommt nicht aus Ihrem Browser, oder Ihr Browser hat seine Cookies verloren.";
    form_unreadable: "The form cannot be read.", "Das Formular kann nicht gelesen werden.";
    form_too_large: "The form is too large.", "Das Formular ist zu groß.";
    form_too_slow: "The form did not arrive in time.", "Das Formular ist nicht rechtzeitig angekommen.";
    account_not_linked:
        "The chosen account is not linked to your sign-in.",
        "Das gewählte Konto ist nicht mit Ihrer Anmeldung verknüpft.";
    wrong_method: "This address cannot be opened in this way.", "Diese Adresse lässt sich so nicht öffnen.";
    unavailable: "Signing in is not possible at the moment.", "Die Anmeldung ist im Moment nicht möglich.";
    internal:
        "The service failed. This is not your fault.",
        "Im Dienst ist ein Fehler aufgetreten. Das liegt nicht an Ihnen.";
    allow_cookies:
        "Allow cookies for this site, then go back to the application and start again.",
        "Erlauben Sie Cookies für diese Website. Gehen Sie dann zurück zur Anwendung und beginnen Sie von vorn.";
    wait_and_retry: "Wait a few seconds and try again.", "Warten Sie einige Sekunden und versuchen Sie es noch einmal.";
    tell_the_developers:
        "Tell the people who run the application, and show them this page.",
        "Wenden Sie sich an die Betreiber der Anwendung und zeigen Sie ihnen diese Seite.";
    start_again:
        "Go back to the application and start again.",
        "Gehen Sie zurück zur Anwendung und beginnen Sie von vorn.";
    request_unreadable:
        "The address of this request cannot be read.",
        "Die Adresse dieser Anfrage kann nicht gelesen werden.";
    request_too_large:
        "The application sent a request that is too large.",
        "Die Anwendung hat eine zu große Anfrage geschickt.";
    application_missing:
        "The request does not say which application it comes from.",
        "Die Anfrage gibt nicht an, von welcher Anwendung sie kommt.";
    application_repeated:
        "The request names more than one application.",
        "Die Anfrage gibt mehr als eine Anwendung an.";
    application_unknown:
        "The application that sent you here is not known.",
        "Die Anwendung, die Sie hierher geschickt hat, ist nicht bekannt.";
    application_without_people:
        "People do not sign in to the application that sent you here.",
        "Bei der Anwendung, die Sie hierher geschickt hat, melden sich keine Personen an.";
    destination_missing:
        "The request does not say where to send you afterwards.",
        "Die Anfrage gibt nicht an, wohin es danach weitergeht.";
    destination_repeated:
        "The request names more than one place to send you to.",
        "Die Anfrage gibt mehr als ein Ziel an, zu dem es danach weitergeht.";
    destination_unknown:
        "The application has not registered the address to which the request would send you.",
        "Die Anwendung hat die Adresse, zu der es danach weitergehen soll, nicht registriert.";
}

impl Texts {
    pub(super) const fn english() -> &'static Self {
        &ENGLISH
    }

    pub(super) fn codes_left(&self, left: usize) -> String {
        plain(self.recovery_codes_left, &[("count", &left.to_string())])
    }

    pub(super) fn browser_in_words(&self, place: &SessionPlace) -> String {
        let values = [
            ("browser", place.browser.as_str()),
            ("system", &place.system),
        ];
        match values {
            [(_, ""), (_, "")] => self.unknown_browser.to_owned(),
            [(_, name), (_, "")] | [(_, ""), (_, name)] => name.to_owned(),
            _ => plain(self.browser_on, &values),
        }
    }

    /// A time in words: seconds up to one minute, then whole minutes, rounded up so that a wait is over by then; whole hours as such.
    pub(super) fn duration(&self, wait: Duration) -> String {
        let seconds = wait.as_secs().max(1);
        let (count, one, several) = if seconds.is_multiple_of(3600) {
            (seconds / 3600, self.hour, self.hours)
        } else if seconds <= 60 {
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
            UnsafeRequest::RequestUriUnknown | UnsafeRequest::OfAnotherFlow(_) => {
                self.request_wrong
            }
        }
    }
}

/// A time in words, such as 2026-01-31 12:00 UTC.
pub(super) fn moment(at: Timestamp) -> String {
    let at = at.rfc3339().replace('T', " ");
    let minutes = at
        .rsplit_once(':')
        .map_or(at.as_str(), |(minutes, _)| minutes);
    format!("{minutes} UTC")
}

/// `text` with `values` inserted at their placeholders, unescaped.
pub(super) fn plain(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| filled.push_str(value))
}

/// `text` as HTML, with `values` inserted, emphasised and escaped. The direction of a value does not affect the text around it.
pub(super) fn html(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| {
        filled.push_str("<bdi><strong>");
        escape(value, filled);
        filled.push_str("</strong></bdi>");
    })
}

/// Like [`html`], without emphasis.
pub(super) fn isolated(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| {
        filled.push_str("<bdi>");
        escape(value, filled);
        filled.push_str("</bdi>");
    })
}

fn escape(value: &str, filled: &mut String) {
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
            (3600, "1 hour", "1 Stunde"),
            (5400, "90 minutes", "90 Minuten"),
            (86_400, "24 hours", "24 Stunden"),
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
            "<bdi><strong>&lt;b&gt;{username}&lt;/b&gt;</strong></bdi>: <bdi><strong>&#39;ada&#39;&amp;&quot;</strong></bdi>!"
        );
        assert_eq!(plain("{client} {nobody}.", &values), "<b>{username}</b> .");
    }
}
