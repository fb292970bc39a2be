//! One tab: where it goes, what is clicked and typed, what it shows, and what it complained of.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::chromium::Browser;

/// Longest wait for a page to show something.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// A desk and a phone.
pub(crate) const DESK: (u32, u32) = (1280, 900);
pub(crate) const PHONE: (u32, u32) = (360, 780);

/// A tab on one server.
pub(crate) struct Page {
    browser: Browser,
    session: String,
    base: String,
    complaints: Vec<String>,
    requests: Vec<String>,
}

/// Where screenshots go.
pub(crate) fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

impl Page {
    /// Opens a server's dashboard.
    pub(crate) fn open(browser: Browser, base: &str) -> Self {
        let mut page = Self::empty(browser, base);
        page.navigate();
        page
    }

    /// The same, with other texts in the place of some scripts (by their names under `/assets/`), and
    /// with one that runs before any of them.
    pub(crate) fn open_with(
        browser: Browser,
        base: &str,
        scripts: &[(&str, &str)],
        first: &str,
    ) -> Self {
        let mut page = Self::empty(browser, base);
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": first }));
        let address = |name: &str| format!("{base}/assets/{name}");
        let patterns: Vec<_> =
            scripts.iter().map(|(name, _)| json!({ "urlPattern": address(name) })).collect();
        page.call("Fetch.enable", json!({ "patterns": patterns }));
        page.navigate();
        let deadline = Instant::now() + PATIENCE;
        let mut left: Vec<_> = scripts.iter().collect();
        while !left.is_empty() {
            assert!(Instant::now() < deadline, "never asked for: {left:?}");
            std::thread::sleep(PAUSE);
            page.browser.listen();
            let is_paused = |told: &Value| told["method"] == "Fetch.requestPaused";
            while let Some(at) = page.browser.told.iter().position(is_paused) {
                let request = page.browser.told.remove(at).unwrap()["params"].take();
                left.retain(|(name, text)| {
                    let is_asked = request["request"]["url"] == address(name);
                    if is_asked {
                        page.answer(&request["requestId"], text);
                    }
                    !is_asked
                });
            }
        }
        page.call("Fetch.disable", json!({}));
        page
    }

    /// Answers a request in the server's place.
    fn answer(&mut self, request: &Value, script: &str) {
        let kind = json!([{ "name": "content-type", "value": "text/javascript" }]);
        let answer = json!({
            "requestId": request, "responseCode": 200, "responseHeaders": kind,
            "body": STANDARD.encode(script),
        });
        self.call("Fetch.fulfillRequest", answer);
    }

    /// A tab that has gone nowhere yet.
    fn empty(mut browser: Browser, base: &str) -> Self {
        let target = browser.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call(None, "Target.attachToTarget", attach);
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let (complaints, requests) = (Vec::new(), Vec::new());
        let mut page = Self { browser, session, base: base.to_owned(), complaints, requests };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        if base.starts_with("https:") {
            // The certificate of a test is its own.
            page.call("Security.setIgnoreCertificateErrors", json!({ "ignore": true }));
        }
        page.resize(DESK);
        page
    }

