"""Error messages of strict decoding, in Muster's form: the field, and what is wrong with it."""

import re

JSON_PATH = re.compile(r" - at `(?:key in )?\$(?:\.)?(.*)`$", re.DOTALL)


def validation_message(complaint: str) -> str:
    """Turn an error message of msgspec into `field: problem`."""
    match = JSON_PATH.search(complaint)
    problem = (complaint[: match.start()] if match else complaint).replace("`", "")
    problem = problem[:1].lower() + problem[1:]
    place = match.group(1) if match else ""
    return f"{place}: {problem}" if place else problem
