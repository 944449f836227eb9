"""Accessibility: names of controls, contrast, keyboard operation, and information beside colour."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.boxes import boxes_of
from tests.integration.console.sample_groups import SampleGroups
from tests.support.http_client import Group
from tests.support.nodes import Node
from tests.support.report_rows import FREQUENCY, insert_reports, report

NAMELESS = """() => [...document.querySelectorAll('button, a, input, select, [role=img], dialog')]
    .filter((each) => !(each.textContent.trim() || each.ariaLabel || each.labels?.length || each.title))
    .map((each) => each.outerHTML)"""

FAINT = """() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = rgba(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const isOff = element.closest('button:disabled, noscript, template, svg, script') || !element.checkVisibility();
        if (isOff || !walker.currentNode.data.trim()) continue;
        const [one, other] = [light(rgba(getComputedStyle(element).color)), light(ground(element))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 120)}`);
    }
    return found;
}"""
"""Texts whose contrast is below what WCAG 2.2 asks for (1.4.3)."""

SMALL = """() => {
    const middle = ({ left, right, top, bottom }) => ({ x: (left + right) / 2, y: (top + bottom) / 2 });
    const target = (control) => (control.type === 'checkbox' ? control.labels[0] : control);
    const shown = [...document.querySelectorAll('main :is(button, input, select, a), .bar :is(button, a)')]
        .filter((each) => each.checkVisibility() && !each.closest('.dense tbody'));
    const boxes = shown.map((each) => target(each).getBoundingClientRect());
    const outside = (at, low, high) => Math.max(low - at, 0, at - high);
    const near = ({ x, y }, box) => Math.hypot(outside(x, box.left, box.right), outside(y, box.top, box.bottom)) < 12;
    const isSmall = (box) => Math.round(box.width) < 24 || Math.round(box.height) < 24;
    return shown.filter((each, index) => isSmall(boxes[index])
        && (each.tagName !== 'A' || boxes.some((box, other) => other !== index && near(middle(boxes[index]), box))))
        .map((each) => each.outerHTML.slice(0, 120));
}"""
"""Targets of less than 24 by 24 pixels; a link may be lower if no target is within its circle (WCAG 2.2, 2.5.8)."""

OVERFULL = """() => [...document.querySelectorAll('main section')]
    .filter((each) => each.scrollHeight > each.clientHeight + 1).map((each) => each.id)"""
"""Sections whose content covers the section below."""


FOLLOW = """(hash) => new Promise((done) => {
    addEventListener('hashchange', () => done(), { once: true });
    location.hash = hash;
})"""
"""Follows a link, and returns once the page is shown."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def healthy(samples: SampleGroups) -> Group:
    return samples.healthy()


@pytest.fixture(scope="module")
def places(samples: SampleGroups, healthy: Group) -> list[str]:
    """Give every screen of the console."""
    stuck = samples.stuck()
    run_id = samples.proposal(samples.client.group("idle"))
    values = {"values": {"session_timeout_ms": 20_000}, "reason": "a change to look at"}
    samples.client.ok("PUT", f"{healthy.path}/config", values)
    groups = [f"groups/{each.group_id}" for each in (healthy, stuck, samples.flapping())]
    insert_reports(samples.rows, "rebalances", [report(healthy.group_id, of=FREQUENCY)])
    return [
        "",
        *groups,
        "topics",
        "topics/orders",
        "overview",
        "reports",
        "maintenance",
        f"maintenance/{run_id}",
        "changes",
        "settings",
    ]


def screens(page: Page, node: Node, places: list[str]) -> Iterator[str]:
    """Show every screen, as links do; give the place of each once it is routed."""
    page.goto(f"{node.url}/")
    for place in places:
        page.evaluate(FOLLOW, f"#/{place}")
        yield place


def loaded_screens(page: Page, node: Node, places: list[str]) -> Iterator[str]:
    """Show every screen; give the place of each once all of it is loaded."""
    for place in screens(page, node, places):
        expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
        expect(page.locator("main")).not_to_contain_text("Loading…")
        yield place


def test_texts_have_contrast_and_controls_have_names(page: Page, node: Node, places: list[str]) -> None:
    for place in loaded_screens(page, node, places):
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(FAINT) == [], f"{place}, {scheme}"
            assert page.evaluate(NAMELESS) == [], place
            assert page.evaluate(SMALL) == [], place
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
            assert page.evaluate(OVERFULL) == [], place


def test_every_screen_has_a_title_of_its_own_and_lists_its_keys(page: Page, node: Node, places: list[str]) -> None:
    """The title is what tabs, bookmarks, the history and screen readers name a page by (WCAG 2.4.2)."""
    titles = []
    for _ in screens(page, node, places):
        expect(page.locator("main h1")).to_have_count(1)
        titles.append(page.title())
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("keyboard shortcuts")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(set(titles)) == len(places)
    assert {"Groups – Muster", f"{places[1].removeprefix('groups/')} – Muster", "orders – Muster"} <= set(titles)


def test_rebalancing_states_have_stripes(page: Page, node: Node, healthy: Group) -> None:
    page.goto(f"{node.url}/#/groups/{healthy.group_id}")
    stripe = page.locator("#preparing .stripe")
    expect(stripe).to_be_attached()
    assert stripe.evaluate("(line) => getComputedStyle(line).stroke") != "none"


def test_a_group_that_needs_attention_keeps_its_whole_name(page: Page, node: Node, samples: SampleGroups) -> None:
    name = samples.flapping().group_id
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{node.url}/#/overview")
    link = page.locator(".card", has_text="Need attention").get_by_role("link", name=name)
    assert link.evaluate("link => link.scrollWidth <= link.clientWidth"), "the name is cut"


def test_the_bar_fits_a_narrow_window(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/settings")
    expect(page.locator("#poll-status")).to_have_attribute("data-state", "live")
    for width in (390, 700):
        page.set_viewport_size({"width": width, "height": 800})
        controls = boxes_of(page.locator(".bar a, .bar button"))
        assert controls
        assert all(control.left >= 0 and control.right <= width for control in controls), (width, controls)


def test_no_screen_is_wider_than_a_narrow_window(page: Page, node: Node, places: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for place in loaded_screens(page, node, places):
        assert page.evaluate("document.documentElement.scrollWidth") == 390, place


def test_dialog_traps_the_focus_and_restores_it(page: Page, node: Node, healthy: Group) -> None:
    page.goto(f"{node.url}/#/groups/{healthy.group_id}")
    opener = page.get_by_role("button", name="Change group_max_size")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("New value")).to_be_focused()
    assert page.evaluate(FAINT) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_focus_is_kept_while_the_page_refreshes(page: Page, node: Node, samples: SampleGroups, healthy: Group) -> None:
    page.goto(f"{node.url}/#/groups/{healthy.group_id}")
    button = page.get_by_role("button", name="Change offsets_retention_minutes")
    button.focus()
    values = {"values": {"offsets_retention_minutes": 77}, "reason": "beside the page"}
    samples.client.ok("PUT", f"{healthy.path}/config", values)
    expect(page.get_by_role("region", name="Settings 8")).to_contain_text("77 min")
    expect(button).to_be_focused()


def test_keys_without_a_modifier_can_be_switched_off(page: Page, node: Node, healthy: Group) -> None:
    """WCAG 2.2, 2.1.4: speech input and a slip of the hand press them."""
    page.goto(f"{node.url}/#/topics")
    page.locator("#help").click()
    page.get_by_label("Keys without a modifier").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    for key in ("g", "o", "?"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(f"{node.url}/#/topics")

    page.locator("#help").click()
    page.get_by_label("Keys without a modifier").check()
    page.keyboard.press("Escape")
    page.keyboard.type("go")
    expect(page).to_have_url(f"{node.url}/#/overview")


ANNOUNCED = """() => {
    window.announced = [];
    new MutationObserver((changes) => changes.forEach(({ target }) => {
        const element = target.closest?.('[aria-live], [role=status], [role=alert]');
        if (element && element.ariaLive !== 'off') window.announced.push(element.textContent);
    })).observe(document.querySelector('main'), { childList: true, characterData: true, subtree: true });
}"""
"""Records what screen readers announce of the page, from now on."""


def test_rebalance_in_progress_is_announced_once(page: Page, node: Node, places: list[str]) -> None:
    (place,) = (place for place in places if "stuck" in place)
    page.goto(f"{node.url}/#/{place}")
    notice = page.get_by_role("status").filter(has_text="Waiting for 1 member")
    expect(notice).to_contain_text("from now")
    page.evaluate(ANNOUNCED)
    for _ in range(6):  # more than ten seconds, after which what shows durations is redrawn
        before = notice.inner_text()
        expect(notice).not_to_have_text(before, use_inner_text=True)
    assert page.evaluate("window.announced") == []


def test_digit_key_focuses_a_section(page: Page, node: Node, healthy: Group) -> None:
    page.goto(f"{node.url}/#/groups/{healthy.group_id}")
    expect(page.locator("main")).not_to_contain_text("Loading…")
    page.keyboard.press("8")
    expect(page.get_by_role("heading", name="Settings")).to_be_focused()
    expect(page.get_by_role("heading", name="Settings")).to_be_in_viewport()
    page.keyboard.press("u")
    expect(page).to_have_url(f"{node.url}/#/")


def test_color_scheme_follows_the_system_until_chosen(page: Page, node: Node) -> None:
    ground: Callable[[], str] = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731 - a word for a question
    page.emulate_media(color_scheme="dark")
    page.goto(f"{node.url}/")
    dark = ground()
    page.emulate_media(color_scheme="light")
    light = ground()
    assert dark != light

    page.keyboard.press("t")
    assert ground() == dark
    page.reload()
    assert ground() == dark
    expect(page.locator("#theme")).to_have_text("Light")


def test_state_is_shown_by_sign_and_word_beside_its_color(page: Page, node: Node, places: list[str]) -> None:
    page.goto(f"{node.url}/")
    for sign in ("◐ Preparing", "● Stable", "○ Empty"):
        expect(page.locator("tbody .badge", has_text=sign).first).to_be_visible()
