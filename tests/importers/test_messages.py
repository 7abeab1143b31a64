from __future__ import annotations

import pytest

from trainforensics.importers.messages import event_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 1024.0", "overflow"),
        ("loading checkpoint from: checkpoint_81275-model_part-0.pt", "checkpoint-loaded"),
        ("Loaded checkpoint (epoch 1 @ 81275 updates)", "checkpoint-loaded"),
        ("Resuming training from step 500", "restart"),
        ("skip_update", "update-skipped"),
        ("optimizer step skipped: 1 update skipped", "update-skipped"),
        ("restore", "checkpoint-loaded"),
        ("ckpt_restored", "checkpoint-loaded"),
        ("Weights loaded from out/000900", "checkpoint-loaded"),
        ("rollback", "restart"),
        ("restarting training", "restart"),
        ("restarting the learning rate at 0.04", None),
        ("job requeued", "restart"),
        ("continuing from step 900", "restart"),
        ("Saved checkpoint checkpoint_1_500.pt (epoch 1 @ 500 updates)", "checkpoint"),
        ("checkpoint_saved", "checkpoint"),
        ("checkpoint", "checkpoint"),
        ("Saving model checkpoint to out/checkpoint-500", "checkpoint"),
        ("Failsafe backup: checkpoint saved to backup_2.ckpt", "checkpoint"),
        ("failed to save checkpoint: disk full", "checkpoint-failed"),
        ("saving checkpoint failed: No space left on device", "checkpoint-failed"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", "oom"),
        ("Traceback (most recent call last):", "traceback"),
        ("RuntimeError: something; error", "error"),
        ("train_step", None),
        ("not written " * 20_000, None),
        ("checkpoint 5\nan error", "error"),
        ("end of epoch 3 (average epoch stats below)", None),
    ],
)
def test_what_messages_tell(text: str, kind: str | None) -> None:
    assert event_kind(text) == kind
