"""All experiments, by name."""

from __future__ import annotations

from sash.errors import PlanError, suggest
from sash.lab.experiments.exact_figures import (
    fig3_5_backlog,
    fig3_6_rates,
    fig3_8_times,
    fig3_10_bias,
    fig4_tasks,
    fig5_3_train,
    fig5_4_slide,
    fig5_5_flush,
    fig5_7_backlog,
    fig5_8_delayed,
    fig5_9_delay,
    fig5_11_times,
    fig5_13_partitions,
    fig5_16_bias,
    fig5_17_memory,
    fig5_18_blocks,
)
from sash.lab.experiments.experiment import Experiment
from sash.lab.experiments.kostowski_figures import (
    fig4_relative_rate,
    fig5_buckets,
    fig6_selectivity,
    fig7_invalidation_cost,
    fig8_invalidation_memory,
)
from sash.lab.experiments.pipelines_figures import (
    fig8_delay_by_query,
    fig9_arrival_rate,
    fig10_streams,
    fig11_predicate,
    fig12_output_time,
)
from sash.lab.experiments.relation_figures import (
    fig6_5_backlog,
    fig6_6_read_size,
    fig6_7_delay,
    fig6_8_disk,
    fig6_9_processed,
    fig6_10_times,
    fig6_12_memory,
    fig6_13_bias,
    fig6_granularity,
    fig6_invoke,
    fig6_reads,
)
from sash.lab.experiments.shared_figures import (
    fig2b_lwo_burst,
    fig3b_swf_burst,
    fig5_distributions,
    fig6_response_by_window,
    fig7_bursts,
    fig8_bursts_by_window,
    fig9_equal_windows,
)
from sash.lab.experiments.wjoin_figures import (
    fig7_nested_loops_and_merging,
    fig8_hash_and_xjoin,
    fig9a_by_turns,
    fig9a_rates,
    fig9b_stores,
    fig9c_slow_stream,
    fig13_conservative,
    fig14_path,
)

_FIGURES = (
    fig8_delay_by_query,
    fig9_arrival_rate,
    fig10_streams,
    fig11_predicate,
    fig12_output_time,
    fig4_relative_rate,
    fig5_buckets,
    fig6_selectivity,
    fig7_invalidation_cost,
    fig8_invalidation_memory,
    fig7_nested_loops_and_merging,
    fig8_hash_and_xjoin,
    fig9a_rates,
    fig9a_by_turns,
    fig9b_stores,
    fig9c_slow_stream,
    fig13_conservative,
    fig14_path,
    fig2b_lwo_burst,
    fig3b_swf_burst,
    fig5_distributions,
    fig6_response_by_window,
    fig7_bursts,
    fig8_bursts_by_window,
    fig9_equal_windows,
    fig3_5_backlog,
    fig3_6_rates,
    fig3_8_times,
    fig3_10_bias,
    fig4_tasks,
    fig5_3_train,
    fig5_4_slide,
    fig5_5_flush,
    fig5_7_backlog,
    fig5_8_delayed,
    fig5_9_delay,
    fig5_11_times,
    fig5_13_partitions,
    fig5_16_bias,
    fig5_17_memory,
    fig5_18_blocks,
    fig6_5_backlog,
    fig6_6_read_size,
    fig6_7_delay,
    fig6_8_disk,
    fig6_9_processed,
    fig6_10_times,
    fig6_12_memory,
    fig6_13_bias,
    fig6_invoke,
    fig6_reads,
    fig6_granularity,
)
EXPERIMENTS: dict[str, Experiment] = {each.EXPERIMENT.name: each.EXPERIMENT for each in _FIGURES}
PAPERS = {each.paper.key: each.paper for each in EXPERIMENTS.values()}
ALL = "all"


def named(text: str) -> list[Experiment]:
    """The experiments of a list with commas, each once: names of experiments, papers or beginnings of them, or all.

    The dash in a name may be left out.
    """
    chosen = [each for name in text.split(",") for each in _named(name.strip().lower())]
    return list({each.name: each for each in chosen}.values())


def of_paper(key: str) -> list[Experiment]:
    """All experiments of a paper."""
    return [each for each in EXPERIMENTS.values() if each.paper.key == key]


def _named(name: str) -> list[Experiment]:
    for each in EXPERIMENTS.values():
        if name in (each.name, each.name.replace("-", "")):
            return [each]
    if name == ALL:
        return list(EXPERIMENTS.values())
    papers = [key for key in PAPERS if name and key.startswith(name)]
    if len(papers) != 1:
        raise PlanError(f"there is no experiment `{name}`; {suggest(name, [*EXPERIMENTS, *PAPERS, ALL])}")
    return of_paper(papers[0])
