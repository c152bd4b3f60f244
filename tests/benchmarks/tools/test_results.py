"""Figures, bounds, data and page of the benchmarks."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import orjson
import pytest

from tests.benchmarks.__main__ import find_benchmarks
from tests.benchmarks.tools import check, data_dirs, page, plots, results
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    PROGRAM,
    Benchmark,
    Bound,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.office import Office, party
from tests.benchmarks.tools.platform import make_listings
from tests.benchmarks.tools.strangers import Strangers
from tests.trials.tools.seeded_bug import PLANTS

SHELL = Goal(1.5, "shell")


def test_the_page_has_the_results_that_are_kept(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "of-an-earlier-unit.svg").write_text("<svg/>")
    page.write(find_benchmarks(), tmp_path / "README.md", tmp_path / "charts")
    remedy = "run `python -m tests.benchmarks --page-only`"
    assert (tmp_path / "README.md").read_text("utf-8") == page.PAGE.read_text("utf-8"), remedy
    kept = {path.name: path.read_text("utf-8") for path in page.CHARTS.glob("*.svg")}
    made = {path.name: path.read_text("utf-8") for path in (tmp_path / "charts").glob("*.svg")}
    assert made == kept, remedy


def test_every_module_is_a_benchmark_and_every_bound_has_its_slowdown() -> None:
    benchmarks = find_benchmarks()
    assert {"webhooks", "full_sync", "facade", "pages", "exports", "start", "growth"} <= benchmarks.keys()
    bounds = [bound for benchmark in benchmarks.values() for bound in benchmark.bounds]
    assert len(bounds) >= 7
    assert [bound.slowdown for bound in bounds if bound.slowdown not in PLANTS] == []


def test_a_ratio_compares_measurements_of_the_same_round() -> None:
    figure = Figure("export", "s", [1.0, 8.0, 3.0], {"shell": [1.0, 4.0, 2.0]}, goals=[SHELL, Goal(2.5)])
    assert figure.ratio("shell").describe() == "1.5 (1–2)"
    assert figure.spread().describe() == "3 (1–8)"
    assert [figure.compare(goal) for goal in figure.goals] == [True, False]


def test_a_missing_peer_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    figure = Figure("export", "s", [1.0], missing={"shell": "not installed."}, goals=[SHELL])
    results.print_figures([figure])
    printed = capsys.readouterr().out
    assert "MISSING: not installed." in printed
    assert "not compared" in printed


def test_every_second_round_runs_in_reverse_order() -> None:
    order: list[str] = []
    found = alternate(
        2, {name: lambda name=name: order.append(name) or len(order) for name in ("first", "second")}
    )
    assert order == ["first", "second", "second", "first"]
    assert found == {"first": [1, 4], "second": [2, 3]}


@pytest.mark.parametrize(
    ("normal", "slowed", "failures"),
    [(1.0, 9.0, []), (9.0, 9.0, ["export: 9 × shell, not ≤ 1.5 × shell"]),
     (1.0, 1.0, ["export: slow_csv is not detected (1 × shell)"])],
)  # fmt: skip
def test_a_bound_fails_for_a_slow_product_and_for_an_undetected_slowdown(
    normal: float, slowed: float, failures: list[str]
) -> None:
    def measure(options: Options) -> list[Figure]:
        seconds = normal if options.program == PROGRAM else slowed
        return [make_figure("export", "s", {PRODUCT: [seconds], "shell": [1.0]})]

    benchmark = Benchmark("Exports", measure, 1, bounds=(Bound("export", SHELL, "slow_csv"),))
    assert check.check(benchmark) == failures


def test_a_chart_has_a_title_a_description_and_two_themes() -> None:
    bars = [
        plots.Bar("Switchroom", 2.0, 1.0, 3.0, "2 <s>", is_own=True, goal=2.5),
        plots.Bar("a peer", 90.0, 80.0, 99.0, "90", is_own=False),
    ]
    text = plots.draw_bars("Export & more", "s", [bars])
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.findtext(f"{space}title") == "Export & more"
    assert root.findtext(f"{space}desc") == "s. Switchroom: 2 <s>; a peer: 90"
    assert "prefers-color-scheme:dark" in text
    # A slow peer is cut off, so that the product's own bar can be read.
    widths = [float(one.get("width", "0")) for one in root.iter(f"{space}rect")][1:]
    assert widths == [pytest.approx(310 * 2 / 18, abs=0.1), 310.0]


def test_the_data_have_numbers_of_their_own_groups_and_transfers() -> None:
    office = Office(3000, date(2026, 9, 30))
    records = [orjson.loads(office.cdr(number)) for number in range(1, 3001)]
    assert [record["id"] for record in records] == list(range(1, 3001))
    assert len({record["live_id"] for record in records}) == 3000
    times = [record["calldate"] for record in records]
    assert times == sorted(times)
    assert (times[0][:4], times[-1][:7]) == ("2016", "2026-09")
    contexts = Counter(record["context"].partition("-")[0] for record in records)
    assert min(contexts["RG"], contexts["Queue"], contexts["PSTN_CALL"]) > 150
    assert sum(record["parent_live_id"] is not None for record in records) > 150
    roots = {record["root_live_id"] for record in records}
    assert 1900 < len(roots) < 2300
    own = {party(call) for call in range(0, 2000, 10)}
    assert len(own) == 200
    assert own.isdisjoint(party(call) for call in range(2000) if call % 10)


def test_the_platform_serves_pages_and_periods() -> None:
    office = Office(3000, date(2026, 9, 30))
    listing = make_listings(office)["cdrs"]
    numbers, total = listing.select({"limit": "2", "dir": "DESC", "sort": "id"})
    assert (list(numbers), total) == ([3000, 2999], 3000)
    condition = orjson.dumps([{"property": "id", "operator": "lt", "value": 3}]).decode()
    page_of_two = orjson.loads(
        listing.page(*listing.select({"limit": "5", "dir": "DESC", "filter": condition}))
    )
    assert [record["id"] for record in page_of_two["data"]] == [2, 1]
    time = orjson.loads(office.cdr(1500))["calldate"]
    since = orjson.dumps([{"property": "calldate", "operator": "gte", "value": time}]).decode()
    assert listing.select({"filter": since})[1] == sum(
        orjson.loads(office.cdr(number))["calldate"] >= time for number in range(1, 3001)
    )


def refuse_creation(_cdrs: int) -> None:
    raise RuntimeError("created")


@pytest.mark.parametrize(
    ("kept", "is_reused"), [({"commit": "abc1234"}, True), ({"commit": "def5678"}, False), ({}, False)]
)
def test_data_of_another_commit_is_made_again_if_its_creation_is_measured(
    kept: dict[str, str], is_reused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_dirs, "FOLDER", tmp_path)
    monkeypatch.setattr(data_dirs, "get_commit", lambda: "abc1234")
    monkeypatch.setattr(data_dirs, "run_platform", refuse_creation)
    mark = tmp_path / "data-10" / data_dirs.PARTS
    mark.parent.mkdir()
    mark.write_bytes(orjson.dumps(kept))
    assert data_dirs.get_data_dir(10) == mark.parent
    with nullcontext() if is_reused else pytest.raises(RuntimeError, match="created"):
        assert data_dirs.get_data_dir(10, of_this_commit=True) == mark.parent
    assert mark.exists() is is_reused


def test_the_strangers_have_numbers_of_their_own_parents_and_notes() -> None:
    strangers = Strangers(600)
    records = [orjson.loads(strangers.cdr(number)) for number in range(1, 601)]
    numbers = [record["src"] if record["destination"] == "in" else record["dst"] for record in records]
    with_digits = [number for number in numbers if number not in ("", "anonymous")]
    assert len(with_digits) == len(set(with_digits)) == 400
    assert [number[:4] for number in numbers[:6]] == ["4470", "0044", "1003", "", "anon", "+447"]
    parents = [(record["live_id"], record["parent_live_id"]) for record in records]
    assert [leg - parent for leg, parent in parents if parent] == [1] * 59
    assert sum(record["nb_notes"] for record in records) == 30
    times = [record["calldate"] for record in records]
    assert times == sorted(times)
    assert [strangers.first_at(strangers.moment(number)) for number in (1, 600)] == [1, 600]
