"""Writes grounding.jsonl: what cactus-needle 3.2.8 answers on generated texts. See README.md beside this file.

Cases on which the crate differs on purpose are not generated; the unit tests of `needle_core::grounding` hold them.
"""

import datetime
import json
import os
import random
import sys
import types
from pathlib import Path

os.environ["NEEDLE_TELEMETRY"] = "0"
sys.modules.setdefault("huggingface_hub", types.ModuleType("huggingface_hub"))
import needle

assert needle.__version__ == "3.2.8"
needle._track = lambda *_: None
rng = random.Random(20260731)
pick = rng.choice

MONTHS = ("January Jan jan. FEBRUARY feb March mar April apr. May may June jun July jul. August Aug sept September sep "
          "Sept. October oct november Nov. december dec marches mayor junes").split()
TAILS = [""] * 12 + [".", ",", "!", " pm", " p.m.", "am", " am", " amber", ":30", ": go", "th", "b", "_", "-5", " people",
         "0", ".5", "?", " a m", "\u5e74"]
NUMBERS = ["1", "7", "12", "24", "99", "300", "930", "2023", "2024", "2026", "2027", "0026", "20267", "1999"]


def day():
    return str(rng.randint(1, 34)) + pick(["", "", "", "st", "nd", "rd", "th", "x"])


def gap():
    return pick([" "] * 12 + [", ", ", ", ",", " , ", "  ", "\n", "-", "", " of "])


def dated():
    """A stretch that looks like a date, near a shape that names a year."""
    year = pick(NUMBERS)
    numeric = pick(["-", "-", "/", ".", " "])
    shapes = [
        lambda: day() + gap() + pick(MONTHS) + gap() + year,
        lambda: pick(MONTHS) + gap() + day() + gap() + year,
        lambda: pick(MONTHS) + gap() + year,
        lambda: pick(["year", "Year", "years", "leap-year", "a year"]) + gap() + year,
        lambda: numeric.join([year, pick("1 01 12 123".split()), pick("3 31 03 311".split())]),
        lambda: numeric.join([str(rng.randint(1, 31)), str(rng.randint(1, 12)), pick(["24", "2024", "6"])]),
        lambda: " \uff12\uff10\uff12\uff16-0\uff19-01",
    ]
    return pick([""] * 8 + ["x", "5", "(", "on ", "v"]) + pick(shapes)() + pick(TAILS)


WORDS = ["invoice for Reed", "the dentist", "a table for 2", "trip to Rome", "in May", "3 tickets", "call Ann at 5", "gate 7b"]
CUES = ["tomorrow", "Tonight", "next week", "this", "thisness", "nowhere", "NOW", "on Friday", "fridays", "in 3 weeks",
        "in 1 day", "in  3 weeks", "in three days", "in 10 years", "in 4 month", "coming-up", "", "", ""]


def text(cue=""):
    parts = [pick(WORDS) for _ in range(rng.randint(0, 2))] + [dated() for _ in range(rng.randint(0, 2))] + [cue]
    rng.shuffle(parts)
    return pick([" ", " ", ", ", "; "]).join(part for part in parts if part)


SYSTEMS = [None, "", "date: 2026-07-31 Fri 09:05", "date: 2026-07-31 Fri 09:05; locale: en-GB; battery: 40%",
           "locale: de-DE; fee 12.50", "date: 2025-12-31 Wed 23:59; limit 1,500", "since 5 June 2021; date: 2026-01-02",
           "now 2026-07-31T09:05:30, floor 3", "Date: 2026-07-31; room 14", "update: 2026-07-31 x 31"]

LICENSE = {
    "$defs": {"day": {"type": "string", "format": "date"}, "a/b": {"type": "string", "format": "date-time"},
              "leg": {"type": "object", "properties": {"day": {"$ref": "#/$defs/day"}, "city": {"type": "string"}}}},
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "start": {"type": "string", "format": "date-time"},
        "end": {"anyOf": [{"$ref": "#/$defs/day"}, {"type": "null"}]},
        "due": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b"}]},
        "either": {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}]},
        "typed": {"type": ["string", "null"], "format": "date"},
        "note": {"type": "string"},
        "clock": {"type": "string", "format": "time"},
        "legs": {"type": "array", "items": {"$ref": "#/$defs/leg"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/day"}}},
        "owner": {"type": "object", "properties": {"born": {"type": "string", "format": "date"}}},
        "count": {"type": "integer"}, "price": {"type": "number"},
    },
}
TOOL = {"name": "plan", "description": "", "parameters": LICENSE}


def date(years):
    year = pick(sorted(years) + [2023, 2024, 2026, 2027] if years else [2023, 2026])
    return pick([f"{year:04}-06-05"] * 6 + [f"{year:04}-06-05T10:00", f"{year}/06/05", "5/6/24", "June 5", "", None, 2026])


def arguments(years):
    makers = {
        "legs": lambda: [{"city": "Rome", "day": date(years)} for _ in range(pick([1, 2, 3, 11]))],
        "grid": lambda: [[date(years)], [], [date(years), date(years)]],
        "owner": lambda: {"born": date(years), "other": "1900-01-01"},
    }
    keys = rng.sample([*LICENSE["properties"], "unknown"], rng.randint(1, 4))
    return {key: makers.get(key, lambda: date(years))() for key in keys}


def strip_dates(value):
    """Years of one or two digits are a deliberate difference: none may end a date's year."""
    return {int(part[:4]) % 100 for part in json.dumps(value).split('"') if part[:4].isdigit() and part[4:5] == "-"}


