"""docs.search: the sections that hold the words, the best first; the same folder gives the same answer."""

import math
from collections import Counter
from typing import Any, Final

from mcpcatalog.firstparty.docs.contracts import SearchArguments
from mcpcatalog.firstparty.docs.library import Library, sections
from mcpcatalog.firstparty.docs.markdown import words_of

MAXIMUM_TERMS: Final = 16
SNIPPET: Final = 240
HEADING_WEIGHT: Final = 4.0

type Found = tuple[str, int, str, str]


def search(library: Library, arguments: SearchArguments) -> dict[str, Any]:
    """Raises: NoSuchDocument."""
    shelf, documents = library.read(arguments.path)
    terms = list(dict.fromkeys(words_of(arguments.query)))[:MAXIMUM_TERMS]
    read = [(path, section, section.words) for path, section in sections(documents)]
    holding = Counter(term for _, _, words in read for term in terms if term in words)
    scored = []
    for path, section, words in read:
        heading = set(words_of(section.heading))
        weights = [
            (1 + math.log(words[term]) + HEADING_WEIGHT * (term in heading)) * math.log(1 + len(read) / holding[term])
            for term in terms
            if term in words
        ]
        if weights:
            # Holding more of the words counts before holding one of them often.
            scored.append(((-len(weights), -round(sum(weights), 4), path, section.line), section))
    scored.sort(key=lambda entry: entry[0])
    results = [
        {"path": path, "line": line, "heading": section.heading[:200], "snippet": _snippet(section.text, terms),
         "score": -score}
        for (_, score, path, line), section in scored[: arguments.limit]
    ]  # fmt: skip
    return {
        "results": results, "total": len(scored), "documents": len(documents), "is_whole": shelf.is_whole,
    }  # fmt: skip


def _snippet(text: str, terms: list[str]) -> str:
    plain = " ".join(text.split())
    folded = plain.casefold()
    first = min((found for term in terms if (found := folded.find(term)) >= 0), default=0)
    start = max(0, min(first, len(plain)) - SNIPPET // 4)
    return plain[start : start + SNIPPET]
