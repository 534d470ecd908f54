//! A window of Chromium with its own profile.
//!
//! Methods find elements as people do: by headings, labels, buttons, links. Each method waits until the element
//! appears.

use std::sync::LazyLock;
use std::time::Duration;

use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tests::Chromedriver;
use tokio::runtime::Runtime;
use url::Url;

use super::pair;
use crate::api::until;

/// Longest time until an element appears: a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// One window. Dropping it closes the window.
pub(super) struct Chromium {
    runtime: Runtime,
    client: Client,
}

impl Chromium {
    /// Opens a window of a person who reads English and prefers light pages.
    pub(super) fn open() -> Self {
        Self::with(&json!({}))
    }

    /// Likewise, of a person who allows no cookies.
    pub(super) fn without_cookies() -> Self {
        const BLOCK: u8 = 2;
        Self::with(&json!({"profile.default_content_setting_values.cookies": BLOCK}))
    }

    fn with(preferences: &Value) -> Self {
        static DRIVER: LazyLock<Chromedriver> =
            LazyLock::new(|| Chromedriver::start(pair().pair.log_directory()).unwrap());

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = runtime
            .block_on(
                ClientBuilder::new(HttpConnector::new())
                    .capabilities(capabilities(preferences))
                    .connect(&DRIVER.url()),
            )
            .unwrap();
        let window = Self { runtime, client };
        window.prefer("light");
        window
    }

    /// Opens `address`. An address that Chromium cannot show is no error, because redirects to apps end this way.
    pub(super) fn visit(&self, address: &str) {
        if let Err(error) = self.runtime.block_on(self.client.goto(address)) {
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
        let found = self.runtime.block_on(
            self.client
                .wait()
                .at_most(PATIENCE)
                .for_element(Locator::XPath(xpath)),
        );
        match found {
            Ok(element) => Element {
                window: self,
                element,
            },
            Err(error) => panic!(
                "no {xpath} at {}: {error}\n{}",
                self.address(),
                self.runtime
                    .block_on(self.client.source())
                    .unwrap_or_default()
            ),
        }
    }

    /// True if the page has the element now.
    pub(super) fn has(&self, xpath: &str) -> bool {
        self.count(xpath) > 0
    }

    /// Number of such elements on the page now.
    pub(super) fn count(&self, xpath: &str) -> usize {
        self.runtime
            .block_on(self.client.find_all(Locator::XPath(xpath)))
            .unwrap()
            .len()
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
        self.runtime.block_on(field.element.clear()).unwrap();
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
        let focused = self.runtime.block_on(self.client.active_element()).unwrap();
        self.runtime.block_on(focused.send_keys(keys)).unwrap();
    }

    /// Waits until the field with this label has the focus, because pages set the focus only after they are drawn.
    #[track_caller]
    pub(super) fn expect_focus(&self, label: &str) {
        let field = self.field(label).element.element_id();
        until(&format!("{label} has the focus"), || {
            let focused = self.runtime.block_on(self.client.active_element());
            focused.is_ok_and(|focused| focused.element_id() == field)
        });
    }

    /// The text of the focused element.
    pub(super) fn focused(&self) -> String {
        let focused = self.runtime.block_on(self.client.active_element()).unwrap();
        self.runtime.block_on(focused.text()).unwrap()
    }

    /// True if the focused element has an outline.
    pub(super) fn shows_focus(&self) -> bool {
        let style = "const style = getComputedStyle(document.activeElement);
            return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2";
        self.inspect(style) == true
    }

    /// Goes back in the history.
    pub(super) fn back(&self) {
        self.runtime.block_on(self.client.back()).unwrap();
    }

    /// The address that the window shows.
    pub(super) fn address(&self) -> Url {
        self.runtime.block_on(self.client.current_url()).unwrap()
    }

    /// The page's title.
    pub(super) fn title(&self) -> String {
        self.runtime.block_on(self.client.title()).unwrap()
    }

    /// The names and values of the cookies that the window would send to the page's server.
    pub(super) fn cookies(&self) -> Vec<(String, String)> {
        let cookies = self.runtime.block_on(self.client.get_all_cookies());
        cookies
            .unwrap()
            .into_iter()
            .map(|cookie| (cookie.name().to_owned(), cookie.value().to_owned()))
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
        let frame = self.expect(xpath).element;
        self.runtime.block_on(frame.enter_frame()).unwrap();
    }

    /// Switches back to the page around the frame.
    pub(super) fn leave_frame(&self) {
        self.runtime
            .block_on(self.client.enter_parent_frame())
            .unwrap();
    }

    /// The return value of a script. The page's content security policy does not apply to the script.
    pub(super) fn inspect(&self, script: &str) -> Value {
        self.runtime
            .block_on(self.client.execute(script, vec![]))
            .unwrap()
    }

    /// The value that a script passes to its last argument, a callback.
    pub(super) fn inspect_later(&self, script: &str) -> Value {
        self.runtime
            .block_on(self.client.execute_async(script, vec![]))
            .unwrap()
    }

    /// A picture of the page, as PNG.
    pub(super) fn screenshot(&self) -> Vec<u8> {
        self.runtime.block_on(self.client.screenshot()).unwrap()
    }

    /// The person prefers `light` or `dark` pages.
    pub(super) fn prefer(&self, scheme: &str) {
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
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

    /// Waits until `found` returns a value for a network event (Chrome DevTools Protocol).
    #[track_caller]
    pub(super) fn network_event<T>(&self, found: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut seen = vec![];
        while std::time::Instant::now() < deadline {
            let log = self.issue("se/log", &json!({"type": "performance"}));
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
        self.issue(
            "goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        );
    }

    fn issue(&self, path: &'static str, body: &Value) -> Value {
        let command = Vendor {
            path,
            body: body.to_string(),
        };
        self.runtime
            .block_on(self.client.issue_cmd(command))
            .unwrap()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.client.clone().close()) {
            eprintln!("a window did not close: {error}");
        }
    }
}

/// An element of a page.
pub(super) struct Element<'w> {
    window: &'w Chromium,
    element: fantoccini::elements::Element,
}

impl Element<'_> {
    pub(super) fn click(&self) {
        self.window.runtime.block_on(self.element.click()).unwrap();
    }

    pub(super) fn type_text(&self, text: &str) {
        let typing = self.element.send_keys(text);
        self.window.runtime.block_on(typing).unwrap();
    }

    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let value = self.element.attr(name);
        self.window.runtime.block_on(value).unwrap()
    }

    /// The value of a field.
    pub(super) fn value(&self) -> String {
        let value = self.element.prop("value");
        self.window.runtime.block_on(value).unwrap().unwrap()
    }

    pub(super) fn text(&self) -> String {
        self.window.runtime.block_on(self.element.text()).unwrap()
    }
}

fn capabilities(preferences: &Value) -> Capabilities {
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
    let capabilities = json!({
        "browserName": "chrome",
        "goog:chromeOptions": {"args": arguments, "prefs": preferences},
        "goog:loggingPrefs": {"performance": "ALL"},
    });
    let Value::Object(capabilities) = capabilities else {
        panic!("capabilities are an object")
    };
    capabilities
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

/// A command of Chromium's own.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: String,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &Url) -> (ureq::http::Method, Option<String>) {
        (ureq::http::Method::POST, Some(self.body.clone()))
    }
}