    fn navigate(&mut self) {
        let url = format!("{}/", self.base);
        self.call("Page.navigate", json!({ "url": url }));
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    pub(crate) fn resize(&mut self, (width, height): (u32, u32)) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the system prefers: `light` or `dark`.
    pub(crate) fn prefer(&mut self, colours: &str) {
        let feature = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// The same, and nothing moves: colours are what they will be.
    pub(crate) fn prefer_calm(&mut self, colours: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": colours },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Goes to a page by its address, and waits until it is there.
    pub(crate) fn go(&mut self, route: &str) {
        self.evaluate(&format!("location.hash = {}", json!(route)));
        self.wait(
            route,
            &format!(
                "decodeURIComponent(location.hash) === {} && !document.querySelector('.ghosts') \
                 && document.querySelector('main .page')?.childElementCount",
                json!(format!("#{route}"))
            ),
        );
    }

    /// Clicks the first of some elements whose text is this.
    pub(crate) fn click_text(&mut self, selector: &str, text: &str) {
        let found = format!(
            "[...document.querySelectorAll({})].find((one) => one.textContent === {})",
            json!(selector),
            json!(text)
        );
        self.click_found(&format!("{selector} that says {text}"), &found);
    }

    /// Makes the page anew, as somebody does who presses F5, and waits until an element is there.
    pub(crate) fn reload(&mut self, selector: &str) {
        // Until the new document comes, the old one would answer for it.
        self.evaluate("window.isOld = true");
        self.call("Page.reload", json!({}));
        let found = format!("!window.isOld && document.querySelector({})", json!(selector));
        self.wait(&format!("{selector} after a reload"), &found);
    }

    /// Clicks the button that runs a job, which a fresh status may replace at any moment.
    pub(crate) fn click_job(&mut self, name: &str) {
        let row = format!(
            "[...document.querySelectorAll('tbody tr')].find((row) => \
             row.firstElementChild.textContent === {})",
            json!(name)
        );
        self.wait(name, &format!("{row}?.querySelector('button')"));
        self.evaluate(&format!("{row}.querySelector('button').click(); true"));
    }

    /// Puts a text in the place of what a field holds.
    pub(crate) fn fill(&mut self, selector: &str, text: &str) {
        self.expect(selector);
        self.evaluate(&format!(
            "document.querySelector({0}).focus(); document.querySelector({0}).select()",
            json!(selector)
        ));
        self.type_in(text);
    }

    /// Logs in by the button in the head.
    pub(crate) fn log_in(&mut self, token: &str) {
        self.click("#who");
        self.fill("#act-token", token);
        self.click("dialog[open] .primary");
        self.wait("the login", "!document.querySelector('dialog')");
        self.wait("a name", "document.querySelector('#who').textContent !== 'Log in'");
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let found = self.try_evaluate(expression);
        found.unwrap_or_else(|reason| panic!("{expression}: {reason}"))
    }

    /// The same; the reason where the page went away before it answered.
    fn try_evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut answer = self.browser.ask(Some(&self.session), "Runtime.evaluate", params)?;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        Ok(answer["result"]["value"].take())
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let found =
            self.evaluate(&format!("document.querySelector({})?.textContent", json!(selector)));
        found.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn number(&mut self, expression: &str) -> u64 {
        let found = self.evaluate(expression);
        found.as_u64().unwrap_or_else(|| panic!("{expression} is {found}"))
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        // Between two documents there is nobody to answer: the next one is asked.
        while self.try_evaluate(&format!("Boolean({expression})")) != Ok(json!(true)) {
            if Instant::now() >= deadline {
                let seen = self.text("main");
                self.picture("failed");
                self.listen();
                panic!("waited in vain for {what}; shown: {seen}; told: {:?}", self.complaints);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits for an element.
    pub(crate) fn expect(&mut self, selector: &str) {
        self.wait(selector, &format!("document.querySelector({})", json!(selector)));
    }

    /// Waits for a text somewhere in an element.
    pub(crate) fn expect_text(&mut self, selector: &str, text: &str) {
        let (selector, wanted) = (json!(selector), json!(text));
        let test = format!("document.querySelector({selector})?.textContent.includes({wanted})");
        self.wait(&format!("`{text}` in {selector}"), &test);
    }

    /// Clicks where an element is, as a mouse does: something that lies above it gets the click.
    pub(crate) fn click(&mut self, selector: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        self.click_found(selector, &found);
    }

    /// Clicks what an expression finds.
    fn click_found(&mut self, what: &str, found: &str) {
        let place = self.resting_place(what, found);
        for kind in ["mousePressed", "mouseReleased"] {
            let press = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", press);
        }
    }

    /// The middle of an element, once it has stopped moving: what is still loading above it pushes
    /// it down, and a click would miss. It is looked for each time: a fresh status may put another
    /// one in its place.
    fn resting_place(&mut self, what: &str, found: &str) -> Value {
        let middle = format!(
            "(() => {{ const element = {found}; \
             element?.scrollIntoView({{ block: 'center' }}); \
             const box = element?.getClientRects()[0]; \
             return box && [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.wait(what, found);
            let before = self.evaluate(&middle);
            std::thread::sleep(PAUSE * 2);
            let after = self.evaluate(&middle);
            if before == after && after.is_array() {
                return after;
            }
            assert!(Instant::now() < deadline, "{what} never rests");
        }
    }

    /// Presses a key: a letter, or `Enter`, `Tab`, `Escape`.
    pub(crate) fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            letter if letter.chars().count() == 1 => letter,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            _ => 0,
        };
        let event = |kind: &str| json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Keeps what is shown under a name.
    pub(crate) fn picture(&mut self, name: &str) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(pictures().join(format!("{name}.png")), bytes).unwrap();
    }

    /// Nothing sticks out to the side.
    pub(crate) fn assert_fits(&mut self, what: &str) {
        let root = "document.documentElement";
        let wide = self.number(&format!("{root}.scrollWidth"));
        let given = self.number(&format!("{root}.clientWidth"));
        if wide > given {
            let out = self.evaluate(&format!(
                "[...document.querySelectorAll('body *')].filter((one) => \
                 one.getBoundingClientRect().right > {given}).map((one) => \
                 `${{one.tagName}}.${{one.getAttribute('class')}}`).slice(0, 8)"
            ));
            self.picture("failed");
            panic!("{what} is {wide} wide where {given} are given; too far right: {out}");
        }
    }

    fn listen(&mut self) {
        self.browser.listen();
        for message in std::mem::take(&mut self.browser.told) {
            let params = &message["params"];
            match message["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => {
                    self.complaints.push(params["exceptionDetails"].to_string());
                }
                "Runtime.consoleAPICalled" => {
                    let kind = params["type"].as_str().unwrap_or_default();
                    if matches!(kind, "error" | "warning" | "assert") {
                        self.complaints.push(params["args"].to_string());
                    }
                }
                "Log.entryAdded" => {
                    let level = params["entry"]["level"].as_str().unwrap_or_default();
                    if matches!(level, "error" | "warning") {
                        self.complaints.push(params["entry"].to_string());
                    }
                }
                "Network.requestWillBeSent" => {
                    let address = params["request"]["url"].as_str().unwrap_or_default();
                    self.requests.push(address.to_owned());
                }
                _ => {}
            }
        }
    }

    /// Nothing was complained of, and nothing was asked of anybody else.
    pub(crate) fn assert_clean(&mut self) {
        self.listen();
        assert!(self.complaints.is_empty(), "complaints: {:#?}", self.complaints);
        let base = format!("{}/", self.base);
        let outside = |address: &&String| !address.starts_with(&base);
        let left: Vec<_> = self.requests.iter().filter(outside).collect();
        assert!(left.is_empty(), "requests that left the host: {left:?}");
        assert!(self.requests.len() > 10, "the page asked for nothing: {:?}", self.requests);
    }
}
