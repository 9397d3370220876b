"""The report of a simulation in a real browser: what a reader sees, can press, and is safe from."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from browser import CONTRAST, Browser

HERE = pathlib.Path(__file__).parent
CHOSEN = "[...document.querySelectorAll('.item.chosen')]"


@unittest.skipUnless(os.environ.get("CHROMIUM"), "there is no Chromium and none could be installed")
class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="headroom-report-")
        cls.file = pathlib.Path(cls.folder.name) / "report.html"
        command = [os.environ["HEADROOM_BIN"], "simulate", HERE / "scenario", "--against", HERE / "large-nodes.yaml"]
        subprocess.run([*command, "--html", cls.file], check=True, stdout=subprocess.DEVNULL)
        # No API server takes such a name; the page must not depend on that.
        name = json.dumps("<img src=x onerror=\"window.hacked = 'pod'\">").strip('"').replace("<", "\\u003c").replace(">", "\\u003e")
        cls.hostile = cls.file.with_name("hostile.html")
        cls.hostile.write_text(cls.file.read_text().replace("default/web-", f"default/{name}-"))
        cls.browser = Browser(os.environ["CHROMIUM"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.browser.size(1280)
        self.browser.open(self.file.as_uri())
        self.browser.wait_for("document.querySelectorAll('.mark').length", "the marks")

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        asked = {request.split("#")[0] for request in self.browser.requests} - {self.file.as_uri(), self.hostile.as_uri()}
        self.assertEqual(asked, set(), "the report asked the network")

    def test_charts_and_figures_of_both_runs_are_there(self):
        run = self.browser.run
        self.assertEqual(
            run("[...document.querySelectorAll('.chart')].map((chart) => chart.id)"),
            ["chart-nodes", "chart-pods", "chart-cpu", "chart-wait", "chart-cost"],
        )
        self.assertIn("ready: at most", run("document.querySelector('#chart-nodes svg').getAttribute('aria-label')"))
        self.assertGreater(run("document.querySelector('#chart-nodes .l-b').getTotalLength()"), 100)
        self.assertIn("B: scenario with large-nodes", run("document.querySelector('.runs').textContent"))
        self.assertGreaterEqual(run("document.querySelectorAll('.figure .other').length"), 10)
        self.assertEqual(run("[...document.querySelectorAll('#tables tbody tr')].length"), 3)

    def test_click_on_a_decision_shows_its_reasons(self):
        self.browser.click(".mark.failed")
        why = self.browser.wait_for(f"{CHOSEN}.map((item) => item.innerText).join('\\n')", "the reasons")
        for words in ["PodsUnschedulable", "Failed", "Other pools that were looked at", "default/web-"]:
            self.assertIn(words, why)
        self.assertEqual(self.browser.run("document.querySelector('.mark.failed').getAttribute('aria-pressed')"), "true")
        self.assertEqual(self.browser.run("document.querySelectorAll('.mark[aria-pressed=true]').length"), 1)

    def test_decisions_are_reached_and_opened_by_keyboard(self):
        self.browser.run("document.querySelector('.mark').focus()")
        first = self.browser.run("document.activeElement.dataset.key")
        self.browser.press("ArrowRight")
        second = self.browser.run("document.activeElement.dataset.key")
        self.assertNotEqual(first, second)
        self.browser.press("Enter", text="\r")
        self.browser.wait_for(f"{CHOSEN}.some((item) => item.open && item.dataset.key === {second!r})", "the decision")
        self.assertEqual(self.browser.run("document.activeElement.tagName"), "SUMMARY")

    def test_time_can_be_chosen_by_keyboard_and_its_values_are_announced(self):
        self.browser.run("document.querySelector('#cursor').focus()")
        self.browser.press("Home")
        announced = self.browser.run("document.querySelector('#cursor').getAttribute('aria-valuetext')")
        self.assertTrue(announced.startswith("07:00:00: ready 0,"), announced)

    def test_filter_leaves_what_failed(self):
        self.browser.run("(() => { const f = document.querySelector('#filter'); f.value = 'failed'; f.dispatchEvent(new Event('change')); })()")
        signs = self.browser.run("[...new Set([...document.querySelectorAll('.item .sign')].map((sign) => sign.textContent))]")
        self.assertEqual(signs, ["✕"])

    def choose(self, control, value, event="change"):
        change = f"(() => {{ const c = document.querySelector('{control}'); c.value = {value!r}; c.dispatchEvent(new Event('{event}')); }})()"
        self.browser.run(change)

    def test_pool_and_names_leave_their_decisions_and_nodes(self):
        run = self.browser.run
        words = "[...document.querySelectorAll('.item .words')].map((words) => words.textContent)"
        pools = run("[...document.querySelector('#pool').options].slice(1).map((option) => option.value)")
        self.assertGreater(len(pools), 1)
        all_nodes = run("document.querySelectorAll('.lives li').length")
        for pool in pools:
            self.choose("#pool", pool)
            self.assertTrue(all(pool in each for each in run(words)), pool)
            labels = run("[...document.querySelectorAll('.lives svg')].map((bar) => bar.getAttribute('aria-label'))")
            self.assertTrue(all(f"pool {pool}," in label for label in labels), pool)
            all_nodes -= len(labels)
        self.assertEqual(all_nodes, 0, "each node is of one pool")
        self.choose("#pool", "")
        every = len(run(words))
        self.choose("#search", "default/web-", "input")
        found = run("[...document.querySelectorAll('.item')].length")
        self.assertTrue(0 < found < every, f"{found} of {every}")
        self.choose("#search", "nobody", "input")
        self.assertIn("Nothing of this kind", run("document.querySelector('#decisions').textContent"))

    def test_each_node_is_a_bar_that_begins_with_its_decision(self):
        labels = self.browser.run("[...document.querySelectorAll('.lives svg')].map((bar) => bar.getAttribute('aria-label'))")
        self.assertGreater(len(labels), 0)
        for word in ["asked for ", "joined ", "ready ", "at most "]:
            self.assertTrue(any(word in label for label in labels), f"{word!r} is in none of {labels[:3]}")
        bars = self.browser.run("[...document.querySelectorAll('.lives svg')].map((bar) => bar.querySelectorAll('rect').length)")
        self.assertTrue(all(1 <= count for count in bars), bars)

    def test_address_of_a_decision_opens_it(self):
        self.browser.click(".mark.failed")
        key = self.browser.wait_for(f"{CHOSEN}.map((item) => item.dataset.key)[0]", "the decision")
        address = self.browser.run("location.href")
        self.browser.open(self.hostile.as_uri())
        self.browser.open(address)
        opened = self.browser.wait_for(f"{CHOSEN}.filter((item) => item.open).map((item) => item.dataset.key)", "the decision")
        self.assertEqual(opened, [key])

    def test_names_of_the_cluster_are_words_and_never_markup(self):
        self.browser.open(self.hostile.as_uri())
        self.browser.wait_for("document.querySelectorAll('.mark').length", "the marks")
        # Every decision is opened, so that all that can be shown is shown.
        self.browser.run("[...document.querySelectorAll('.item summary')].forEach((summary) => summary.click())")
        self.browser.wait_for("document.querySelectorAll('.why').length === document.querySelectorAll('.item').length", "all reasons")
        self.assertEqual(self.browser.run("[typeof window.hacked, document.querySelectorAll('main img, main script').length]"), ["undefined", 0])
        self.assertIn("default/<img src=x onerror=\"window.hacked = 'pod'\">-", self.browser.run("document.querySelector('#decisions').innerText"))
        self.assertNotIn("false", self.browser.run("document.querySelector('#decisions').innerText"))
        self.assertIn("</script><script>window.hacked", self.browser.run("document.querySelector('#description').textContent"))

    def test_nothing_is_wider_than_the_screen(self):
        for width in [1280, 768, 390, 320]:
            for dark in [False, True]:
                self.browser.size(width, dark=dark)
                self.browser.wait_for(f"document.querySelector('#charts svg').viewBox.baseVal.width <= {width}", "the charts' new size")
                self.browser.run("document.querySelector('.mark.failed').click()")
                wide = self.browser.run(
                    "[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 &&"
                    " !e.closest('.scroll')).map((e) => e.tagName + '.' + e.className).slice(0, 5)"
                )
                self.assertEqual(wide, [], f"at {width}")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)

    def test_reasons_can_be_opened_and_read_in_light_and_dark_on_wide_and_narrow_screens(self):
        for width in [1280, 390]:
            for dark in [False, True]:
                self.browser.size(width, dark=dark)
                self.browser.open(self.file.as_uri())
                self.browser.wait_for("document.querySelectorAll('.mark').length", "the marks")
                self.browser.click(".mark.failed")
                why = self.browser.wait_for(f"{CHOSEN}.map((item) => item.innerText).join('\\n')", "the reasons")
                self.assertIn("Other pools that were looked at", why, f"at {width}")
                self.assertEqual(self.browser.run(CONTRAST), [], f"{'dark' if dark else 'light'} at {width}")

    @unittest.skipUnless(os.environ.get("AXE_CORE"), "there is no axe-core and it could not be fetched")
    def test_axe_core_finds_no_fault(self):
        for width in [1280, 390]:
            for dark in [False, True]:
                self.browser.size(width, dark=dark)
                self.browser.open(self.file.as_uri())
                self.browser.wait_for("document.querySelectorAll('.mark').length", "the marks")
                self.assertEqual(self.browser.inaccessible(), [], f"{'dark' if dark else 'light'} at {width}")
                # Every decision open, with its reasons.
                self.browser.run("[...document.querySelectorAll('.item summary')].forEach((summary) => summary.click())")
                self.assertEqual(self.browser.inaccessible(), [], f"opened, {'dark' if dark else 'light'} at {width}")

    def test_every_control_has_a_name(self):
        nameless = self.browser.run(
            "[...document.querySelectorAll('button, input, select, svg')].filter((e) => !(e.getAttribute('aria-label') ||"
            " (e.labels && e.labels.length) || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 80))"
        )
        self.assertEqual(nameless, [])


if __name__ == "__main__":
    unittest.main()
