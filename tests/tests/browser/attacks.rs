//! Attacks by pages of other sites.

use super::sign_in::sign_in_as;
use super::{App, Chromium, lobby};

/// Signs Ada in, in a window that then shows a page of `app`'s.
fn victim(app: &App, page: &str) -> Chromium {
    let window = Chromium::open();
    window.visit(&app.authorize());
    sign_in_as(&window, "ada");
    window.expect_heading("Back in the app");
    window.visit(page);
    window.expect_heading("Evil");
    window
}

/// Clickjacking: neither a page of the same host nor a page of another site can show the service's pages in a frame.
#[test]
fn no_page_is_shown_in_a_frame() {
    let own = App::start();
    let frames = format!(
        "<!doctype html><title>Evil</title><h1>Evil</h1>\
         <iframe id=own src='{}'></iframe>\
         <iframe id=sign-in src='{}'></iframe>\
         <iframe id=home src='{}/auth/'></iframe>",
        own.callback(),
        own.authorize().replace('&', "&amp;"),
        lobby(),
    );
    let evil = App::serving("127.0.0.1", vec![("/evil", "text/html", frames)]);
    for page in [
        format!("{}/evil", evil.origin),
        format!("{}/evil", evil.other_site()),
    ] {
        let window = Chromium::open();
        window.visit(&page);
        window.expect_heading("Evil");
        window.enter_frame("//iframe[@id='own']");
        window.expect_heading("Back in the app");
        window.leave_frame();
        for frame in ["sign-in", "home"] {
            window.enter_frame(&format!("//iframe[@id='{frame}']"));
            let address = window.inspect("return location.href");
            assert_eq!(
                address, "chrome-error://chromewebdata/",
                "{frame} in {page}"
            );
            assert!(!window.has("//form"), "{frame} in {page}");
            window.leave_frame();
        }
    }
}

/// Cross-site request forgery: forms of other pages neither sign a user in or out nor set up a second factor.
#[test]
fn forms_of_other_pages_are_refused() {
    let form = |action: &str, fields: &str| {
        format!(
            "<!doctype html><title>Evil</title><h1>Evil</h1>\
             <form method=post action='{}{action}'>{fields}<button>Win a prize</button></form>",
            lobby()
        )
    };
    let app = App::start();
    let request = app.authorize().replace(&lobby(), "").replace('&', "&amp;");
    let sign_in = format!(
        "<input type=hidden name=csrf value=''><input type=hidden name=request value='{request}'>\
         <input type=hidden name=username value='grace@example.com'>\
         <input type=hidden name=password value='demo-password-of-grace'>"
    );
    let evil = App::serving(
        "127.0.0.1",
        vec![
            ("/sign-out", "text/html", form("/auth/sign-out", "")),
            ("/sign-in", "text/html", form("/auth/sign-in", &sign_in)),
        ],
    );
    for origin in [evil.origin.clone(), evil.other_site()] {
        for path in ["/sign-out", "/sign-in"] {
            let window = victim(&app, &format!("{origin}{path}"));
            window.press("Win a prize");
            window.expect_text("Allow cookies for this site");
            window.visit(&format!("{}/auth/", lobby()));
            window.expect_heading("You are signed in");
            window.expect_text("ada@example.com");
        }
    }
}
