"""One module a kind, in a folder a family."""

_KINDS = {
    "loss": ("instant_burst", "gradual_rise", "divergence"),
}

MODULES: tuple[str, ...] = tuple(
    f"trainforensics.detectors.{family}.{module}" for family, modules in _KINDS.items() for module in modules
)
