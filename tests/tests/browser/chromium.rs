//! A window of Chromium with its own profile.
//!
//! Windows run in Chromium's headless shell, which has the same engine and takes a third of the processor time.
//!
//! Methods find elements as people do: by headings, labels, buttons, links. Each method waits until the element
//! appears.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::Chromedriver;
use url::Url;

use super::pair;
use super::webdriver::{ELEMENT, Session};
use crate::api::until;

/// Longest time until an element appears: a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// One window. Dropping it closes the window.
pub(super) struct Chromium(Session);

impl Chromium {
    /// Opens a window of a person who reads English and prefers light pages.
    pub(super) fn open() -> Self {
        Self::with(&headless_shell(), &json!({}))
    }

    /// Likewise, with the log that [`Self::network_event`] reads. Keeping it takes chromedriver and Chromium a part of their time.
    pub(super) fn with_network_events() -> Self {
        Self::with(&headless_shell(), &json!({"performance": "ALL"}))
    }

    /// Likewise, of a person who allows no cookies: a preference of the whole Chromium.
    pub(super) fn without_cookies() -> Self {
        const BLOCK: u8 = 2;
        let preferences = json!({"profile.default_content_setting_values.cookies": BLOCK});
        Self::with(&json!({"prefs": preferences}), &json!({}))
    }

    fn with(options: &Value, logs: &Value) -> Self {
        static DRIVER: LazyLock<Chromedriver> =
            LazyLock::new(|| Chromedriver::start(pair().pair.log_directory()).unwrap());

        let window = Self(Session::open(&DRIVER.url(), &capabilities(options, logs)));
        window.prefer("light");
        window
    }

    /// Opens `address`. An address that Chromium cannot show is no error, because redirects to apps end this way.
    pub(super) fn visit(&self, address: &str) {
        if let Err(error) = self.0.post("url", &json!({"url": address})) {
            assert!(error.to_string().contains("net::ERR_"), "{error}");
        }
    }

    /// Waits until the page's heading is `heading`.
    #[track_caller]
    pub(super) fn expect_heading(&self, heading: &str) {
        self.expect(&format!("//h1[normalize-space()={}]", quoted(heading)));
    }

    /// Waits until one element of the page contains `text`.
    #[track_caller]
    pub(super) fn expect_text(&self, text: &str) {
        self.expect(&format!(
            "//body//*[contains(normalize-space(), {})]",
            quoted(text)
        ));
    }

