"""Shared by all drawings: text made safe for XML, text widths estimated without a font, colours, a white card."""

from __future__ import annotations

import html
import re
import unicodedata

Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)
DARK: Colour = (32, 38, 35)
GREY: Colour = (138, 148, 143)

# Control characters would reach the terminal. XML allows neither them nor surrogates, not even escaped.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Letters of these scripts are narrower or wider than most. Measured in Noto Sans, as a fraction of the font size.
_SCRIPTS = {
    range(0x0590, 0x0900): 0.66,  # Hebrew to Syriac
    range(0x0900, 0x0B80): 0.72,  # Devanagari to Oriya
    range(0x0B80, 0x0E00): 1.0,  # Tamil to Sinhala
    range(0x0E00, 0x1000): 0.66,  # Thai to Tibetan
}


def visible(text: str) -> str:
    """Return the text on one line, with U+FFFD in place of characters that cannot be shown."""
    return _FORBIDDEN.sub("\ufffd", " ".join(text.split()))


def escape(text: str) -> str:
    """Make text visible and escape it for an XML element or attribute."""
    return html.escape(visible(text))


def shorten(text: str, columns: int) -> str:
    """Cut a text that is wider than this many terminal columns and end it with an ellipsis."""
    used = kept = 0
    for end, character in enumerate(text, start=1):
        used += terminal_width(character)
        if used > columns:
            return text[:kept] + "…"
        if used < columns:
            kept = end
    return text


def wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def terminal_width(text: str) -> int:
    """Return the width in terminal columns: two for East Asian wide characters, none for combining marks."""
    return sum(0 if _combines(character) else 1 + wide(character) for character in text)


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a sans-serif font of this size, erring on the large side."""
    dotted_circle = 0.6 if unicodedata.category(text[:1] or " ").startswith("M") else 0.0
    return size * (dotted_circle + sum(map(_advance, text)))


def _combines(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me", "Cf")


def _advance(character: str) -> float:
    if _combines(character):
        return 0.0
    if wide(character):
        return 1.3 if unicodedata.category(character) == "So" else 1.03  # emoji are wider than ideographs
    if character in "ijlI.,:;'|!()[]ftr/\\- ·‘’":
        return 0.41
    if character in "mwMW@%—…" or (character.isupper() and not character.isascii()):
        return 1.05
    if unicodedata.category(character) == "Mc":
        return 0.5
    large = not character.isascii() or character.isupper() or character in "#&+<=>^~"
    return next((size for letters, size in _SCRIPTS.items() if ord(character) in letters), 0.8 if large else 0.64)


def right_to_left(text: str) -> bool:
    """Whether most letters belong to right-to-left scripts."""
    kinds = [unicodedata.bidirectional(character) for character in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")


def mix(low: Colour, high: Colour, amount: float) -> Colour:
    """Interpolate between two colours; amount is 0 to 1."""
    amount = min(max(amount, 0.0), 1.0)
    red, green, blue = (round(a + (b - a) * amount) for a, b in zip(low, high, strict=True))
    return red, green, blue


def ink(background: Colour) -> Colour:
    """Return dark or white, whichever is legible on the background."""
    red, green, blue = background
    return DARK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else WHITE


def code(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def number(value: float) -> str:
    """Format a coordinate to a tenth of a pixel, as briefly as possible."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, content: str, **attributes: object) -> str:
    return f"<text {_attributes(x=x, y=y, **attributes)}>{escape(content)}</text>"


def rect(x: float, y: float, width: float, height: float, fill: Colour, **attributes: object) -> str:
    return f"<rect {_attributes(x=x, y=y, width=width, height=height, fill=code(fill), **attributes)}/>"


def group(parts: list[str], title: str = "", **attributes: object) -> str:
    """Group elements that share attributes. The title is their tooltip."""
    head = [f"<title>{escape(title)}</title>"] if title else []
    return "\n".join([f"<g {_attributes(**attributes)}>" if attributes else "<g>", *head, *parts, "</g>"])


def card(width: float, height: float, label: str, parts: list[str]) -> str:
    """Return a complete SVG. It is white, so it is legible on light and dark pages, and has no ids or styles that could
    leak into the page."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}"'
    head += f' font-family="system-ui, sans-serif" fill="{code(DARK)}">'
    return "\n".join([head, rect(0, 0, width, height, WHITE, rx=8), *parts, "</svg>\n"])


# JupyterLab, Colab and VS Code say which theme they have; elsewhere the system does.
_IN_THE_DARK = """<style>
:is([data-jp-theme-light=false], [theme=dark], .vscode-dark) .banyan-drawing svg {
  filter: invert(1) hue-rotate(180deg) }
@media (prefers-color-scheme: dark) {
  html:not([theme], :has([data-jp-theme-light], .vscode-light, .vscode-dark)) .banyan-drawing svg {
    filter: invert(1) hue-rotate(180deg) }
}
</style>"""


def in_notebook(drawing: str) -> str:
    """Return a drawing as HTML that is dark in a dark notebook. Turned hues are those of the light drawing."""
    return f'<div class="banyan-drawing">{drawing}</div>{_IN_THE_DARK}'


def _attributes(**attributes: object) -> str:
    """Format attributes. Underscores in names become dashes."""
    written = []
    for name, value in attributes.items():
        if isinstance(value, tuple):
            value = code(value)
        elif isinstance(value, int | float):
            value = number(value)
        written.append(f'{name.replace("_", "-")}="{escape(str(value))}"')
    return " ".join(written)
