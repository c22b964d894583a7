"""The report's page in a real browser, over the file: hover, click, keys, print; and it asks nobody for anything."""

import shutil
from pathlib import Path

import pytest

from results.curves import Curves
from results.metrics import metric_of
from results.report import Material, write_report
from results.store import Store
from tests.results import conftest as make

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page is not tried")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: the page is not tried")


def outcome(model, x, y, seed):
    if model == "sum" and y == 0.1:
        return ("diverged", None) if seed else ("ok", 0.25)
    return None if (model, x) == ("max", 32) else ("ok", {"nap": 0.9, "sum": 0.6, "max": 0.3}[model] + seed / 100)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """The page of a study with three models; one has diverged runs, one missing ones."""
    folder = tmp_path_factory.mktemp("page")
    points, rows = make.grid(["nap", "sum", "max"], [8, 16, 32], [0.1, 0.01], 2, outcome=outcome)
    store = Store(folder / "store")
    make.append(store, *rows.values())
    metric = metric_of("final_eval_accuracy")
    material = Material("A study", points, rows, "width", "learning_rate", metric, curves=Curves(store.curves(), rows))
    return write_report(folder / "report", material)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, path):
    """The page, opened; at the end it has said nothing on the console and asked for nothing but itself."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def cell(page, panel: int, column: int, row: int) -> tuple[float, float]:
    """The middle of a cell of a 3 × 2 panel; row 0 is the lowest."""
    field = page.locator(".field").nth(panel)
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    return box["x"] + box["width"] * (column + 0.5) / 3, box["y"] + box["height"] * (1 - (row + 0.5) / 2)


def test_hovering_over_a_cell_shows_its_values(page):
    assert page.locator(".field").count() == 3 and page.locator("#tip").is_hidden()
    page.mouse.move(*cell(page, 0, 1, 0))
    assert page.locator("#tip").inner_text() == "nap: width 16, learning rate 0.01\nmean 90.5%, sd 0.7%; 2 ok of 2"
    page.mouse.move(*cell(page, 1, 2, 1))
    assert page.locator("#tip").inner_text() == "sum: width 32, learning rate 0.1\nmean 25.0%; 1 ok, 1 diverged of 2"
    page.mouse.move(*cell(page, 2, 2, 1))
    assert page.locator("#tip").inner_text().endswith("no mean; 2 not run of 2")
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_a_click_opens_the_runs_of_a_cell_with_their_curves(page):
    page.mouse.click(*cell(page, 1, 0, 1))
    runs = page.locator("#runs")
    assert runs.is_visible() and runs.locator("h3").inner_text() == "sum: width 8, learning rate 0.1"
    assert runs.locator("svg path").count() == 2
    rows = [row.inner_text().split("\t") for row in runs.locator("tbody tr").all()]
    assert rows == [["seed 0", "ok", "25.0%"], ["seed 1", "diverged", "–"]]
    page.keyboard.press("Escape")
    assert runs.is_hidden()


def test_a_tap_opens_the_runs_of_a_cell(browser, path):
    page = browser.new_context(has_touch=True, viewport={"width": 500, "height": 900}).new_page()
    page.goto(path.as_uri())
    page.touchscreen.tap(*cell(page, 0, 1, 0))
    assert page.locator("#runs h3").inner_text() == "nap: width 16, learning rate 0.01"
    page.close()


def test_a_heatmap_can_be_read_with_the_keyboard_alone(page):
    page.keyboard.press("Tab")
    for _ in range(10):
        if page.evaluate("document.activeElement.className") == "field":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert page.locator("#spoken").inner_text().startswith("nap, width 16, learning rate 0.1: mean 90.5%")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is nothing farther right
    assert page.locator("#spoken").inner_text().startswith("nap, width 32, learning rate 0.1")
    page.keyboard.press("Enter")
    assert page.locator("#runs h3").inner_text() == "nap: width 32, learning rate 0.1"
    page.keyboard.press("Enter")  # the close button has the focus
    assert page.locator("#runs").is_hidden()
    assert page.evaluate("document.activeElement.className") == "field"


def test_models_can_be_switched_off_and_on_everywhere(page):
    box = page.locator("#models label", has_text="sum").locator("input")
    parts = page.locator('[data-model="1"]')
    assert parts.count() > 5 and page.locator("figure.panel:visible").count() == 3
    box.uncheck()
    assert page.locator("figure.panel:visible").count() == 2
    assert all(not part.is_visible() for part in parts.all())
    box.check()
    assert page.locator("figure.panel:visible").count() == 3


def test_a_click_on_a_columns_head_sorts_a_table(page):
    table = page.locator("table.sortable").first
    models = lambda: [cell.inner_text() for cell in table.locator("tbody th").all()]  # noqa: E731
    assert models() == ["nap", "sum", "max"]
    head = table.locator("thead button").nth(1)
    head.click()
    assert models() == ["nap", "sum", "max"] and table.locator("th[aria-sort=descending]").count() == 1
    head.click()
    assert models() == ["max", "sum", "nap"]
    table.locator("thead button").first.click()
    assert models() == ["sum", "nap", "max"]


def test_without_scripts_the_figures_and_tables_are_there(browser, path):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    assert page.locator("figure.panel img").count() == 3 and page.locator("#models").is_hidden()
    assert page.locator("table tbody tr").count() > 5
    page.close()


def test_it_prints_without_what_only_a_screen_needs(page):
    page.emulate_media(media="print")
    assert page.locator("#models").is_hidden() and page.locator("figure.panel img").first.is_visible()
    assert len(page.pdf()) > 20_000


@pytest.mark.parametrize("width", [390, 1600])
def test_nothing_is_wider_than_the_window(browser, path, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
