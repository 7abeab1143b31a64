from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainforensics.errors import UsageError
from trainforensics.roles import RoleMatch, are_losses, check_role, lower_is_better, resolve, resolve_all, roles

# Names as trainers write them: Hugging Face, TRL, Megatron, DeepSpeed, fairseq, metaseq, NeMo, Lightning, Keras,
# torchtitan, mmengine, Detectron2, verl, Stable-Baselines3, nanoGPT, llm.c, ms-swift, OLMo, Composer, MaxText, kohya.
NAMES: dict[str | None, tuple[str, ...]] = {
    "train_loss": (
        "loss", "train/loss", "Train_Loss", "metrics/train_loss", "total_loss", "lm loss", "lm loss vs samples",
        "loss (current)", "Loss/train", "Loss_train/Loss", "rank0/loss", "loss_rank3", "loss/rank_3",
        "metrics/train/LanguageCrossEntropy", "loss/train/total", "loss_metrics/global_avg_loss",
        "train/per_token_loss", "avr_loss", "trl", "g_loss", "loss/G", "train_loss_step", "train_loss_epoch",
        "train_logloss", "running_loss", "nll_loss", "train/CrossEntropyLoss", "learning/loss",
        "reduced_train_loss", "global_avg_loss", "Training Loss", "batch_loss", "epoch_loss", "trainLoss",
        "domain/wiki/loss", "train/loss/domain/wiki", "loss_per_token", "L", "Cost", "l_pix",
        "training's binary_logloss", "rmse_trn",
    ),
    "grad_norm": (
        "grad_norm (average)", "gnorm", "grdn", "grad-norm", "Grad/norm", "gradient_norm", "total_norm",
        "optim/total_grad_norm", "grad/norm/total", "l2_norm/grad/global",
        "l2_norm/grad/model.layers.0.attn.weight", "grad_norm/h.0.attn", "grad_norm/layer_0", "gradients/layer_3",
        "|g|", "grad_norm_0 (current)",
        "norm", "encoder_grad_norm", "learning/grad_norm", "grad_2.0_norm_total", "grad_2.0_norm/layer.0.weight",
    ),
    "val_loss": (
        "Loss/val", "Loss_val/Loss", "eval_loss", "val/loss", "valid_loss", "validation/loss", "eval_wikitext_loss",
        "eval/wikipedia/loss", "eval/paloma/macro_loss", "metrics/eval/LanguageCrossEntropy", "loss/eval/total",
        "eval/c4_en-validation/CrossEntropyLoss", "val_loss_epoch", "val/loss_step", "Validation Loss", "Vali Loss",
        "validation/epoch_loss", "loss_val", "validLoss", "valloss", "val_L1", "test_l2", "metrics/test_l2",
    ),
    None: (
        "val_box_loss", "loss_cls", "loss_rpn_bbox", "policy_loss", "value_loss", "loss/value_loss",
        "entropy_loss",
        "train/entropy_loss", "train/policy_gradient_loss", "loss_metrics/global_max_loss",
        "d_loss", "loss/D", "accuracy", "fast_rcnn/cls_accuracy", "perplexity", "token_acc", "tok_norm", "pos_norm",
        "linear_probe/loss", "knn/k",
        "valid_code_perplexity", "valid_prob_perplexity", "val/codebook_perplexity", "val/vq/perplexity",
        "ppl", "temperature", "eta_seconds", "percentage", "eval_runtime", "val/batch_cost",
        "eval_samples_per_second", "eval_steps_per_second", "train_runtime", "grad_norm_clip", "max_grad_norm",
        "layers.3/loss", "loss_0", "D/L", "train/Perplexity", "timing/train/z", "training/global_step",
        "trainer/global_step", "global_step", "mean_token_accuracy", "sources/web/ratio", "gpu_mem_free",
    ),
    "load_balance_loss": (
        "aux_loss", "load_balancing_loss", "moe_aux",
    ),
    "kl": (
        "kl_loss", "train/approx_kl", "actor/ppo_kl", "kl", "objective/kl",
    ),
    "loss_scale": (
        "loss_scale", "loss scale", "Fp16 Grad Scale",
    ),
    "attention_entropy": (
        "attn/entropy_l0", "attn/l3/entropy",
    ),
    "step_time": (
        "perf/step_time_rank2", "elapsed time per iteration (ms)", "time", "dt", "perf/step_time_seconds",
        "train_step_timing in s",
    ),
    "expert_load": (
        "expert_3/load", "moe/load_e3", "moe/load_expert_3", "tokens_per_expert/3", "moe/expert_0_load",
        "expert_max_util",
    ),
    "router_entropy": (
        "moe/router_entropy",
    ),
    "tokens_per_sec": (
        "wps", "tok/s", "tok/sec", "tps", "throughput/device/tokens_per_sec", "train_speed(iter/s)",
        "throughput per GPU (TFLOP/s/GPU)", "perf/per_device_tflops", "tokens_per_second_per_gpu",
    ),
    "learning_rate": (
        "lr", "lr-AdamW", "lr-DecoupledAdamW/group0", "lr-AdamW/pg1", "learning_rate/group0",
        "optim/learning_rate_group0", "optim/lr", "lrm",
    ),
    "update_ratio": (
        "optim/update_ratio",
    ),
    "reward": (
        "critic/rewards/mean", "rollout/ep_rew_mean", "train/reward", "rewards/margins", "win_rate",
    ),
    "activation_norm": (
        "actv_norm", "model/layers.11/act_norm",
    ),
    "val_metric": (
        "probe/general_accuracy", "knn_acc", "ssl/linear_probe_top1",
        "val_acc", "val/error", "eval/mmlu_acc", "bbox_mAP", "bbox/AP", "val_ppl", "val_fid",
        "metrics/lambada_openai/0-shot/InContextLearningLMAccuracy", "test/acc", "eval_mean_token_accuracy",
        "eval/mean_reward",
    ),
    "gpu_memory": (
        "memory(GiB)", "System/Peak GPU Memory (MB)", "system.gpu.3.memory", "peak_memory",
    ),
    "gpu_temperature": (
        "system.gpu.0.temp",
    ),
    "gpu_util": (
        "system/gpu.0.gpu", "gpu0/util",
    ),
    "host_memory": (
        "rss_mb",
    ),
    "batch_size": (
        "global batch size", "bsz", "wpb", "tokens",
    ),
    "skipped_steps": (
        "number of skipped iterations", "skipped",
    ),
    "nan_count": (
        "number of nan iterations",
    ),
    "dataloader_time": (
        "data_time",
    ),
    "epoch": (
        "time/epoch", "epoch",
    ),
    "overflow": (
        "overflow",
    ),
    "clip_ratio": (
        "clip", "train/clip_ratio",
    ),
    "mfu": (
        "mfu", "bf16_mfu",
    ),
    "reward_std": (
        "Std of Reward",
        "rewards/accuracy_reward/std",
        "train/reward_std",
    ),
    "entropy": (
        "train/entropy",
    ),
    "seq_len": (
        "train/completion_length",
    ),
    "source": (
        "data/stage",
    ),
    "z_loss": (
        "train/z_loss", "aux/z_loss/layer_2",
    ),
    "param_norm": (
        "param_norm", "rank0/param_norm",
    ),
    "tokens_seen": (
        "consumed_samples",
    ),
    "activation_std": (
        "activations/layer_3/std",
    ),
    "activation_mean": (
        "activations/h.0/mean",
    ),
    "attention_logit_max": (
        "attn/max_logit_l1",
    ),
    "dead_fraction": (
        "act/dead_frac_l2",
    ),
    "optimizer_state_norm": (
        "optimizer/exp_avg_sq_norm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["train/pinball", "crps", "logloss"])
def test_a_loss_by_its_own_name_stands_in_where_none_is_called_loss(name: str) -> None:
    assert resolve_all([name, "lr", "epoch"])[name].role == "train_loss"


@pytest.mark.parametrize(("name", "role"), [(name, role) for role, names in NAMES.items() for name in names])
def test_names_of_common_trainers(name: str, role: str | None) -> None:
    assert resolve(name).role == role


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("rank0/loss", RoleMatch("train_loss", rank=0)),
        ("loss_rank3", RoleMatch("train_loss", rank=3)),
        ("loss/rank_3", RoleMatch("train_loss", rank=3)),
        ("loss_dp3", RoleMatch("train_loss", rank=3)),
        ("allreduce_wait_ms_rank2", RoleMatch("barrier_wait", rank=2)),
        ("local_grad_norm/rank3", RoleMatch("grad_norm", rank=3)),
        ("training_batch_wer", RoleMatch()),
        ("sparsity", RoleMatch()),
        ("activation_sparsity/layer_3", RoleMatch("dead_fraction", layer="layer_3")),
        ("train/metrics/mAP50(B)", RoleMatch("val_metric")),
        ("perf/step_time_rank12", RoleMatch("step_time", rank=12)),
        ("system.gpu.3.temp", RoleMatch("gpu_temperature", rank=3)),
        ("grad_norm/h.0.attn", RoleMatch("grad_norm", layer="h.0.attn")),
        ("gradients/layer_3", RoleMatch("grad_norm", layer="layer_3")),
        ("attn/entropy_l0", RoleMatch("attention_entropy", layer="l0")),
        ("l2_norm/grad/model.layers.0.attn.weight", RoleMatch("grad_norm", layer="layers.0.attn.weight")),
        ("rank1/grad_norm/layer_2", RoleMatch("grad_norm", rank=1, layer="layer_2")),
        ("expert_3/load", RoleMatch("expert_load", expert=3)),
        ("tokens_per_expert/3", RoleMatch("expert_load", expert=3)),
        ("moe/expert_0_load", RoleMatch("expert_load", expert=0)),
        ("eval/wikipedia/loss", RoleMatch("val_loss", domain="wikipedia")),
        ("eval_wikitext_loss", RoleMatch("val_loss", domain="wikitext")),
        ("eval/mmlu_acc", RoleMatch("val_metric", domain="mmlu")),
        ("train/loss/domain/wiki", RoleMatch("train_loss", domain="wiki")),
    ],
)
def test_what_else_a_name_says(name: str, match: RoleMatch) -> None:
    assert resolve(name) == match


