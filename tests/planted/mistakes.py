"""All mistakes."""

from __future__ import annotations

from planted import in_accumulators, in_answers, in_kernels, in_operators, in_plans, in_stores

MISTAKES = (
    *in_operators.MISTAKES,
    *in_accumulators.MISTAKES,
    *in_kernels.MISTAKES,
    *in_stores.MISTAKES,
    *in_plans.MISTAKES,
    *in_answers.MISTAKES,
)