    /// Waits until an element appears.
    #[track_caller]
    pub(super) fn expect(&self, xpath: &str) -> Element<'_> {
        let start = Instant::now();
        loop {
            if let Some(element) = self.find(xpath).into_iter().next() {
                return element;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {xpath} at {}:\n{}",
                self.address(),
                self.get("source")
            );
            tests::pace();
        }
    }

    /// The elements on the page now.
    fn find(&self, xpath: &str) -> Vec<Element<'_>> {
        let found = self.post("elements", &json!({"using": "xpath", "value": xpath}));
        let found = found.as_array().unwrap().iter();
        found.map(|element| self.element(element)).collect()
    }

    fn element(&self, found: &Value) -> Element<'_> {
        Element {
            window: self,
            id: text(&found[ELEMENT]),
        }
    }

    /// True if the page has the element now.
    pub(super) fn has(&self, xpath: &str) -> bool {
        self.count(xpath) > 0
    }

    /// Number of such elements on the page now.
    pub(super) fn count(&self, xpath: &str) -> usize {
        self.find(xpath).len()
    }

    /// The field with this label.
    #[track_caller]
    pub(super) fn field(&self, label: &str) -> Element<'_> {
        self.expect(&format!(
            "//input[@id=//label[normalize-space()={}]/@for]",
            quoted(label)
        ))
    }

    /// Replaces the value of the field with this label.
    #[track_caller]
    pub(super) fn fill(&self, label: &str, text: &str) {
        let field = self.field(label);
        field.post("clear", &json!({}));
        field.type_text(text);
    }

    /// Presses the button whose text starts with this text.
    #[track_caller]
    pub(super) fn press(&self, text: &str) {
        self.expect(&format!(
            "//button[starts-with(normalize-space(), {})]",
            quoted(text)
        ))
        .click();
    }

    /// Follows the link with this text.
    #[track_caller]
    pub(super) fn follow(&self, text: &str) {
        self.expect(&format!(
            "//a[starts-with(normalize-space(), {})]",
            quoted(text)
        ))
        .click();
    }

    /// Presses a key, or types, in the focused element.
    pub(super) fn type_at_focus(&self, keys: &str) {
        self.element(&self.get("element/active")).type_text(keys);
    }

    /// Waits until the field with this label has the focus, because pages set the focus only after they are drawn.
    #[track_caller]
    pub(super) fn expect_focus(&self, label: &str) {
        let field = self.field(label).id;
        until(&format!("{label} has the focus"), || {
            let focused = self.0.get("element/active");
            focused.is_ok_and(|focused| focused[ELEMENT] == field)
        });
    }

    /// The text of the focused element.
    pub(super) fn focused(&self) -> String {
        self.element(&self.get("element/active")).text()
    }

    /// True if the focused element has an outline.
    pub(super) fn shows_focus(&self) -> bool {
        let style = "const style = getComputedStyle(document.activeElement);
            return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2";
        self.inspect(style) == true
    }

    /// Goes back in the history.
    pub(super) fn back(&self) {
        self.post("back", &json!({}));
    }

    /// The address that the window shows.
    pub(super) fn address(&self) -> Url {
        Url::parse(&text(&self.get("url"))).unwrap()
    }

    /// The page's title.
    pub(super) fn title(&self) -> String {
        text(&self.get("title"))
    }

    /// The names and values of the cookies that the window would send to the page's server.
    pub(super) fn cookies(&self) -> Vec<(String, String)> {
        let cookies = self.get("cookie");
        let cookies = cookies.as_array().unwrap().iter();
        cookies
            .map(|cookie| (text(&cookie["name"]), text(&cookie["value"])))
            .collect()
    }

    /// Gives the window a cookie of the page's server.
    pub(super) fn set_cookie(&self, name: &str, value: &str) {
        let url = self.address();
        self.devtools(
            "Network.setCookie",
            &json!({"name": name, "value": value, "url": url.as_str()}),
        );
    }

    /// Switches to the frame in the page.
    pub(super) fn enter_frame(&self, xpath: &str) {
        let frame = self.expect(xpath).id;
        self.post("frame", &json!({"id": {ELEMENT: frame}}));
    }

    /// Switches back to the page around the frame.
    pub(super) fn leave_frame(&self) {
        self.post("frame/parent", &json!({}));
    }

    /// The return value of a script. The page's content security policy does not apply to the script.
    pub(super) fn inspect(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// The value that a script passes to its last argument, a callback.
    pub(super) fn inspect_later(&self, script: &str) -> Value {
        self.post("execute/async", &json!({"script": script, "args": []}))
    }

    /// A picture of the page, as PNG.
    pub(super) fn screenshot(&self) -> Vec<u8> {
        STANDARD.decode(text(&self.get("screenshot"))).unwrap()
    }

    /// The person prefers `light` or `dark` pages.
    pub(super) fn prefer(&self, scheme: &str) {
        self.emulate("prefers-color-scheme", scheme);
    }

    /// Emulates a feature that style sheets ask for, and no other.
    pub(super) fn emulate(&self, feature: &str, value: &str) {
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": feature, "value": value}]}),
        );
    }

    /// Makes the window `width` pixels wide, as on a small telephone.
    pub(super) fn resize(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Disables scripts in pages that are opened from now on.
    pub(super) fn disable_scripts(&self) {
        self.devtools(
            "Emulation.setScriptExecutionDisabled",
            &json!({"value": true}),
        );
    }

    /// Waits until `found` returns a value for a network event (Chrome DevTools Protocol) of [`Self::with_network_events`].
    #[track_caller]
    pub(super) fn network_event<T>(&self, found: impl Fn(&Value) -> Option<T>) -> T {
        let start = Instant::now();
        let mut seen = vec![];
        while start.elapsed() < PATIENCE {
            let log = self.post("se/log", &json!({"type": "performance"}));
            for entry in log.as_array().unwrap() {
                let entry: Value =
                    serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
                let event = &entry["message"];
                if let Some(found) = found(event) {
                    return found;
                }
                seen.push(format!("{} {}", event["method"], event["params"]));
            }
        }
        panic!("not among the events:\n{}", seen.join("\n"));
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        self.post(
            "goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        );
    }

    fn get(&self, command: &str) -> Value {
        self.0.get(command).unwrap()
    }

    fn post(&self, command: &str, parameters: &Value) -> Value {
        self.0.post(command, parameters).unwrap()
    }
}

/// An element of a page.
pub(super) struct Element<'w> {
    window: &'w Chromium,
    id: String,
}

impl Element<'_> {
    pub(super) fn click(&self) {
        self.post("click", &json!({}));
    }

    pub(super) fn type_text(&self, text: &str) {
        self.post("value", &json!({"text": text}));
    }

    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let value = self.get(&format!("attribute/{name}"));
        value.as_str().map(str::to_owned)
    }

    /// The value of a field.
    pub(super) fn value(&self) -> String {
        text(&self.get("property/value"))
    }

    pub(super) fn text(&self) -> String {
        text(&self.get("text"))
    }

    fn get(&self, command: &str) -> Value {
        self.window.get(&format!("element/{}/{command}", self.id))
    }

    fn post(&self, command: &str, parameters: &Value) {
        let command = format!("element/{}/{command}", self.id);
        self.window.post(&command, parameters);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn headless_shell() -> Value {
    json!({"binary": "/usr/lib/chromium/chromium-headless-shell"})
}

fn capabilities(options: &Value, logs: &Value) -> Value {
    let mut arguments = vec![
        "--headless=new".to_owned(),
        // Containers have a small `/dev/shm`.
        "--disable-dev-shm-usage".to_owned(),
        "--no-proxy-server".to_owned(),
        "--accept-lang=en-GB".to_owned(),
    ];
    // Chromium refuses to run as root in its sandbox.
    if is_root() {
        arguments.push("--no-sandbox".to_owned());
    }
    let mut options = options.clone();
    options["args"] = json!(arguments);
    json!({
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": logs,
    })
}

fn is_root() -> bool {
    let id = std::process::Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

/// A text as an XPath literal.
fn quoted(text: &str) -> String {
    assert!(!text.contains('"'), "{text}");
    format!("\"{text}\"")
}
