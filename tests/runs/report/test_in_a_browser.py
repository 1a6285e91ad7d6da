"""Pages as a browser shows them: on a wide window and on a narrow one, and printed."""

import html
import json
import re
import shutil
import subprocess

import pytest

WIDTHS = (1280, 400)

# What a page is in a frame, whose width is what the page takes for that of the window.
MEASURE = """
const found = {};
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, root = page.documentElement;
  const outside = [...page.querySelectorAll("body *")].filter(
    (e) => e.getClientRects().length && !e.closest(".scroll")
      && e.getBoundingClientRect().right > root.clientWidth + 1);
  found[frame.title] = {
    scroll: root.scrollWidth, client: root.clientWidth,
    outside: outside.map((e) => e.outerHTML.slice(0, 200)),
    images: [...page.images].map((image) => [image.naturalWidth, image.alt.length, image.checkVisibility()]),
    videos: [...page.querySelectorAll("video")].map((video) => [video.videoWidth, video.duration]),
    headings: [...page.querySelectorAll("h1, h2, h3")].map((h) => Number(h.tagName[1])),
    fetched: frame.contentWindow.performance.getEntriesByType("resource").map((e) => e.name.slice(0, 40)),
  };
}
document.title = "measured";
document.querySelector("pre").textContent = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def measured(reports, chromium, tmp_path_factory):
    """What a browser makes of each page at each width."""
    frames = "".join(
        f'<iframe title="{name} {width}" style="width: {width}px; height: 800px; border: 0" '
        f'srcdoc="{html.escape(path.read_text())}"></iframe>'
        for name, path in reports.pages.items()
        for width in WIDTHS
    )
    place = tmp_path_factory.mktemp("browser")
    script = f'addEventListener("load", () => setTimeout(() => {{ {MEASURE} }}, 500))'
    (place / "all.html").write_text(f"<!DOCTYPE html><pre></pre>{frames}<script>{script}</script>", encoding="utf-8")
    options = [f"--user-data-dir={place / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
    shown = subprocess.run([*chromium, *options, str(place / "all.html")], capture_output=True, text=True, timeout=120)
    found = re.search(r"<pre>(.*?)</pre>", shown.stdout, re.DOTALL)
    assert found, shown.stderr
    return json.loads(html.unescape(found[1]))


def test_fits_wide_and_narrow_windows_and_shows_all_images(measured):
    assert set(measured) == {f"{name} {width}" for name in ("lake", "cartpole", "sweep") for width in WIDTHS}
    for title, page in measured.items():
        width = int(title.split()[1])
        assert (page["client"], page["outside"]) == (width, []), title
        assert page["scroll"] == width, title
        assert all(natural > 0 and alt > 20 for natural, alt, _ in page["images"]), title
        assert all(url.startswith("data:") for url in page["fetched"]), title
        # One title, and no level left out on the way down.
        levels = page["headings"]
        assert levels.count(1) == 1
        assert all(below - above <= 1 for above, below in zip([0, *levels], levels, strict=False)), title
    counts = {title.split()[0]: (len(page["images"]), len(page["videos"])) for title, page in measured.items()}
    # Curves and a map; curves, strip and motion; curves. All but the strip are there for narrow pages, too, and films
    # have an image for paper.
    assert counts == {"lake": (5, 1), "cartpole": (6, 1), "sweep": (2, 0)}
    shown = {title: [image[2] for image in page["images"]] for title, page in measured.items()}
    assert shown["lake 1280"] == [True, False, True, False, False]
    assert shown["lake 400"] == [False, True, False, True, False]
    assert shown["cartpole 400"] == [False, True, True, False, True, False]
    for name in ("lake 1280", "cartpole 400"):
        [[width, seconds]] = measured[name]["videos"]
        assert width > 0
        assert seconds == pytest.approx(0.5, abs=0.06)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="reading the PDF takes pdftotext (poppler-utils)")
def test_printed(reports, chromium, tmp_path):
    pages = {}
    for name, file in reports.pages.items():
        if name == "lake":
            continue
        target = tmp_path / f"{name}.pdf"
        options = [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={target}", "--no-pdf-header-footer"]
        subprocess.run([*chromium, *options, str(file)], capture_output=True, check=True, timeout=120)
        pages[name] = subprocess.run(["pdftotext", "-layout", str(target), "-"], capture_output=True, text=True).stdout
    run = pages["cartpole"]
    for heading in ("SafeCartpole-PGP-v0", "What was asked", "How it ended", "What the policy does", "To repeat it"):
        assert heading in run
    assert run.count("\f") >= 2
    # What is folded on the screen is open on paper.
    assert "hidden sizes" in run
    assert "Traceback" in pages["sweep"]
    assert "cmaxent train FrozenLake-PGP-v0 --iterations 20 --seed 3 --beta 0.5" in " ".join(pages["sweep"].split())
