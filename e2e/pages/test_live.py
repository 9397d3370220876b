"""The live page of a running operator in a real browser; the test live_page_in_a_browser starts both.

HEADROOM_PAGE is the page's address. Once the first decision is seen the file HEADROOM_PAGE_WAS_READ is written, upon which
the test lets more pods appear: the page must show the decision that follows without being loaded anew.
"""

import os
import pathlib
import unittest
import urllib.error
import urllib.request

from browser import CONTRAST, Browser

PAGE = os.environ.get("HEADROOM_PAGE", "")


@unittest.skipUnless(PAGE, "HEADROOM_PAGE names no page")
@unittest.skipUnless(os.environ.get("CHROMIUM"), "there is no Chromium and none could be installed")
class Live(unittest.TestCase):
    def test_decisions_with_reasons_appear_as_they_are_made(self):
        with Browser(os.environ["CHROMIUM"]) as browser:
            browser.size(1280)
            browser.open(PAGE)
            browser.wait_for("document.querySelectorAll('.mark.up').length", "a scale-up")
            browser.click(".mark.up")
            why = browser.wait_for("[...document.querySelectorAll('.item.chosen')].map((i) => i.innerText).join(' ')", "the reasons")
            self.assertIn("PodsUnschedulable", why)
            self.assertIn("default/web-", why)
            self.assertIn("this replica leads", browser.run("document.querySelector('#meta').textContent"))
            tables = browser.run("document.querySelector('#tables').innerText")
            for words in ["Pods that wait", "general", "Nodes that stay", "Under way"]:
                self.assertIn(words, tables)
            before = browser.run("document.querySelectorAll('.item').length")
            browser.run("window.sameDocument = true")
            pathlib.Path(os.environ["HEADROOM_PAGE_WAS_READ"]).touch()
            browser.wait_for(f"document.querySelectorAll('.item').length > {before}", "another decision")
            browser.wait_for("Number(document.querySelector('.figure .value').textContent) > 1", "more nodes")
            self.assertTrue(browser.run("window.sameDocument"), "the page was loaded anew")
            self.assertTrue(browser.run("document.querySelector('.item.chosen').open"), "what was open was closed")
            for width in [390, 1280]:
                for dark in [False, True]:
                    browser.size(width, 1500, dark)
                    browser.open(PAGE)
                    browser.wait_for("document.querySelectorAll('.mark.up').length", "a scale-up")
                    self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
                    browser.click(".mark.up")
                    why = browser.wait_for("[...document.querySelectorAll('.item.chosen')].map((i) => i.innerText).join(' ')", "the reasons")
                    self.assertIn("PodsUnschedulable", why, f"at {width}")
                    self.assertEqual(browser.run(CONTRAST), [], f"{'dark' if dark else 'light'} at {width}")
                    if os.environ.get("AXE_CORE"):
                        self.assertEqual(browser.inaccessible(), [], f"{'dark' if dark else 'light'} at {width}")
                    if folder := os.environ.get("HEADROOM_PICTURES"):
                        browser.run("scrollTo(0, 0)")
                        name = f"live-{width}-dark.png" if dark else "live.png" if width == 1280 else f"live-{width}.png"
                        browser.picture(pathlib.Path(folder) / name)
            self.assertEqual(browser.errors, [])
            hosts = {url.split("/")[2] for url in browser.requests if url.startswith("http")}
            self.assertEqual(hosts, {PAGE.split("/")[2]})

    def test_page_is_read_only_and_answers_to_names_of_loopback_alone(self):
        def status(method="GET", **headers):
            request = urllib.request.Request(PAGE + "data.json", method=method, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        self.assertEqual(status(), 200)
        self.assertEqual(status(Host="evil.example"), 403)
        for method in ["POST", "PUT", "PATCH", "DELETE"]:
            self.assertEqual(status(method), 405)


if __name__ == "__main__":
    unittest.main()
