"""Every kind of fedroam's own is in the lists that the type checker holds against the Protocols; what lacks is told."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import get_type_hints

import pytest
from typing_extensions import get_protocol_members

import fedroam
from fedroam import components
from fedroam.components import FAMILIES, NODE_FAMILIES, Part, build, kinds, register
from fedroam.errors import InputError
from fedroam.parts import Parts
from support import kinds as lists
from support.tiny import tiny

LISTS: dict[str, tuple[type, ...]] = {
    "data": lists.DATA,
    "partition": lists.PARTITIONS,
    "model": lists.MODELS,
    "training": lists.TRAININGS,
    "objective": lists.OBJECTIVES,
    "engine": lists.ENGINES,
    "mobility": lists.MOBILITIES,
    "activity": lists.ACTIVITIES,
    "access_points": lists.ACCESS_POINTS,
    "contacts": lists.CONTACTS,
    "mixing": lists.MIXINGS,
    "aggregation": lists.AGGREGATIONS,
    "attack": lists.ATTACKS,
    "federation": lists.FEDERATIONS,
    "radio": lists.RADIOS,
    "link": lists.LINKS,
    "compute": lists.COMPUTES,
    "motion": lists.MOTIONS,
    "battery": lists.BATTERIES,
    "clock": lists.CLOCKS,
    "execution": lists.EXECUTIONS,
    "meter": lists.METERS,
}


@pytest.mark.parametrize("family", [*FAMILIES, *NODE_FAMILIES])
def test_the_list_holds_every_registered_class(family: str) -> None:
    own = {cls for cls in kinds(family).values() if cls.__module__.startswith("fedroam.")}
    assert set(LISTS[family]) == own
    assert len(LISTS[family]) == len(own)


def test_parts_have_a_protocol_for_each_family() -> None:
    assert [field.name for field in fields(Parts)] == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_registering_asks_for_methods_of_the_protocol(family: str) -> None:
    assert set(FAMILIES[family].methods) <= get_protocol_members(get_type_hints(Parts)[family])


def test_what_a_part_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(components._registry, "training", dict(kinds("training")))

    class Half(Part):
        """Batches, but nothing of an optimiser."""

        def batches(self, samples: int, stream: object) -> None:
            """None."""

        def keeps_momentum(self) -> bool:
            """No."""
            return False

    register("training", "half")(Half)
    with pytest.raises(InputError, match=r"training 'half' \(Half\) lacks lr, momentum, weight_decay"):
        Parts.of(tiny(training=build("training", "half")))


def test_dir_shows_the_public_names_before_they_are_loaded() -> None:
    shown = "import fedroam, sys; print(*dir(fedroam)); assert 'torch' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert set(fedroam.__all__) <= set(found.stdout.split())
