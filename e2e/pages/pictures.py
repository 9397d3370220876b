"""Takes the pictures of docs/images anew: python3 pictures.py REPORT.html FOLDER, with CHROMIUM in the environment."""

import os
import pathlib
import sys

from browser import Browser

report, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
with Browser(os.environ["CHROMIUM"]) as browser:
    for name, width, height, dark in [("report", 1280, 1180, False), ("report-narrow", 390, 780, True)]:
        browser.size(width, height, dark)
        browser.open(report.as_uri())
        browser.wait_for("document.querySelectorAll('.mark').length", "the marks")
        browser.run("document.querySelector('.mark.failed').click()")
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        browser.picture(folder / f"{name}.png")