def test_a_bare_gradient_is_its_norm_where_no_other_name_says_so() -> None:
    assert resolve_all(["hinge", "grad"])["grad"].role == "grad_norm"
    assert resolve_all(["hinge", "grad", "grad_norm"])["grad"].role is None


def test_the_mean_among_statistics_of_episodes_is_that_of_returns() -> None:
    columns = ["steps", "episodes", "mean", "median", "stdev", "max", "min", "average_value"]
    assert {name: m.role for name, m in resolve_all(columns).items() if m.role} == {
        "mean": "reward", "stdev": "reward_std",
    }  # fmt: skip
    assert resolve_all([name for name in columns if name != "episodes"])["mean"].role is None
    assert resolve_all([*columns, "episode_reward"])["mean"].role is None


def test_a_component_or_a_running_mean_yields_to_the_total() -> None:
    alone = resolve_all(["train/nll_loss", "lr"])
    assert alone["train/nll_loss"].role == "train_loss"
    beside = resolve_all(
        ["train/nll_loss", "loss_epoch", "train/loss", "eval/nll_loss", "lr-AdamW/pg1", "lr-AdamW/pg0"]
    )
    assert {name for name, match in beside.items() if match.role == "train_loss"} == {"train/loss"}
    assert beside["eval/nll_loss"].role == "val_loss"
    assert beside["lr-AdamW/pg1"].role is None and beside["lr-AdamW/pg0"].role == "learning_rate"


