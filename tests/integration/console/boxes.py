"""Where elements are on the screen."""

from dataclasses import dataclass

from playwright.sync_api import Locator


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the window, in CSS pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def boxes_of(locator: Locator) -> list[Box]:
    """Return the rectangles of all matching elements, found and measured at once: the page may redraw at any time."""
    measured = locator.evaluate_all("elements => elements.map((each) => each.getBoundingClientRect().toJSON())")
    return [Box(each["left"], each["top"], each["width"], each["height"]) for each in measured]


def box_of(locator: Locator) -> Box:
    """Return the rectangle of the one matching element."""
    (box,) = boxes_of(locator)
    return box
