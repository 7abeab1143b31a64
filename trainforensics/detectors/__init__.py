"""One module a kind, in a folder a family."""

_FAMILIES = {
    "loss": (
        "instant_burst",
        "gradual_rise",
        "divergence",
        "plateau",
        "oscillation",
        "bad_start",
        "suspicious_low_loss",
        "loss_zero",
        "periodic_data_order",
    ),
    "numerics": ("nan_onset", "transient_nan", "grad_nan", "scale_decay", "skipped_steps", "underflow"),
    "gradients": (
        "gradient_explosion",
        "vanishing_gradient",
        "clip_saturation",
        "update_ratio",
        "activation_outlier",
        "attention_collapse",
    ),
    "generalisation": ("val_divergence", "val_jump", "double_descent", "eval_regression", "eval_invalid"),
    "schedule": ("lr_anomaly", "batch_size_change"),
    "resume": ("resume_discontinuity", "import_integrity", "scale_mismatch", "checkpoint_failure"),
    "data": ("data_shift",),
    "cluster": (
        "rank_divergence",
        "straggler",
        "throughput_drop",
        "memory_growth",
        "hang",
        "hardware_fault",
        "clock_skew",
        "expert_collapse",
        "rl_collapse",
    ),
    "monitoring": ("coverage_gap",),
}

MODULES: tuple[str, ...] = tuple(
    f"trainforensics.detectors.{family}.{module}" for family, modules in _FAMILIES.items() for module in modules
)