def test_further_names_win_over_the_table() -> None:
    extra = {"Objective/Main": "train_loss", "loss": "none"}
    assert resolve("trainer/objective/main", extra).role == "train_loss"
    assert resolve("train/loss", extra).role is None
    assert resolve("val_loss", extra).role == "val_loss"
    assert resolve("x_rank2", {"x_rank2": "step_time"}) == RoleMatch("step_time", rank=2)


def test_an_unknown_role_is_refused_with_its_neighbours() -> None:
    with pytest.raises(UsageError, match="train_loss"):
        resolve("anything", {"anything": "trainloss"})
    check_role("grad_norm")


def test_direction_of_metrics() -> None:
    assert lower_is_better("eval/perplexity") and lower_is_better("val/error") and lower_is_better("val_fid")
    assert not lower_is_better("eval/mmlu_acc") and not lower_is_better("bbox_mAP")


@given(st.text(max_size=40))
def test_any_name_resolves(name: str) -> None:
    assert resolve(name).role in {None, *roles()}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("timers/optimizer_gradients", None),
        ("timing_s/reward", None),
        ("timers/batch-generator", "dataloader_time"),
        ("timers/backward_inner", "step_time"),
        ("timers/backward_allreduce", "barrier_wait"),
        ("elapsed_time_per_iteration_ms", "step_time"),
        ("data_load_time_s", "dataloader_time"),
        ("optim_step_time", None),
    ],
)
def test_times(name: str, role: str | None) -> None:
    assert resolve(name).role == role


