"""Types of requests and responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from firstdiff.comparing import LayoutMode
from firstdiff.comparing.options import EngineChoice
from firstdiff.schema import Diagnosis, Divergence, Note, Pair, Side, Summary, Verdict
from firstdiff.server.result_tables import RowLine, TensorLine
from firstdiff.store.entry import Entry, Kind
from firstdiff.trace.order import OrderRule
from firstdiff.viewing import BinnedValues, TriedMapping

Rule = Literal["default", "torch", "toml", "custom"]
SideChoice = Literal["reference", "candidate", "third"]
ReportFormat = Literal["json", "md", "junit", "html"]


class Body(BaseModel):
    """A request body; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class SideIn(Body):
    """One side: a path on this machine, or a finished upload."""

    path: str | None = None
    upload: str | None = None


class OptionsIn(Body):
    """Options of a comparison; omitted ones have the default of `firstdiff compare`.

    `tolerances` and `map` are the texts of such files.
    control: whether the third trace is known to be good at the candidate's precision, and judges it
    """

    atol: float | None = None
    rtol: float | None = None
    equal_nan: bool = False
    tolerances: str | None = None
    map: str | None = None
    allow_missing: bool = False
    allow_extra: bool = False
    allow_partial: bool = False
    strict_functions: bool = False
    control: bool = False
    layer_offset: int | None = None
    layout: LayoutMode = "auto"
    accept_layout: list[str] = Field(default_factory=list)
    isolate: bool = False
    diagnose: bool = True
    effort: float | Literal["full"] | None = None
    order: OrderRule | None = None
    engine: EngineChoice = "auto"


class CompareIn(Body):
    kind: Kind = "pair"
    reference: SideIn
    candidate: SideIn | None = None
    third: SideIn | None = None
    name: str | None = None
    options: OptionsIn = Field(default_factory=OptionsIn)


class ProjectCompareIn(Body):
    input_set: str


class RenameIn(Body):
    name: str


class JudgeIn(Body):
    """Other tolerances: `k` for the default rule, `atol` and `rtol` for a custom one, `toml` the text of a file."""

    rule: Rule = "default"
    k: float | None = None
    atol: float | None = None
    rtol: float | None = None
    toml: str | None = None
    equal_nan: bool = False


class FileIn(Body):
    name: str
    size: int = Field(ge=0)


class UploadIn(Body):
    files: list[FileIn]


class FindIn(Body):
    """`head` holds the SHA-256 of the first piece of each file; `digests` those of all its pieces, where known."""

    files: list[FileIn]
    head: list[str]
    digests: list[list[str]] | None = None


class MappingPart(Body):
    """One side of a mapping by hand: `at` as in `0,3,:,:`, `shown` the dimensions in the order they are shown in."""

    at: str
    shown: list[int]


class MappingIn(Body):
    reference: MappingPart
    candidate: MappingPart


@dataclass(frozen=True, slots=True)
class ErrorOut:
    """Every answer that is not a success: one sentence."""

    error: str


@dataclass(frozen=True, slots=True)
class AboutOut:
    version: str
    home: str
    demos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntriesOut:
    """All comparisons, the newest first, and the disk they use."""

    comparisons: tuple[Entry, ...]
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A Comparison without its pairs, and what there is to filter them by."""

    schema: str
    version: str
    settings: dict[str, Any]
    warnings: tuple[str, ...]
    reference: Side
    candidate: Side
    verdict: Verdict
    summary: Summary
    first_divergence: Divergence | None
    divergences: tuple[Divergence, ...]
    diagnosis: tuple[Diagnosis, ...]
    timings: dict[str, float]
    depth: tuple[tuple[int, float, float | None], ...]
    notes: tuple[Note, ...]
    complete: bool
    layers: tuple[int, ...]
    stages: tuple[str, ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The first divergence in sentences: where its error comes from, and where in the tensor it sits."""

    origin: str
    where: str | None


@dataclass(frozen=True, slots=True)
class ComparisonOut:
    """`comparison` is null as long as there is no result, `first` where nothing differs."""

    entry: Entry
    comparison: Head | None
    first: FirstRow | None


