"""A headless Chromium for tests of the dashboard: how it is found and opened, its screens, and what its console says."""

import contextlib
import json
import os
import shutil
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None


def missing():
    """Why no browser can be opened, as text; None if one can."""
    if webdriver is None:
        return "this Python has no selenium (Debian's python3-selenium)"
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"there is no {program} (Debian's {package})"
    return None


@contextlib.contextmanager
def open_browser():
    """A driver of a Chromium with a profile of its own; both are gone at the end. It keeps the messages of the console."""
    with tempfile.TemporaryDirectory(prefix="lockstep-browser-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", f"--user-data-dir={profile}", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
                         "--disable-background-networking", "--disable-component-update", "--no-first-run", "--hide-scrollbars"):
            options.add_argument(argument)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # Chromium has none for root
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        try:
            yield driver
        finally:
            driver.quit()


def set_screen(driver, width, height=900, dark=False, reduced_motion=False):
    """The size of the page in CSS pixels, and what its style sheet reads of the user's choices."""
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}]})


def problems(driver):
    """Warnings and errors of the console since the last call: exceptions, and what a Content-Security-Policy refused."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def wait_until(driver, script, *arguments, seconds=60):
    """The first true value of an expression in JavaScript. The limit is against hangs only."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, poll_frequency=0.05).until(
        lambda d: d.execute_script(f"return {script};", *arguments), f"never true: {json.dumps(script)}")