@given(st.sampled_from(sorted(name for names in NAMES.values() for name in names)))
def test_case_and_separators_of_folders_do_not_matter(name: str) -> None:
    assert resolve("metrics/" + name).role == resolve(name).role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("time/batch", None),
        ("epoch_step", None),
        ("batch_cost", "step_time"),
        ("reader_cost", "dataloader_time"),
        ("L.r.", "learning_rate"),
        ("rate", "learning_rate"),
        ("rate_2048_500", None),
        ("success rate", "val_metric"),
        ("learn", "train_loss"),
        ("AverageEpRet", "reward"),
    ],
)
def test_what_older_and_smaller_trainers_call_it(name: str, role: str | None) -> None:
    assert resolve(f"eval/{name}" if role == "val_metric" else name).role == role


def test_of_two_weak_names_the_mean_gives_way() -> None:
    found = resolve_all(["Train-CrossEntropy", "epoch/Train-CrossEntropy"])
    assert [found[name].role for name in found] == ["train_loss", None]


def test_the_plainest_loss_stands_in_where_none_is_known() -> None:
    """By a word that says so, the fewest further words first; never an evaluation, nor beside a reward."""
    found = resolve_all(["ssl/invariance", "ssl/cov_loss_head", "ssl/loss_a", "val/hinge_loss", "lr"])
    assert {name for name, match in found.items() if match.role == "train_loss"} == {"ssl/loss_a"}
    for name in ("hinge_loss", "cos_loss", "node_ce", "mse_SI", "loss/train_mean50", "loss/huber"):
        assert resolve_all([name, "lr", "grad_norm"])[name].role == "train_loss"
        assert resolve_all([name, "loss"])[name].role is None
        assert resolve_all([name, "reward"])[name].role is None
        assert resolve_all([name, "lr"], {name: "none"})[name].role is None


def test_what_the_user_unmaps_stays_unmapped() -> None:
    """Also by the last part of a name, in another case."""
    assert resolve_all(["ssl/Hinge_Loss", "lr"], {"hinge_loss": "none"})["ssl/Hinge_Loss"].role is None
    assert resolve_all(["grad", "loss"])["grad"].role == "grad_norm"
    assert resolve_all(["grad", "loss"], {"Grad": "none"})["grad"].role is None


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (("train", "val", "lr"), {"train": "train_loss", "val": "val_loss", "lr": "learning_rate"}),
        (("Train", "Test"), {"Train": "train_loss", "Test": "val_loss"}),
        (("Loss", "Train", "Val"), {"Loss": "train_loss", "Val": "val_metric"}),
        (("train", "val", "test"), {}),
        (("recon", "val_recon"), {"recon": "train_loss", "val_recon": "val_loss"}),
        (("loss", "recon"), {"loss": "train_loss"}),
        (("G", "D", "GP"), {"G": "train_loss"}),
        (("G", "lr"), {"lr": "learning_rate"}),
        (("G_GAN", "G_L1", "D_real"), {"G_L1": "train_loss"}),
        (("critic_loss", "actor_loss"), {"critic_loss": "train_loss"}),
        (("critic_loss", "reward"), {"reward": "reward"}),
        (("train", "val", "hella"), {"train": "train_loss", "val": "val_loss", "hella": "val_metric"}),
        (("train", "val_acc"), {"val_acc": "val_metric"}),
        (("Loss Discriminator", "Loss Encoder", "Loss Decoder"), {"Loss Decoder": "train_loss"}),
        (
            ("Train-SmoothL1", "Validation-SmoothL1"),
            {"Train-SmoothL1": "train_loss", "Validation-SmoothL1": "val_loss"},
        ),
        (("Train Loss", "Val Loss", "F1"), {"Train Loss": "train_loss", "Val Loss": "val_loss", "F1": "val_metric"}),
        (("train_loss", "val_loss", "ppl"), {"train_loss": "train_loss", "val_loss": "val_loss"}),
        (("loss", "val_loss", "f1"), {"loss": "train_loss", "val_loss": "val_loss"}),
        (("train_loss", "val_loss", "train_f1", "f1"), {"train_loss": "train_loss", "val_loss": "val_loss"}),
        (("Verification error", "loss"), {"Verification error": "val_loss", "loss": "train_loss"}),
        (("fitness_mean", "fitness_best", "fitness_std"), {"fitness_mean": "reward"}),
    ],
)
def test_names_that_mean_a_loss_where_no_other_does(names: tuple[str, ...], known: dict[str, str]) -> None:
    assert {name: match.role for name, match in resolve_all(names).items() if match.role} == known