@dataclass(frozen=True, slots=True)
class RowsOut:
    rows: tuple[RowLine, ...]


@dataclass(frozen=True, slots=True)
class FirstValues:
    """The first ten elements in C order, all digits; empty where a side is not there or cannot be read."""

    reference: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of differences between each two edges; `zero` counts equal elements."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    zero: int
    nonfinite: int


@dataclass(frozen=True, slots=True)
class Readable:
    reference: bool
    candidate: bool


@dataclass(frozen=True, slots=True)
class RowDetail:
    """One row, opened; `origin` says where its error comes from, `third` is the key of the third trace's tensor."""

    pair: Pair
    origin: str | None
    first_values: FirstValues
    histogram: Histogram | None
    readable: Readable
    notices: tuple[str, ...]
    third: str | None = None


@dataclass(frozen=True, slots=True)
class DiagnosisOut:
    """The causes of one row, the likeliest first; `unknown` says why there is none."""

    diagnosis: tuple[Diagnosis, ...]
    unknown: str | None


@dataclass(frozen=True, slots=True)
class TomlOut:
    toml: str


@dataclass(frozen=True, slots=True)
class TensorsOut:
    """`total` counts those that the search finds, of which at most `limit` are listed."""

    tensors: tuple[TensorLine, ...]
    total: int


@dataclass(frozen=True, slots=True)
class HaveOut:
    """The number of bytes received of the file."""

    have: int


@dataclass(frozen=True, slots=True)
class OffsetOut:
    """A piece at the wrong place: `have` says where the next one starts."""

    error: str
    have: int


@dataclass(frozen=True, slots=True)
class TensorShape:
    shape: tuple[int, ...]
    dtype: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOut:
    """The tensors of a row to inspect: in the layout they were compared in, and each side as stored.

    third: the third tensor in the layout of the other two; null where it cannot be brought into it
    changed: the sides whose files no longer hold what was compared
    equal_nan: whether NaN was let match NaN
    """

    aligned: TensorShape | None
    reference: TensorShape | None
    candidate: TensorShape | None
    third: TensorShape | None
    third_original: TensorShape | None = None
    recipe: str | None
    steps: tuple[str, ...]
    audio: bool
    sample_rate: float | None
    changed: tuple[str, ...] = ()
    equal_nan: bool = False


@dataclass(frozen=True, slots=True)
class ElementOut:
    """One element of a row, its values with all digits; a side that is not there is empty."""

    index: tuple[int, ...]
    reference: str
    candidate: str
    difference: float | None
    relative: float | None
    ulp: float | None


@dataclass(frozen=True, slots=True)
class ElementsOut:
    items: tuple[ElementOut, ...]


@dataclass(frozen=True, slots=True)
class FoundElements:
    """What a search came upon; `next` is where to go on, null at the end."""

    items: tuple[ElementOut, ...]
    next: int | None
    scanned: int
    total: int


@dataclass(frozen=True, slots=True)
class HistogramsOut:
    """One for each side, all over the same bins."""

    items: tuple[BinnedValues, ...]


@dataclass(frozen=True, slots=True)
class MappingsOut:
    tried: tuple[TriedMapping, ...]


@dataclass(frozen=True, slots=True)
class ElementInLayer:
    """An element of the row that is the same tensor of another layer."""

    index: int
    key: str
    layer: int | None
    reference: float
    candidate: float
    third: float | None


@dataclass(frozen=True, slots=True)
class DepthOut:
    points: tuple[ElementInLayer, ...]


@dataclass(frozen=True, slots=True)
class PeaksOut:
    """The lowest and the highest value of each column, all channels mixed."""

    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PeaksOfSides:
    reference: PeaksOut
    candidate: PeaksOut
    difference: PeaksOut


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioOut:
    """Two sounds beside each other; `clicks` are samples."""

    sample_rate: float
    seconds: float
    verdict: str
    snr_db: float | None
    si_snr_db: float | None
    log_mel_distance: float | None
    delay_samples: float | None
    gain_db: float | None
    clicks: tuple[int, ...]
    peaks: PeaksOfSides