def marked(names, earlier, system, query, args):
    seen = set().union(*(needle._source_years(turn) for turn in [*earlier, query]))
    response = {"function_calls": [{"name": "plan", "arguments": args}]}
    if names:
        response["validation"] = {"ungrounded": names}
    needle._annotate_ungrounded(response, [TOOL], seen, system, query)
    return (response.get("validation") or {}).get("ungrounded") or []


AMOUNTS = ["5", "10%", "4b", "b4", "1,234", "1,234.50", "1,2345", "1234,567", "-7", "+8", "3-9", "0.5", ".5", "5.", "3.14.15",
           "$20", "007", "1e5", "1,000,000", "2026-07-31", "2026-07-31T14:20", "date: 2026-07-31 Fri 14:20", "date: 2026-07-31",
           "\uff15\uff10", "\u0664\u0662", "x-3", "a_6", "12:30", "6'2", "1,234,5678"]
VALUES = ["5", "10", "4", "1234", "1234.5", "1234.50", "-7", "8", "9", "3", "0.5", "5.0", "3.14", "20", "7", "1e5", "1000000",
          "2026", "31", "14", "50", "42", "6", "12", "1", "-0", "0", "true", "null", '"5"']


def numeric():
    """Arguments as JSON text, so that 5.0 and 1e5 keep their spelling."""
    fields = {key: pick(VALUES) for key in ("a", "b", "c")}
    inner = ", ".join(f'"{key}": {value}' for key, value in fields.items())
    return json.loads(f'{{{inner}, "list": [{pick(VALUES)}, {{"d": {pick(VALUES)}}}]}}')


NUMERIC_PATHS = ["a", "b", "c", "list[0]", "list[1].d", "gone"]


def run(query, system, args, names):
    """What a strict run of the reference leaves of the marks; it does not execute where any stays."""
    executed = []
    agent = object.__new__(needle.Needle)
    agent._stateless, agent._turns, agent._system_text = False, 0, system or ""
    agent._n_tools, agent._tuned, agent._generation = 1, False, 3
    agent._functions = {"plan": lambda **_: executed.append(True)}
    answers = iter([{"type": "call", "function_calls": [{"name": "plan", "arguments": args}],
                     "validation": {"ungrounded": names}}, {"type": "respond"}])
    agent._complete = lambda *_, **__: next(answers)
    results = agent.run(query)["results"]
    return [] if executed else results[0]["error"].removeprefix("ungrounded ").split(", ")


def extraction(query, system, args, names):
    try:
        needle._validate_extraction(query, TOOL, args, {"validation": {"ungrounded": names}}, system)
    except needle.ExtractionValidationError as error:
        return str(error).rpartition(": ")[2].split(", ")
    return []


def with_date(system, now):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(*now)
    real, needle.datetime = needle.datetime, types.SimpleNamespace(datetime=Clock)
    try:
        return needle._with_date_fact(system)
    finally:
        needle.datetime = real


def cases():
    for _ in range(300):
        query = text()
        yield {"kind": "years", "text": query, "years": sorted(needle._source_years(query))}
    for _ in range(120):
        earlier, system, query = [text() for _ in range(rng.randint(0, 2))], pick(SYSTEMS), text(pick(CUES))
        seen = set().union(*(needle._source_years(turn) for turn in [*earlier, query]))
        years = needle._licensed_years(seen, system, needle._relative_cue(query))
        yield {"kind": "licensed", "system": system, "earlier": earlier, "text": query, "years": sorted(years)}
    made = 0
    while made < 120:
        earlier, system, query = [text() for _ in range(rng.randint(0, 1))], pick(SYSTEMS), text(pick(CUES))
        years = set().union(*(needle._source_years(turn) for turn in [*earlier, query]))
        args = arguments(years)
        if not years or years & strip_dates(args):
            continue
        made += 1
        yield {"kind": "marked", "system": system, "earlier": earlier, "text": query, "arguments": args,
               "marked": marked([], earlier, system, query, args)}
    for _ in range(120):
        query, system, args = " and ".join(rng.sample(AMOUNTS, rng.randint(0, 12))), pick(SYSTEMS), numeric()
        names = ["plan." + path for path in rng.sample(NUMERIC_PATHS, rng.randint(1, 3))] + pick([[], [], ["other.a"], ["plan"]])
        yield {"kind": "run", "system": system, "text": query, "arguments": args, "marked": names,
               "left": run(query, system, args, names)}
    made = 0
    while made < 60:
        query, system = " and ".join([text(pick(CUES)), *rng.sample(AMOUNTS, 12)]), pick(SYSTEMS)
        args = {**arguments(needle._source_years(query)), "count": pick([5, 10, 99, 4]), "price": pick([1234.5, 7, 20.0, 50])}
        names = rng.sample(["plan.count", "plan.price", "plan.day", "plan.end", "plan.owner.born", "plan.gone"], pick([0, 1, 1, 2]))
        if needle._source_years(query) & strip_dates(args):
            continue
        made += 1
        yield {"kind": "extraction", "system": system, "text": query, "arguments": args, "marked": names,
               "faults": extraction(query, system, args, names)}
    facts = ["", " ", "\n", "locale: de", "date: x", "Date: x", "DATE:", "update: 3", "_date: 3", "3date: 3", "\u00e9date: 3",
             "date : 3", "since 2020-01-02", "x12020-01-023", "2020/01/02", "{}", " {\"a\": 1}", "a {", "[1]", "  padded"]
    for system in facts:
        now = [rng.randint(1970, 2199), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59)]
        yield {"kind": "date", "system": system, "now": now, "text": with_date(system, now)}


lines = [json.dumps({"kind": "parameters", "parameters": LICENSE})] + [json.dumps(case) for case in cases()]
Path(__file__).with_name("grounding.jsonl").write_text("\n".join(lines) + "\n")
