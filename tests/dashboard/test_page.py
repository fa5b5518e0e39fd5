#!/usr/bin/env python3
"""The page of a job that has ended, in a real browser, opened from disk: widths, colours, the table of ranks by keyboard, text from
ranks that looks like HTML, 512 ranks, and the limits of what it keeps. The page of a running job needs a server; it is not tested here.
"""

import base64
import hashlib
import json
import sys
import tempfile
import unittest
from pathlib import Path

import browser

PAGE = Path(__file__).resolve().parents[2] / "lockstep" / "dashboard" / "page"
WIDTHS = (400, 1400)
REASON = "its own part of a step takes 2.1 times the median of the others"
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'></script>"
SHORT_TABLE = 24  # rows that a large job shows at first
SKIPPED = 77


def assembled(data):
    """The three files and the data as one page, with the Content-Security-Policy of the server (but frame-ancestors, which a <meta>
    may not have)."""
    style, script = ((PAGE / f"dashboard.{kind}").read_text() for kind in ("css", "js"))

    def digest(content):
        return "'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'"

    policy = (f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    page = (PAGE / "dashboard.html").read_text()
    charset = '<meta charset="utf-8">'
    block = '<script type="application/json" id="data">' + json.dumps(data).replace("<", "\\u003c") + "</script>"
    for mark, content in ((charset, f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
                          ("/*STYLE*/", style), ("/*SCRIPT*/", script), ("<!--DATA-->", block)):
        assert page.count(mark) == 1, f"dashboard.html has {mark} {page.count(mark)} times"
        page = page.replace(mark, content)
    return page


def rank(number, **fields):
    return {"rank": number, "host": f"node{number // 8:03}", "pid": 4000 + number, "generation": 2, "state": "ended", "step": 600 - number,
            "rate": 40.0 + number, "waits": 0.1, "memory": 1 << 30, "straggler": None, "call": None, "activity": "ended", **fields}


def job(ranks, **fields):
    """The last message of a job of these ranks. Rank 1 was lost once."""
    events = [("start", 0.0, None, "the ranks were started"), ("generation", 2.0, None, "generation 1: all ranks have met"),
              ("save", 40.0, None, "checkpoint of step 200"), ("loss", 70.0, 1, "rank 1 was lost at step 320: killed by signal 9"),
              ("decision", 70.1, 1, "rank 1 is replaced: its host has a free place"), ("return", 80.0, 1, "rank 1 has returned"),
              ("generation", 82.0, None, "generation 2: continues from step 200"), ("evaluation", 100.0, None, "accuracy 0.81"),
              ("end", 125.0, None, "all ranks ended well")]
    return {
        "type": "job", "protocol": 1,
        "job": {"name": "run-1", "program": "lockstep train --config gpt.yaml", "started": 1764460000.0, "now": 125.0, "state": "ended",
                "exit_code": 0, "end": "all ranks ended well", "hosts": 1, "world": len(ranks), "can_kill": False, "version": "0.9.0",
                "notes": [], **fields},
        "progress": {"step": 600, "steps": 600, "epoch": 3, "samples_per_s": 345.1, "seconds_left": 0.0},
        "goodput": {"wall": 125.0, "ettr": 0.74, "parts": {"start": 2, "data": 5, "compute": 70, "communicate": 20, "wait": 10, "save": 2,
                                                           "lost": 12, "evaluate": 3, "other": 1}},
        "ranks": ranks,
        "curves": {"loss": [[step, 3 / (1 + step / 100)] for step in [*range(1, 321), *range(201, 601)]],
                   "accuracy": [[200, 0.5], [400, 0.7], [600, 0.81]],
                   "samples_per_s": [[step, 345.0 + step % 7] for step in range(10, 601, 10)]},
        "events": [{"id": i, "at": at, "kind": kind, "rank": of, "text": text} for i, (kind, at, of, text) in enumerate(events)],
        "lines": {"0": ["epoch 3 ends", "loss 0.4286"], "3": [HOSTILE, "\x1b[31mred\x1b[0m"]},
    }


FOUR = [rank(0), rank(1, call='all_reduce 40 of group "world"'),
        rank(2, host="h" * 300, state="failed", memory=None, rate=None, waits=None),
        rank(3, state="running", straggler=REASON, host=HOSTILE, activity=HOSTILE)]
EACH_STATE = ["starting", "running", "lost", "ended", "failed"]


def large_job():
    ranks = [rank(number, state="running") for number in range(512)]
    for number in (77, 400):
        ranks[number]["straggler"] = REASON
    ranks[300]["state"] = "lost"
    return job(ranks, program="lockstep train " + "a_word_without_a_blank" * 30, notes=["ranks of other hosts are not shown: " + "x" * 200])


# Each text that is visible: its contrast with what is behind it (relative luminance as in WCAG 2).
LOW_CONTRAST = """(() => {
  const parse = (color) => { const c = color.match(/[\\d.]+/g).map(Number); return c.length === 3 ? [...c, 1] : c; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const own = parse(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, node.parentElement ? behind(node.parentElement) : [255, 255, 255, 1]);
  };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, style = getComputedStyle(node);
    if (!walk.currentNode.data.trim() || !node.getClientRects().length || /^(STYLE|SCRIPT)$/.test(node.tagName)) continue;
    const ground = behind(node), ink = over(parse(node instanceof SVGElement ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${walk.currentNode.data.trim().slice(0, 40)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return found;
})()"""


class PageOfEndedJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = cls.enterClassContext(browser.open_browser())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # Counts connections, before the page's own script begins.
        cls.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
            window.connections = 0;
            window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); ++window.connections; } };"""})

    def open(self, data, width=1400, **screen):
        browser.set_screen(self.driver, width, **screen)
        file = self.folder / "dashboard.html"
        file.write_text(assembled(data), encoding="utf-8")
        self.driver.get(file.as_uri())
        self.wait("document.getElementById('name').textContent === arguments[0]", data["job"]["name"])
        self.wait("document.querySelectorAll('#rows tr').length > 0 || !arguments[0]", len(data["ranks"]))

    def tearDown(self):
        self.assertEqual(browser.problems(self.driver), [])

    def js(self, expression, *arguments):
        return self.driver.execute_script(f"return {expression};", *arguments)

    def wait(self, expression, *arguments):
        return browser.wait_until(self.driver, expression, *arguments)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def text(self, name):
        return self.js("document.getElementById(arguments[0]).textContent", name)

    def rows(self):
        return self.js("[...document.querySelectorAll('#rows tr')].map((row) => row.item.rank)")

    def test_widths_and_colours(self):
        each_state = [rank(i, state=state) for i, state in enumerate(EACH_STATE)]
        for name, data in (("4 ranks", job(FOUR)), ("each state", job(each_state, exit_code=1, end=HOSTILE)),
                           ("512 ranks", large_job()), ("long names", job(FOUR, name="n" * 300, end="e" * 300))):
            for width in WIDTHS:
                for dark in (False, True):
                    with self.subTest(name, width=width, dark=dark):
                        self.open(data, width, dark=dark)
                        self.js("document.querySelector('#rows tr').click()")
                        self.wait("!document.getElementById('details').hidden")
                        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.js(LOW_CONTRAST), [])
                        ground = self.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
                        (self.assertLess if dark else self.assertGreater)(sum(ground), 384)

    def test_rows(self):
        self.open(job(FOUR))
        cells = self.js("[...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual(cells[1], ["1", "node000", "4001", "2", "ended", "599", "41", "10 %", "1.0 GiB", 'all_reduce 40 of group "world"'])
        self.assertEqual(cells[2][6:9], ["–", "–", "–"])
        self.assertEqual(self.rows(), [0, 1, 2, 3])
        self.assertTrue(self.js("document.getElementById('overview').hidden"))

    def test_straggler_has_its_reason(self):
        self.open(job(FOUR))
        self.assertIn(REASON, self.js("document.querySelectorAll('#rows tr')[3].textContent"))
        self.assertIn("straggler", self.js("document.querySelectorAll('#rows tr')[3].textContent"))
        self.assertIn(REASON, self.text("slow-ranks"))
        self.js("document.querySelector('#slow-ranks button').focus()")
        self.press("\ue007")  # Enter
        self.wait("document.activeElement.id === 'details'")
        self.assertEqual(self.text("details-title"), "Rank 3")
        self.assertIn(REASON, self.text("details-reason"))

    def test_states_differ_in_shape(self):
        self.open(job([rank(i, state=state) for i, state in enumerate(EACH_STATE)] + [rank(9, state="running", straggler=REASON)]))
        shapes = self.js("""[...document.querySelectorAll('#rows .state .shape')].map((node) => { const style = getComputedStyle(node);
            return [style.clipPath, style.borderTopWidth].join(); })""")
        self.assertEqual(len(set(shapes)), 6, shapes)

    def test_text_of_ranks_stays_text(self):
        self.open(job(FOUR, name=HOSTILE, program=HOSTILE, end=HOSTILE, notes=[HOSTILE]))
        self.js("document.querySelectorAll('#rows tr')[3].click()")
        self.wait("!document.getElementById('details').hidden")
        self.assertEqual(self.text("lines"), HOSTILE + "\nred")
        for name in ("name", "program", "ending", "notes", "rows", "facts"):
            self.assertIn(HOSTILE, self.text(name))
        self.assertIsNone(self.js("window.hacked"))
        self.assertEqual(self.js("[document.scripts.length, document.images.length]"), [2, 0])

    def test_sorting_by_keyboard(self):
        self.open(job(FOUR))
        self.js("document.getElementById('find').focus()")
        for _ in range(6):  # rank, host, pid, generation, state, step
            self.press("\ue004")  # Tab
            self.wait("document.activeElement.closest('th') !== null")
        self.assertEqual(self.js("document.activeElement.textContent"), "Step")
        self.assertNotEqual(self.js("getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.press("\ue007")
        self.wait("document.activeElement.closest('th').ariaSort === 'ascending'")
        self.assertEqual(self.rows(), [3, 2, 1, 0])
        self.press(" ")
        self.wait("document.activeElement.closest('th').ariaSort === 'descending'")
        self.assertEqual(self.rows(), [0, 1, 2, 3])
        self.js("[...document.querySelectorAll('#columns button')].find((button) => button.textContent === 'Samples/s').click()")
        self.wait("document.querySelector('#columns .c-rate').ariaSort === 'ascending'")
        self.assertEqual(self.rows(), [0, 1, 3, 2])  # what is not known is last

    def test_rows_by_keyboard(self):
        self.open(job(FOUR))
        self.assertEqual(self.js("document.querySelectorAll('#rows tr[tabindex=\"0\"]').length"), 1)
        self.js("document.querySelector('#rows tr[tabindex=\"0\"]').focus()")
        self.press("\ue015", "\ue015", "\ue013")  # down, down, up
        self.press("\ue007")
        self.wait("document.activeElement.id === 'details'")
        self.assertEqual(self.text("details-title"), "Rank 1")
        self.assertEqual(self.text("lines"), "It has printed nothing.")
        self.assertEqual(self.js("document.querySelector('#rows [aria-selected=\"true\"]').item.rank"), 1)
        self.assertTrue(self.js("document.getElementById('kill-box').hidden"))
        self.press("\ue00c")  # Escape
        self.wait("document.getElementById('details').hidden && document.activeElement.item?.rank === 1")

    def test_curves_and_events_by_keyboard(self):
        self.open(job(FOUR))
        self.js("document.querySelector('#curves .plot').focus()")
        self.press("\ue011")  # Home
        self.assertEqual(self.js("document.activeElement.ariaValueText"), "step 1: 2.97")
        self.press("\ue014")  # right
        self.assertEqual(self.js("document.activeElement.ariaValueText"), "step 2: 2.941")
        self.press("\ue010")  # End
        self.assertEqual(self.js("document.querySelector('#curves .readout').textContent"), "step 600: 0.4286")
        self.assertNotEqual(self.js("document.querySelector('#curves .old').getAttribute('d')"), "", "steps 201 to 320 were made again")
        self.assertNotEqual(self.js("document.querySelector('#curves path.loss').getAttribute('d')"), "")
        self.js("document.getElementById('times').focus()")
        self.press("\ue011")
        self.assertIn("the ranks were started", self.text("event"))
        self.assertIn("its host has a free place", self.text("decisions"))
        self.assertIn("killed by signal 9", self.text("changes"))

    def test_512_ranks(self):
        for width in WIDTHS:
            self.open(large_job(), width)
            self.assertEqual(self.js("document.querySelectorAll('#overview [role=option]').length"), 512)
            self.assertEqual(self.rows(), [300, 77, 400, *range(SHORT_TABLE - 3)], "what needs a look is first")
            self.js("document.getElementById('more').click()")
            self.wait("document.querySelectorAll('#rows tr').length === 512")
            self.js("[...document.querySelectorAll('#filters button')].find((button) => button.textContent === 'straggler 2').click()")
            self.wait("document.querySelectorAll('#rows tr').length === 2")
            self.assertEqual(self.js("document.querySelectorAll('#filters [aria-pressed=\"true\"]').length"), 1)
            self.js("document.querySelector('#filters button').click()")
            self.js("document.getElementById('find').focus()")
            self.press("node003")
            self.wait("document.querySelectorAll('#rows tr').length === 8")
            self.js("document.getElementById('overview').focus()")
            self.press("\ue011", "\ue014", "\ue014", "\ue007")  # Home, right, right, Enter
            self.wait("document.getElementById('details-title').textContent === 'Rank 2'")

    def test_end(self):
        self.open(job(FOUR))
        self.assertIn("exit code 0: all ranks ended well", self.text("ending"))
        self.assertIn("12 s, 10 % of the time", self.text("cost"))
        self.assertEqual(self.text("ettr"), "74 %")
        self.open(job(FOUR, exit_code=1, end="rank 2 failed: no space left on device"))
        self.assertEqual(self.text("state"), "failed")
        self.assertIn("exit code 1: rank 2 failed: no space left on device", self.text("ending"))
        self.assertIn("no space left", self.text("stops"))
        self.assertEqual(self.js("window.connections"), 0)
        self.assertTrue(self.js("document.getElementById('connection').hidden"))

    def test_little_is_known(self):
        self.open({"type": "job", "protocol": 1, "job": {"name": "short", "state": "ended", "exit_code": None, "end": None}, "ranks": []})
        self.assertIn("–", self.text("ending"))
        self.assertEqual(self.text("step"), "–")
        self.assertFalse(self.js("document.getElementById('no-curves').hidden"))
        odd = job(FOUR)
        odd["curves"] = {"loss": [[1, None], [2, 1e300], [3, -1e300]], "one": [[5, 0]], "none": []}
        self.open(odd)
        self.assertNotIn("NaN", self.js("document.getElementById('curves').innerHTML"))

    def test_limits(self):
        data = job(FOUR)
        data["curves"] = {"loss": [[step, 1 / step] for step in range(1, 9001)]}
        data["events"] = [{"id": i, "at": i, "kind": "save", "rank": None, "text": f"checkpoint of step {i}"} for i in range(1500)]
        data["lines"]["0"] = [f"line {i}" for i in range(80)]
        self.open(data)
        points = self.js("document.querySelector('#curves .value').getAttribute('d').split(/[ML]/).length - 1")
        self.assertLessEqual(points, 2000)
        self.assertGreaterEqual(points, 1000)
        self.assertIn("step 9,000", self.js("document.querySelector('#curves .readout').textContent"))
        self.assertEqual(self.text("all-title"), "All events (1,000)")
        self.js("document.querySelector('#rows tr').click()")
        self.wait("!document.getElementById('details').hidden")
        self.assertEqual(self.text("lines").split("\n"), [f"line {i}" for i in range(30, 80)])

    def test_reduced_motion(self):
        for reduced in (False, True):
            self.open(job(FOUR), reduced_motion=reduced)
            self.assertEqual(self.js("getComputedStyle(document.getElementById('bar-done')).transitionDuration") == "0s", reduced)


if __name__ == "__main__":
    reason = browser.missing()
    if reason is not None:
        print(f"skipped: the page needs a browser: {reason}")
        sys.exit(SKIPPED)
    unittest.main()
