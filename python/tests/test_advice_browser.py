"""The page on an advice as a browser shows it: a run held against its profile, all drawn."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from intarsia.advice import __main__ as command
from intarsia.refine import __main__ as refining
from PIL import Image
from requirements import built_binary, require
from test_advice import profile, workload

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Written by the page itself when all is loaded, so that the test sees what a reader sees.
PROBE = """
<script>
addEventListener("load", () => {
  const pictures = [...document.images].map(one => [one.naturalWidth, one.alt]);
  const wide = document.documentElement.scrollWidth - innerWidth;
  document.body.dataset.seen = JSON.stringify({pictures, wide, height: document.body.scrollHeight});
});
</script>
"""
STAGES = {"search": (1.4, 2.1, 4), "merge": (0.6, 0.5, 1)}


def comparison() -> dict[str, Any]:
    """What `intarsia run --advice` left: the search took half as long again."""

    def pair(name: str, predicted_s: float, actual_s: float, tasks: int = 0) -> dict[str, Any]:
        return {
            "name": name,
            "predicted_s": predicted_s,
            "actual_s": actual_s,
            "tasks": [tasks, tasks],
        }

    return {
        "format": "intarsia-comparison",
        "version": 1,
        "id": "r1",
        "ended_at": "2026-02-03T04:05:06+00:00",
        "host": "node01",
        "hosts": 4,
        "tasks": 5,
        "moved_bytes": 900_000_000,
        "placement": "local",
        "profile": {"name": "four", "factors": {}},
        "comparison": {
            "makespan": pair("makespan", 2.0, 2.6),
            "stages": [pair(name, *both) for name, both in STAGES.items()],
            "work": {"compute": pair("compute", 4.5, 6.0), "io": pair("io", 1.5, 2.0)},
            "unmatched": [],
        },
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on an advice whose profile was refined by a run."""
    built_binary()
    place = tmp_path_factory.mktemp("page")
    names = {"w": workload(), "p": profile(), "predicted": comparison()}
    for name, content in names.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    words = [str(place / "p.json"), str(place / "predicted.json"), "--out", str(place / "r.json")]
    assert refining.main(words) == 0
    asked = [str(place / "w.json"), "--profile", str(place / "r.json"), "--hosts", "2,4"]
    assert command.main([*asked, "--chunk", "1MiB", "--report", str(place / "out")]) == 0
    return place / "out/report.html"


def browsed(page: Path, *words: str) -> str:
    """What a headless browser answers."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    require(browser, "no browser is found (Debian package: chromium)")
    assert browser is not None
    profile_dir = page.parent / "browser"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += [f"--user-data-dir={profile_dir}", "--disable-dev-shm-usage", *words]
    done = subprocess.run(
        [browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_holds_the_run_against_the_profile(page: Path) -> None:
    text = page.read_text()
    assert "How far runs were from what was foretold" in text
    assert "but for what runs took, is simulated" in text
    rows = (page.parent / "tables/predicted-actual.csv").read_text().splitlines()
    assert rows[0] == "run,stage,tasks,predicted (s),actual (s),error (%)"
    found = {row.split(",")[1]: row.split(",")[3:] for row in rows[1:]}
    for stage, (predicted_s, actual_s, _) in STAGES.items():
        assert [float(one) for one in found[stage]] == pytest.approx(
            [predicted_s, actual_s, 100 * abs(1 - predicted_s / actual_s)]
        )


def test_a_browser_draws_every_picture_and_needs_no_scrolling_aside(page: Path) -> None:
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("</body>", f"{PROBE}</body>"))
    document = browsed(probed, "--window-size=1280,1000", "--dump-dom")
    told = re.search(r'data-seen="([^"]*)"', document)
    assert told is not None, "the page was never loaded"
    seen = json.loads(told[1].replace("&quot;", '"'))
    assert len(seen["pictures"]) == 5
    assert all(width > 100 for width, _ in seen["pictures"]), seen
    assert any("Predicted and actual, by stage" in alt for _, alt in seen["pictures"])
    assert seen["wide"] <= 0


def test_what_is_seen_is_no_empty_page(page: Path) -> None:
    shot = page.with_name("page.png")
    browsed(page, "--window-size=1100,5200", f"--screenshot={shot}")
    with Image.open(shot) as picture:
        colours = picture.convert("RGB").getcolors(maxcolors=1 << 24)
    assert colours is not None
    by_colour = {colour: count for count, colour in colours}
    white = by_colour[255, 255, 255]
    assert 0.3 < white / sum(by_colour.values()) < 0.99
    # Bars of what was foretold and of what it took, in their colours.
    for bar in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00)):
        assert by_colour.get(bar, 0) > 2_000, bar
