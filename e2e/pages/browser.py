"""Drives a headless Chromium by its DevTools protocol over a pair of pipes: no port, no packages beside Python's own."""

import base64
import json
import os
import select
import signal
import subprocess
import tempfile
import time

FLAGS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--force-color-profile=srgb",
]

# A page that is loaded from a file or from loopback answers in milliseconds; a busy machine may need much longer.
PATIENCE_SECONDS = 60


# Words whose contrast with what is behind them is under 4.5, as WCAG 2 counts at level AA.
CONTRAST = """(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const light = (c) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const style = getComputedStyle(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    if (!ink || e.closest('svg') && e.tagName !== 'text') continue;
    const [x, y] = [light(ink), light(behind(e))];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (ratio < 4.5) poor.push(`${e.tagName}.${e.className.baseVal ?? e.className} ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()"""


# What axe-core finds, rule by rule with the first elements, at the levels A and AA of WCAG 2.2 and by its best practices.
AXE = """(async () => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const found = await axe.run(document, {runOnly: tags, preload: false, resultTypes: ['violations']});
  const elements = (of) => of.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ');
  if (found.passes.length < 10) return ['axe-core has looked at nothing'];
  return found.violations.map((of) => `${of.id} (${of.impact}): ${of.nodes.length} × ${elements(of)}`);
})()"""


class Trouble(Exception):
    """The browser did not do what it was asked."""


class Browser:
    """A browser with one page. What goes wrong in the page is collected in `errors`, what it asks for in `requests`."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="headroom-pages-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()

        def pipes():
            # The protocol is spoken on descriptors 3 and 4; both are copied away first, they may be in each other's place.
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        # Root in a container has no namespaces for the sandbox, and the only pages are our own.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [program, *FLAGS, *sandbox, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            command, preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.errors = []
        self.requests = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        os.close(self.out)
        os.close(self.into)
        self.profile.cleanup()

    def end(self):
        """Ends the browser with all its processes: those that outlive the first one still write into the profile."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                # The group is named after the first process, and lasts as long as any of its members.
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()

    def call(self, method, **parameters):
        """The result of one call; what happens meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.receive(end)
            if answer is None:
                raise Trouble(f"the browser did not answer {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Trouble(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def receive(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self.into, 1 << 20)
            if not piece:
                raise Trouble("the browser has ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details.get("text", "")))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(each.get("value")) for each in parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case _:
                pass

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Trouble(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def inaccessible(self):
        """What axe-core finds fault with in the page as it is now; AXE_CORE is the path of its script."""
        with open(os.environ["AXE_CORE"], encoding="utf-8") as script:
            self.run(f"{script.read()}; 0")
        return self.run(AXE)

    def wait_for(self, script, what):
        """Waits until an expression is true in the page; returns its value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise Trouble(f"waited in vain for {what}")

    def size(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'", f"{url} to be loaded")

    def click(self, selector):
        """Waits for an element and clicks in its middle, as a person would: what lies over it gets the click."""
        x, y = self.wait_for(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()",
            f"{selector} to click on",
        )
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code=None, text=None):
        more = {"text": text} if text else {}
        numbers = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36}
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                      windowsVirtualKeyCode=numbers[key], **(more if kind == "keyDown" else {}))

    def picture(self, file, whole=False):
        result = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(result["data"]))
