"""The page of `sluice console` in a real browser, against real servers.

Usage: console_page_test.py SLUICE SLUICED CHROMIUM

If there is no Chromium, exits with 77. If the environment has SLUICE_PICTURES=DIRECTORY, also
writes the pictures for the documents to DIRECTORY.
"""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
import running  # noqa: E402
from watched import Watched, environment  # noqa: E402

SLUICE, SLUICED, CHROMIUM = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
LONG = 60
HTML = "<img src=x onerror=alert(1)><b>bold"


class Browser:
    def __init__(self):
        driver = pathlib.Path(__file__).with_name("driver.js")
        self.process = subprocess.Popen(["node", driver, CHROMIUM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        unittest.addModuleCleanup(self.process.wait)
        unittest.addModuleCleanup(self.process.stdout.close)
        unittest.addModuleCleanup(self.process.stdin.close)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the browser has not started; its output is above")

    def tell(self, **command):
        print(json.dumps(command), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["value"]

    def open(self, url, **options):
        return self.tell(open=url, **options)

    def run(self, code):
        return self.tell(run=code)

    def on_page(self, expression):
        """Evaluates a JavaScript expression in the page. Returns its value."""
        return self.run(f"return await page.evaluate(() => ({expression}));")

    def text(self, selector):
        return self.run(f"return await page.locator({json.dumps(selector)}).innerText();")

    def click(self, selector):
        self.run(f"await page.locator({json.dumps(selector)}).click();")

    def press(self, keys):
        self.run(f"await page.keyboard.press({json.dumps(keys)});")

    def wait_for(self, expression):
        running.wait_until(lambda: self.on_page(expression), LONG, expression)


class PageTest(unittest.TestCase):
    """Two servers that share one Redis, and a console that watches both servers."""

    @classmethod
    def setUpClass(cls):
        folder = running.directory()
        _, redis = running.start_redis(folder)
        cls.servers = [Watched(SLUICE, SLUICED, "--redis", redis) for _ in range(2)]
        addresses = [word for it in cls.servers for word in ("--addr", it.address)]
        _, line = running.start([SLUICE, "console", *addresses], "#token=", env=environment())
        cls.url = line.strip()
        cls.site = cls.url.split("#", maxsplit=1)[0]
        cls.browser = Browser()

    def setUp(self):
        self.browser.open(self.url)
        self.browser.wait_for("document.querySelector('#status').textContent == 'live'")
        self.browser.wait_for("document.querySelectorAll('#rule-rows tr').length >= 2")
        self.quiet = True

    def tearDown(self):
        events = self.browser.tell(events=True)
        foreign = [url for url in events["requests"] if not url.startswith(self.site)]
        self.assertEqual(foreign, [])
        if self.quiet:
            self.assertEqual(events["errors"], [])

    def explain(self, domain, *attributes):
        for field, value in (("domain", domain), ("attributes", "\n".join(attributes))):
            self.browser.run(f"await page.locator('[name={field}]').fill({json.dumps(value)});")
        self.browser.on_page("void document.querySelector('#answer-text').replaceChildren()")
        self.browser.click("#request button[type=submit]")
        self.browser.wait_for("document.querySelector('#answer-text').textContent"
                              " || document.querySelector('#request-error').textContent")
        return self.browser.on_page("document.querySelector('#answer-text').textContent")

    def left(self, user):
        """The units that are left of the user's limit, according to `sluice explain`."""
        text = self.servers[0].sluice("explain", "shop", "endpoint=/pay", f"user={user}").stdout
        return int(re.search(r"(\d+) of 10 left", text).group(1))

    def key_row(self, user):
        row = f"[...document.querySelectorAll('#key-rows tr')].find(it => it.cells[0].textContent == 'user={user}')"
        self.browser.wait_for(f"!!{row}")
        return f"#key-rows tr:has(td:text-is('user={user}'))"

    def test_charts_follow_the_load(self):
        def line(chart, label):
            return (f"(Chart.getChart('{chart}').data.datasets.find(it => it.label == '{label}')"
                    "?.data ?? []).map(it => it.y)")
        self.assertEqual(self.browser.on_page(line("allowed-chart", "shop/orders")), [])
        before = self.browser.on_page("document.querySelector('#allowed-chart').toDataURL()")
        self.servers[0].check(50, "endpoint=/orders")
        self.servers[1].check(30, "endpoint=/pay", "user=charts")
        self.browser.wait_for(f"{line('allowed-chart', 'shop/orders')}.some(it => it > 0)")
        self.browser.wait_for(f"{line('denied-chart', 'shop/per-user')}.some(it => it > 0)")
        self.browser.wait_for(f"{line('latency-chart', 'checks p99')}.some(it => it > 0)")
        self.browser.wait_for(f"{line('redis-chart', 'connections ready')}.at(-1) >= 2")
        self.browser.wait_for(f"{line('allowed-chart', 'shop/orders')}.at(-1) == 0")  # no more load
        self.assertNotEqual(self.browser.on_page("document.querySelector('#allowed-chart').toDataURL()"),
                            before)

    def test_rules_are_shown_with_source_line_and_text(self):
        rows = self.browser.on_page("[...document.querySelectorAll('#rule-rows tr')].map(it => it.cells[1].textContent)")
        self.assertRegex(rows[0], r"shop\.yaml:3$")
        self.browser.click("#rule-rows summary >> nth=0")
        self.assertIn("per: [user]", self.browser.text("#rule-rows pre >> nth=0"))

    def test_playground_agrees_with_explain_and_consumes_nothing(self):
        self.servers[0].check(4, "endpoint=/pay", "user=eve")
        for attributes in (["endpoint=/pay", "user=eve"], ["endpoint=/orders"], ["endpoint=/none"],
                           ["endpoint=/pay"]):
            shown = self.explain("shop", *attributes)
            command = self.servers[0].sluice("explain", "shop", *attributes).stdout
            steady = [re.sub(r"resets in .*", "", it) for it in (shown, command)]
            self.assertEqual(*steady)
        self.explain("shop", "endpoint=/pay", "user=eve")
        self.assertIn("6 of 10 left", self.browser.text("#matches"))
        self.assertEqual(self.left("eve"), 6)
        self.assertEqual(self.browser.text("#command"), "sluice explain shop endpoint=/pay user=eve "
                         f"--addr {self.servers[0].address}")

    def test_invalid_attribute_is_reported(self):
        self.explain("shop", "endpoint")
        self.assertEqual(self.browser.text("#request-error"),
                         'attributes: "endpoint" is not NAME=VALUE')

    def test_reset_asks_for_confirmation_first(self):
        self.servers[0].check(15, "endpoint=/pay", "user=dora")
        row = self.key_row("dora")
        opened = "document.querySelector('#ask-reset').open"
        for end in ("button[value=cancel]", "Escape"):
            self.browser.click(f"{row} >> text=Reset…")
            self.browser.wait_for(opened)
            self.assertIn("sluice:{shop/per-user/user=dora}", self.browser.text("#reset-keys"))
            self.browser.press(end) if end == "Escape" else self.browser.click(end)
            self.browser.wait_for(f"!{opened}")
            self.assertEqual(self.left("dora"), 0)
        self.browser.click(f"{row} >> text=Reset…")
        self.browser.wait_for(opened)
        self.assertEqual(self.left("dora"), 0)
        self.browser.click("#reset-now")
        self.browser.wait_for("document.querySelector('#verdict').textContent.includes('10 of 10 left')")
        self.assertEqual(self.left("dora"), 10)

    def test_denied_key_leads_to_its_explanation(self):
        self.servers[1].check(15, "endpoint=/pay", "user=carl")
        self.browser.click(f"{self.key_row('carl')} >> text=Explain")
        self.browser.wait_for("document.querySelector('#verdict').textContent.startsWith('DENIED')")
        self.assertIn("user=carl", self.browser.text("#command"))
        self.assertIn("endpoint=/pay", self.browser.text("#command"))  # the rule requires it

    def test_dead_server_is_shown_as_down_until_it_restarts(self):
        states = "[...document.querySelectorAll('#server-rows tr')].map(it => it.cells[1].textContent)"
        self.browser.wait_for(f"{states}.join() == 'up,up'")
        self.servers[1].kill()
        self.browser.wait_for(f"{states}[1].startsWith('down: ') && {states}[0] == 'up'")
        self.browser.wait_for("document.querySelector('#status').textContent == '1 of 2 servers down'")
        self.servers[1].start()
        self.browser.wait_for(f"{states}.join() == 'up,up'")
        self.browser.wait_for("document.querySelector('#status').textContent == 'live'")

    def test_html_in_keys_and_answers_stays_text(self):
        self.servers[0].check(15, "endpoint=/pay", f"user={HTML}")
        self.browser.wait_for("document.querySelector('#key-rows').textContent.includes('onerror=alert(1)><b>bold')")
        self.explain(HTML, "endpoint=/pay", f"user={HTML}")
        self.assertIn(HTML, self.browser.text("#answer-text"))
        self.explain("shop", "endpoint=/pay", f"user={HTML}")
        self.assertIn("<b>bold", self.browser.text("#command"))
        self.assertEqual(self.browser.on_page("document.querySelectorAll('img, b').length"), 0)

    def test_content_security_policy_stops_injected_scripts_and_styles(self):
        self.quiet = False
        self.browser.on_page("""(() => {
            const script = document.createElement('script');
            script.textContent = 'window.injected = true';
            document.body.append(script);
            const handler = document.createElement('p');
            handler.setAttribute('style', 'position: fixed');
            document.body.append(handler);
            document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.injected = true">');
        })()""")
        self.browser.wait_for("true")
        running.wait_until(lambda: {"script-src-elem", "script-src-attr", "style-src-attr"} <= {
            it.split()[1] for it in self.browser.tell(events=True)["errors"]
            if it.startswith("policy: ")}, LONG, "the violations")
        self.assertFalse(self.browser.on_page("!!window.injected"))

    def test_token_is_removed_from_the_address_and_kept_after_a_reload(self):
        self.assertEqual(self.browser.on_page("location.href"), self.site)
        self.browser.run("await page.reload();")
        self.browser.wait_for("document.querySelector('#status').textContent == 'live'")

    def test_without_a_valid_token_the_page_says_how_to_get_one(self):
        for url in (self.site, self.site + "#token=guess"):
            self.browser.open(url)
            self.browser.wait_for("document.querySelector('#status').textContent.includes("
                                  "'open the URL that sluice console has printed')")
            self.assertEqual(self.browser.on_page("document.querySelectorAll('#server-rows tr').length"), 0)
        self.quiet = False  # the browser reports each 401

    def test_other_sites_cannot_use_the_api(self):
        """The console refuses requests for another host name of this machine. A page of another
        origin cannot use the API, even if the page has the token."""
        token = self.url.split("token=")[1]
        port = re.search(r":(\d+)/", self.site).group(1)
        self.assertEqual(self.browser.open(f"http://evil.test:{port}/"), 403)
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietSite)
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.servers[0].check(10, "endpoint=/pay", "user=fred")
        self.browser.open(f"http://evil.test:{site.server_port}/")
        for mode in ("cors", "no-cors"):
            outcome = self.browser.run(f"""return await page.evaluate(async () => {{
                const headers = '{mode}' == 'cors' ? {{Authorization: 'Bearer {token}'}} : {{}};
                const body = JSON.stringify({{domain: 'shop', attributes: {{endpoint: '/pay', user: 'fred'}}}});
                try {{
                  const answer = await fetch('{self.site}api/reset?server=0',
                                             {{method: 'POST', mode: '{mode}', headers, body}});
                  return answer.type;
                }} catch (error) {{ return 'refused'; }}
            }});""")
            self.assertEqual(outcome, "refused" if mode == "cors" else "opaque")
        self.assertEqual(self.left("fred"), 0)
        self.browser.open(self.url)

    def test_keyboard_shortcuts_and_tab_work(self):
        self.servers[0].check(12, "endpoint=/pay", "user=gina")
        self.key_row("gina")
        self.browser.press("/")
        self.browser.run("await page.keyboard.type('gina');")
        self.browser.wait_for("document.querySelectorAll('#rule-rows tr').length == 0")
        self.assertIn("user=gina", self.browser.text("#key-rows"))
        # From the filter, Tab moves the focus to the Explain button. Enter presses the button.
        self.browser.run("""for (let i = 0; i < 20; ++i) {
            await page.keyboard.press('Tab');
            if (await page.evaluate(() => document.activeElement.textContent == 'Explain')) break;
        }""")
        self.browser.press("Enter")
        self.browser.wait_for("document.querySelector('#verdict').textContent.startsWith('DENIED')")
        self.browser.on_page("document.activeElement.blur()")
        self.browser.press("k")
        self.assertEqual(self.browser.on_page("document.querySelector('input[name=keys]:checked').value"),
                         "most_used")
        self.browser.press("p")
        self.assertEqual(self.browser.text("#status"), "paused")
        self.browser.press("e")
        self.assertEqual(self.browser.on_page("document.activeElement.name"), "domain")

    def test_focus_stays_while_rows_change(self):
        self.servers[0].check(15, "endpoint=/pay", "user=hugo")
        row = self.key_row("hugo")
        self.browser.run(f"await page.locator({json.dumps(row + ' >> text=Explain')}).focus();")
        for _ in range(2):
            self.servers[0].check(200, "endpoint=/pay", "user=zoe")
            self.browser.wait_for("document.querySelector('#key-rows td').textContent == 'user=zoe'")
        self.assertEqual(self.browser.on_page("document.activeElement.closest('tr').cells[0].textContent"),
                         "user=hugo")

    def test_page_is_readable_on_a_narrow_screen_in_both_color_schemes(self):
        for scheme in ("light", "dark"):
            self.browser.open(self.url, scheme=scheme)
            self.browser.wait_for("document.querySelectorAll('#rule-rows tr').length >= 2")
            self.explain("shop", "endpoint=/pay", "user=ida")
            self.browser.run("await page.setViewportSize({width: 360, height: 740});")
            self.browser.wait_for("document.documentElement.scrollWidth <= 360")
            colors = self.browser.on_page("""['body', '#status', '.good', 'a', 'figcaption', 'button'].map(it => [
                getComputedStyle(document.querySelector(it)).color,
                getComputedStyle(document.body).backgroundColor])""")
            for pair in colors:
                self.assertGreaterEqual(contrast(*pair), 4.5, (scheme, colors))
            self.assertEqual(luminance(colors[0][1]) > 0.5, scheme == "light")


@unittest.skipUnless(os.environ.get("SLUICE_PICTURES"), "SLUICE_PICTURES is not set")
class PicturesTest(unittest.TestCase):
    def test_pictures_for_the_documents_are_made(self):
        folder = pathlib.Path(os.environ["SLUICE_PICTURES"])
        home = running.directory()
        os.environ["XDG_RUNTIME_DIR"] = str(home)  # the servers' admin sockets
        _, redis = running.start_redis(home)
        rules = (pathlib.Path(__file__).parents[2] / "config/rules/shop.yaml").read_text("utf-8")
        addresses = [f"127.0.0.1:{running.free_port()}" for _ in range(2)]
        for address in addresses:
            Watched(SLUICE, SLUICED, "--redis", redis, address=address, rules=rules)
        flags = [word for it in addresses for word in ("--addr", it)]
        _, line = running.start([SLUICE, "console", *flags], "#token=", env=environment())
        loads = [("endpoint=/boot/pay", "--keys", "200", "--distribution", "zipf", "--rate", "800"),
                 ("endpoint=/orders", "method=POST", "--rate", "300"),
                 ("endpoint=/login", "method=POST", "--key", "client_ip", "--rate", "90")]
        for load in loads:
            process = subprocess.Popen(
                [SLUICE, "bench", "shop", *load, "--addr", addresses[0], "--duration", "200s"],
                env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)
        browser = Browser()
        browser.open(line.strip())
        browser.run("await page.setViewportSize({width: 1000, height: 660});")
        running.wait_until(lambda: browser.on_page("session.history.length > 70"), 150,
                           "a minute of load")
        browser.run(f"await page.screenshot({{path: '{folder}/console.png'}});")
        browser.click("#key-rows button >> nth=0")
        browser.wait_for("!document.querySelector('#answer').hidden")
        browser.run("await page.locator('#playground').screenshot("
                    f"{{path: '{folder}/console-playground.png'}});")
        for picture in folder.glob("console*.png"):
            self.assertLess(picture.stat().st_size, 100_000, picture)


class QuietSite(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<link rel=icon href=data:,>")

    def log_message(self, *_):
        pass


def luminance(color):
    """The relative luminance (WCAG 2) of a color such as "rgb(1, 2, 3)"."""
    channels = [int(it) / 255 for it in re.findall(r"\d+", color)[:3]]
    linear = [it / 12.92 if it <= 0.03928 else ((it + 0.055) / 1.055) ** 2.4 for it in channels]
    return sum(share * it for share, it in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print(f"SKIPPED: there is no {CHROMIUM}; scripts/setup.sh installs it")
        sys.exit(77)
    unittest.main()
