"""`trainforensics import`: only normalise logs to Parquet."""

from __future__ import annotations

from trainforensics.cli import options


def import_(
    paths: options.Paths,
    out: options.Out = None,
    map_: options.Map = None,
    config: options.ConfigFile = None,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Normalise logs to Parquet, without judging them."""
    settings = options.settings_from(config, out=out, map=map_)
    from trainforensics import engine  # noqa: PLC0415  (heavy; only once there is work)
    from trainforensics.store.reader import runs_of  # noqa: PLC0415

    with options.progress_bar(show=not (quiet or no_progress)) as progress:
        imported = engine.import_paths(paths, settings, progress)
    options.notes(imported.notes, quiet=quiet)
    options.notes((f"skipped {entry.path}: {entry.reason}" for entry in imported.skipped), quiet=quiet)
    if not quiet:
        folders = runs_of(imported.store)
        for name in imported.runs:
            print(f"{name}\t{folders[name]}")
