"""Memory probes of a campaign: bought, journaled, told to the study, and what they spared."""

from __future__ import annotations

from attune.experiment.events import Event, Probed
from attune.layout import parse_layout, write_layout
from attune.search.fidelities import Prices, Prober, best_buy
from attune.search.runs import Runs
from attune.search.sampler import Scores
from attune.search.study import Parameters, write_probes


class Probes:
    """Decides for each candidate whether a probe comes before its trial."""

    def __init__(self, runs: Runs, prober: Prober | None) -> None:
        self._runs = runs
        self._prober = prober
        self._parameters = Parameters(runs.candidates.table)
        self._tell_study()

    def worth(self, row: int, scores: Scores) -> bool:
        """Whether candidate `row` is to be probed before it is tried."""
        if self._prober is None or self._layout(row) in {p.layout for p in self._done}:
            return False
        p_fits = float(scores.believed.p_fits[row])
        gain = float(scores.gain[row]) / max(p_fits, 1e-9)
        return best_buy(gain, p_fits, self._prices(row)) == "memory probe"

    def buy(self, row: int, scores: Scores) -> Event:
        """Probes candidate `row`; the event, written down."""
        assert self._prober is not None, "worth() said so"
        number = len(self._done)
        directory = self._runs.experiment.folder / "probes" / str(number)
        prices = self._prices(row)
        job = self._runs.job(row, "candidate")
        stage = int(self._runs.candidates.stage[row])
        reading = self._prober.probe_memory(job, stage, directory)
        event = self._runs.record(
            Probed(
                number=number,
                layout=self._layout(row),
                fits=reading.fits,
                peak_gib=reading.peak_gib,
                p_fits=float(scores.believed.p_fits[row]),
                gpu_hours=reading.gpu_hours,
                spared_gpu_hours=prices.failed if reading.fits is False else 0.0,
                provenance=reading.provenance,
                evidence=reading.evidence,
            )
        )
        self._tell_study()
        return event

    @property
    def _done(self) -> list[Probed]:
        return [e for e in self._runs.standing.events if isinstance(e, Probed)]

    def _prices(self, row: int) -> Prices:
        assert self._prober is not None, "prices are asked where there is a prober"
        start = self._runs.start_hours()
        share = self._prober.gpus / self._runs.inputs.cluster.count
        return Prices(trial=self._runs.expected_hours(row), failed=start, probe=start * share)

    def _layout(self, row: int) -> str:
        return write_layout(self._runs.candidates.table.row(row))

    def _tell_study(self) -> None:
        """Writes all probes of the journal into the study, so that the sampler reads them."""
        told = []
        for probed in self._done:
            row = self._runs.candidates.find(parse_layout(probed.layout))
            if row is not None and probed.fits is not None:
                known = {"fits": probed.fits, "peak_gib": probed.peak_gib}
                told.append({"parameters": self._parameters.of(row), **known})
        write_probes(self._runs.study, told)