def test_a_running_mean_is_the_loss_where_the_loss_itself_was_logged_far_less_often() -> None:
    names = {"Train Loss": 5, "Running Avg Loss": 50}
    assert resolve_all(names, points=names)["Running Avg Loss"].role == "train_loss"
    assert resolve_all(names)["Running Avg Loss"].role is None
    assert resolve_all(names, points={"Train Loss": 25, "Running Avg Loss": 50})["Running Avg Loss"].role is None


def test_one_side_of_preference_pairs_is_no_reward() -> None:
    names = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"]
    assert [name for name, match in resolve_all(names).items() if match.role] == ["rewards/margins"]
    assert resolve("num_tokens").role == "tokens_seen"


def test_lost_games_are_no_loss() -> None:
    assert resolve_all(["eval_win", "eval_draw", "eval_loss"])["eval_loss"].role is None
    assert resolve_all(["eval_draw", "eval_loss"])["eval_loss"].role == "val_loss"


@pytest.mark.parametrize(("name", "role"), [("current_iters", None), ("iters", None), ("iter/s", "tokens_per_sec")])
def test_a_count_in_the_plural_is_no_rate(name: str, role: str | None) -> None:
    assert resolve(name).role == role


def test_the_parts_of_a_detectors_loss_stand_in_where_no_total_is_logged() -> None:
    names = ["train/box_loss", "train/cls_loss", "val/box_loss", "val/cls_loss", "metrics/recall(B)"]
    parts = resolve_all(names)
    assert [(parts[name].role, parts[name].domain) for name in names] == [
        ("train_loss", "box"), ("train_loss", "cls"), ("val_loss", "box"), ("val_loss", "cls"), ("val_metric", None),
    ]  # fmt: skip
    total = resolve_all([*names, "train/loss"])
    assert [name for name in total if total[name].role] == ["train/loss"]
    assert resolve_all(["box", "obj", "cls", "total"])["total"] == RoleMatch("train_loss", weak=True)
    assert resolve_all(["cls", "total"])["total"].role is None


@pytest.mark.parametrize(
    ("names", "loss"),
    [
        (["ppl", "acc", "valid ppl"], "ppl"),
        (["Train perplexity", "lr"], "Train perplexity"),
        (["perplexity", "loss"], "loss"),
        (["hm", "wh", "tot"], "tot"),
    ],
)
def test_what_stands_in_for_a_training_loss(names: list[str], loss: str) -> None:
    found = resolve_all(names)
    assert [name for name in names if found[name].role == "train_loss" and found[name].domain is None] == [loss]


