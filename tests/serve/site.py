"""tests/serve/site.py CHROMIUM SITE FOLDER -- opens every page of the documentation site as a file
in headless Chromium, at the widths of a desktop and of a phone, light and dark: no error, nothing
loaded from elsewhere, no page wider than the phone; then searches. Writes screenshots to FOLDER."""
import pathlib
import sys
import tempfile
from urllib.parse import urlencode

from browser import Browser, check

SHOTS = ("index", "docs/troubleshooting", "docs/gpus", "docs/weft.1", "docs/reference/layers")


def opened(b, site, page):
    b.call("Page.navigate", url=(site / page).as_uri())
    b.wait("document.readyState === 'complete' && location.pathname.endsWith('%s')" % page)
    elsewhere = b.run("performance.getEntriesByType('resource').map(e => e.name)"
                      ".filter(n => !/^(file|data):/.test(n)).join()")
    check(not elsewhere, "%s: loads %s" % (page, elsewhere))
    check(not b.problems, "%s: %s" % (page, b.problems))


def look(b, site, folder):
    pages = sorted(str(p.relative_to(site)) for p in site.rglob("*.html"))
    for name, width, height, dark in (("desktop", 1280, 900, False), ("phone", 390, 844, True)):
        b.size(width, height, dark)
        for page in pages:
            opened(b, site, page)
            wide = b.run("document.documentElement.scrollWidth")
            check(wide <= width, "%s is %s pixels wide on a %s" % (page, wide, name))
            light = b.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            check(light != dark, "%s: colors on a %s" % (page, name))
            if page[:-5] in SHOTS:
                b.shot(folder, "%s-%s" % (name, page[:-5].replace("/", "-")))
        for words, page in (("quantize", "docs/qlora.html"), ("--quantize", "docs/qlora.html"),
                            ("weft_matmul", "docs/reference/products.html"),
                            ("memory limit reached", "docs/troubleshooting.html")):
            opened(b, site, "index.html")
            action = b.run("document.querySelector('form[action$=\"search.html\"]').action")
            b.call("Page.navigate", url=action + "?" + urlencode({"q": words}))
            b.wait("location.pathname.endsWith('search.html') && "
                   "document.querySelectorAll('ul.search li').length > 0 && "
                   "document.querySelector('.search-summary').textContent.includes('found')")
            check(b.run("[...document.querySelectorAll('ul.search a')]"
                        ".some(a => a.href.includes('%s'))" % page), words + ": " + page)
            check(not b.problems, "search: %s" % b.problems)
        b.shot(folder, name + "-search")
    return len(pages)


def main():
    program, site, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        b = Browser(program, profile)
        try:
            n = look(b, pathlib.Path(site).resolve(), folder)
        finally:
            b.process.terminate()
            b.process.wait()
    print("site: %d pages looked at" % n)


if __name__ == "__main__":
    main()
