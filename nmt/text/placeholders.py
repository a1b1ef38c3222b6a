"""Patterns of tags, placeholders and addresses to be copied, which match in linear time."""

import re
from collections import Counter

TAG_VALUE = r"""=\s*+(?:"[^"]*+"|'[^']*+'|(?!["']))"""
TAG = rf"</?[A-Za-z][\w:.-]*+(?=[\s>]|/>)(?>(?:[^<>=]++|{TAG_VALUE}){{0,200}})>"

ADDRESS = "|".join(
    (
        r"""(?<!\w)(?:[A-Za-z][A-Za-z\d+.-]{1,20}://|www\.|mailto:)[^\s<>"«»]*[\w/#&=~$+%-]""",
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",
    )
)
VARIABLE = "|".join(
    (
        r"%%|%\{\w{1,80}\}|%@",
        # %s, %(name)d, %1$s, %-5.2f; behind a digit, as in 50%off, no letter may follow.
        r"%(?:\([\w .-]{1,80}\)|\d{1,3}\$)?[-+#0]{0,5}(?:\d{1,5}|\*)?(?:\.(?:\d{1,5}|\*)?)?"
        r"(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsaAp](?:(?<!\d%\w)|(?![A-Za-z]))",
        r"(?<!\d)%(?:L?\d{1,2}(?!\d)|n\b)",
        r"\{\{\s?[\w.|-]{1,80}\s?\}\}|[$#]?\{[\w.$@#:!\[\]^=+%,-]{0,80}\}",
        r"(?<![\w$])\$[A-Za-z_]\w{0,80}",
    )
)
_ONE = f"{ADDRESS}|{VARIABLE}"
_RUN = rf"(?>(?:{_ONE})(?:[,.;:/|+*~=#&-]{{0,3}}(?:{_ONE}))*)"
PLACEHOLDERS = rf"\({_RUN}\)|\[{_RUN}\]|\"{_RUN}\"|'{_RUN}'|{_RUN}"
"""Addresses and variables of printf, Python, Qt, a shell or a template. `("%s/%s")` is a single
placeholder, because a model would alter the marks that remain without the variables."""


def copied_tokens(text: str) -> Counter[str]:
    """Count the placeholders, addresses and tags of a text. Tags of the same name are equal."""
    matches = re.finditer(rf"(?P<tag>{TAG})|{_ONE}", text)
    return Counter(m[0].split()[0].rstrip("/>").lower() if m["tag"] else m[0] for m in matches)