@pytest.mark.parametrize(
    ("name", "role"),
    [("Recall@20", "val_metric"), ("NDCG@10", "val_metric"), ("train/recall@20", None), ("Acc@1", None),
     ("Hits@10", "val_metric"), ("R@1", "val_metric"), ("top1_t2i", "val_metric"), ("i2t_r5", "val_metric"),
     ("r1", None), ("Data (current)", "dataloader_time"), ("loss_i2t", None), ("t2i_acc", None),
     ("Avg_Reward_100", "reward"), ("reward_1", None)],
)  # fmt: skip
def test_ranked_metrics_and_rewards_over_many_episodes(name: str, role: str | None) -> None:
    assert resolve(name).role == role


def test_val_and_test_alone_are_scores_beside_train_and_a_loss() -> None:
    found = resolve_all(["Loss", "Train", "Val", "Test"])
    assert [(found[n].role, found[n].domain) for n in ("Loss", "Train", "Val", "Test")] == [
        ("train_loss", None), (None, None), ("val_metric", None), ("val_metric", "Test"),
    ]  # fmt: skip
    assert resolve_all(["Train", "Val"])["Val"].role == "val_loss"


def test_fastai_measures_what_is_no_loss_on_held_out_data() -> None:
    names = ["epoch", "train_loss", "valid_loss", "accuracy"]
    assert resolve_all(names)["accuracy"].role == "val_metric"
    fairseq = resolve_all([*names, "ppl", "train_ppl"])
    assert {fairseq[name].role for name in ("accuracy", "ppl", "train_ppl")} == {None}
    assert resolve_all(["epoch", "train_loss", "accuracy"])["accuracy"].role is None


def test_losses_of_one_run_without_a_known_one() -> None:
    assert are_losses(["d_adv_loss", "f_slf_loss", "f_cyc_loss"])
    assert not are_losses(["unit_cost", "price", "quantity"])
    assert not are_losses(["val_box_loss"])


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("perf/ram_util_percent", "host_memory"),
        ("info/learner/default_policy/learner_stats/total_loss", "train_loss"),
        ("info/learner/default_policy/learner_stats/vf_loss", None),
        ("val_dice_coef", "val_metric"),
        ("dice_coef", None),
        ("val_iou_score", "val_metric"),
        ("sparsity/dead_features", "dead_fraction"),
        ("sparsity/mean_passes_since_fired", None),
        ("sparsity/layer1", "dead_fraction"),
        ("train/loss/reward", None),
        ("train/reward", "reward"),
        ("total_weights", "batch_size"),
        ("seconds", "step_time"),
        ("gpu_seconds", None),
    ],
)
def test_names_of_trainers_for_policies_world_models_and_features(name: str, role: str | None) -> None:
    assert resolve(name).role == role


def test_the_only_loss_of_a_log_is_its_loss_whatever_part_it_is_elsewhere() -> None:
    found = resolve_all(["train/lr", "train/box_loss", "val/box_loss"])
    assert (found["train/box_loss"].role, found["val/box_loss"].role) == ("train_loss", "val_loss")
    beside = resolve_all(["train/box_loss", "loss", "val/box_loss"])
    assert (beside["loss"].role, beside["train/box_loss"].role) == ("train_loss", None)


def test_an_iteration_of_the_loader_is_no_step_where_the_passes_are_timed_beside_it() -> None:
    names = ["iter_time", "forward_time", "backward_time", "optim_step_time", "train_time"]
    found = {name: match.role for name, match in resolve_all(names).items()}
    assert found == dict.fromkeys(names, None) | {"iter_time": "dataloader_time", "train_time": "step_time"}
    assert resolve_all(["iter_time", "train_time"])["iter_time"].role == "step_time"
    assert resolve_all(names, {"iter_time": "step_time"})["iter_time"].role == "step_time"


def test_a_monitor_of_episodes_holds_returns_and_lengths() -> None:
    assert {name: m.role for name, m in resolve_all(["r", "l", "t"]).items()} == {"r": "reward", "l": None, "t": None}
    assert resolve_all(["l"])["l"].role == "train_loss"


def test_a_generators_loss_under_the_folder_of_its_game() -> None:
    found = resolve_all(["gan/d_loss", "gan/g_loss", "gan/d_real"])
    assert [name for name, mapping in found.items() if mapping.role == "train_loss"] == ["gan/g_loss"]
