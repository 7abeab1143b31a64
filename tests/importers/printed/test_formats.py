"""What programs print in their own way: counters with unknown names, tables, other languages, bars drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import Read, read

from trainforensics.importers import console
from trainforensics.importers.base import read_head

LOSSES = (3.5, 3.25, 3.125, 2.75, 2.5, 2.25)
OTHERS = (0.5, 0.625, 0.75, 0.875, 1.25, 1.5)
BAR = "{:3d}%|###       | {}/60 [00:10<00:10,  5.00it/s]\n"


def read_text(tmp_path: Path, text: str) -> Read:
    """What the importer makes of a text that it recognises."""
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8", newline="")
    assert console.sniff(read_head(path)) >= 0.3
    return read(console, path)


def rows(template: str) -> str:
    """A line (or several) a row, filled with its number `i`, its `loss`, and another number `x`."""
    return "".join(
        template.format(i=i, loss=loss, x=x) + "\n" for i, (loss, x) in enumerate(zip(LOSSES, OTHERS, strict=True))
    )


def assert_steps(result: Read, name: str, steps: list[int], values: tuple[float, ...] = LOSSES) -> None:
    series = result.series[name]
    assert (series.number_steps, series.numbers.tolist()) == (steps, list(values)), name


BY_TEN = [0, 10, 20, 30, 40, 50]
BY_ONE = [0, 1, 2, 3, 4, 5]

# Template of the rows, name of the loss, its steps.
LINES: dict[str, tuple[str, str, list[int]]] = {
    "who counts": ("gd step {i:03d}0 | mse = {loss}", "mse", BY_TEN),
    "names of unknown meaning": ("it {i:6d}0  total {loss:.4e}  pde {x:.1e}", "total", BY_TEN),
    "a name with a hyphen before the count": ("L-BFGS iter {i}: f = {loss}, |grad| = {x}", "f", BY_ONE),
    "a function's name": ("train_opt_callback: iter={i:6d} sample=1/9 sched=0.1 loss={loss} |->", "loss", BY_ONE),
    "several words before the count": ("main: opt iter {i}0, loss {loss}", "loss", BY_TEN),
    "symbols": ("i={i}0 f={loss:.6e} |g|={x:.3e}", "f", BY_TEN),
    "one number without a colon": ("Iteration {i}, inertia {loss}.", "inertia", BY_ONE),
    "ticks": ("tick {i:<5d} kimg {i}0.4     time {i}m 05s       sec/tick {loss}    gpumem 1.5", "sec/tick", BY_TEN),
    "rounds": ("[ROUND {i}] train loss = {loss} | test acc = {x}", "train loss", BY_ONE),
    "generations": ("gen {i:4d}  best {loss}  mean {x}", "best", BY_ONE),
    "thousands": ("step {i}k loss {loss} ppl {x} (1.5s/it)", "loss", [0, 1000, 2000, 3000, 4000, 5000]),
    "a share in words": ("Step {i}0 of 500: loss = {loss}, time = {x}s", "loss", BY_TEN),
    "a share of zeros in brackets": ("[{i:05d}0/100000] loss {loss} (avg {x}) lr 0.1 1.2k tok/s", "loss", BY_TEN),
    "a hash": ("#{i}0 loss={loss} lr={x}", "loss", BY_TEN),
    "the value behind its count": ("Cost after iteration {i}0: {loss}", "Cost", BY_TEN),
    "the epoch behind the loss": ("Loss after epoch {i}: {loss}", "Loss", BY_ONE),
    "a number with a comma before a comma": (
        "completed step: {i}, Tokens/s: 12,345.5, weights: 65536, loss: {loss}", "loss", BY_ONE),
    "JAX arrays": ("{{'step': {i}0, 'loss': Array({loss}, dtype=float32), 'lr': 0.1}}", "loss", BY_TEN),
    "tuples": ("('step', {i}0, 'loss', {loss})", "loss", BY_TEN),
    "an ordered dictionary": ("OrderedDict([('step', {i}0), ('loss', {loss}), ('lr', 0.1)])", "loss", BY_TEN),
    "Chinese": ("轮次 {i}，损失：{loss}，准确率：{x}", "loss", BY_ONE),
    "Chinese ordinals": ("第 {i} 轮 训练损失: {loss} 验证损失: {x}", "train loss", BY_ONE),
    "Japanese": ("エポック {i}/8 損失: {loss} 検証損失: {x}", "loss", BY_ONE),
    "Korean": ("에폭 {i}: 손실 = {loss}, 정확도 = {x}", "loss", BY_ONE),
    "Russian": ("Эпоха {i}: потери = {loss}, точность = {x}", "loss", BY_ONE),
    "Spanish without accents": (
        "Epoca {i}: perdida de entrenamiento: {loss}, perdida de validacion: {x}", "train loss", BY_ONE),
    "Portuguese": ("Época {i}/9 - perda: {loss} - acurácia: {x} - perda de validação: {x}", "loss", BY_ONE),
    "German compounds": ("Epoche {i}: Trainingsverlust: {loss}, Validierungsverlust: {x}", "train loss", BY_ONE),
    "Ukrainian": ("Епоха {i}: втрати = {loss}, точність = {x}", "loss", BY_ONE),
    "Japanese training": ("エポック {i}: 学習損失: {loss} 検証損失: {x}", "train loss", BY_ONE),
    "Spanish": ("Época {i}/50, pérdida={loss}", "loss", BY_ONE),
    "Italian": ("Epoca {i}/5 - Loss: {loss}", "Loss", BY_ONE),
    "German": ("[W2V] Epoche {i}/9  Loss={loss}  Zeit=21s", "Loss", BY_ONE),
    "Turkish": ("Epok {i} | Kayıp: {loss} | Doğruluk: {x}", "loss", BY_ONE),
    "Polish": ("Epoka {i}/10: Czas: 476s | loss: {loss}", "loss", BY_ONE),
    "a result without a mark": ("epoch {i} train loss: {x} valid loss {loss} mse 1.5", "valid loss", BY_ONE),
    "a count before brackets": ("{i}:  [D loss: {loss}, acc: 0.5] [A loss: {x}, acc: 0.0]", "D loss", BY_ONE),
    "a bare count before brackets": ("{i} [D loss: {loss}, acc.: 50.00%] [G loss: {x}]", "D loss", BY_ONE),
    "an epoch and a batch before brackets": ("0-{i} [D loss: {loss}, acc.: 19.2%] [G loss: {x}]", "D loss", BY_ONE),
    "an iteration in brackets behind the epoch's": ("[99/100][{i}0] Loss_F: {loss} Loss_G: {x}", "Loss_F", BY_TEN),
    "who counts before a bracket": (
        "GAN,SN,hinge: [Iter {i}0/30000] [D loss: {loss}/0.142/0.035] [G loss: {x}/0.089/0.021]", "D loss", BY_TEN),
    "glog without a time": ("I1203 solver.cpp:66] Iteration {i}0, loss = {loss}", "loss", BY_TEN),
    "a notebook's log": ("2078.{i}s\t8{i}\tFold 0 | Epoch {i} | Train Loss: {loss} | Val Dice: {x}", "Train Loss",
                         BY_ONE),
    "megabytes of several devices": (
        "[Step {i}0] Loss: 2.5 | GPU: [0:12345MB|95%] [1:12340MB|94%] | Time: {loss}m (ETA: 2h 30m)", "Time", BY_TEN),
    "the global step behind the name": ("Total reward in global step {i}0: {loss}", "Total reward", BY_TEN),
    "a sentence about an episode": (
        "Episode {i} finished after 85 steps with total reward: {loss}", "total reward", BY_ONE),
    "Kaldi": (
        "LOG (nnet3-train[5.5]:Print():nnet-training.cc:320) Average objective function for 'output' for minibatches "
        "{i}00-{i}99 is {loss} over 12800 frames.", "objf/output", [99, 199, 299, 399, 499, 599]),
    "llama.cpp": (
        "train: [█████] data=00000{i}0/0000080 loss={loss}±0.00412 acc=45.00±0.10% t=00:00:03", "loss", BY_TEN),
    "a short day and a time in brackets": (
        "[I 210629 00:29:43 models:110] epoch {i} train loss: {loss} valid loss: {x} P@1: 0.5", "train loss", BY_ONE),
    "a day with its year in brackets": (
        "[ Wed Jun  6 16:01:0{i} 2018 ] \tBatch({i}0/1879) done. Loss: {loss}  lr:0.1", "Loss", BY_TEN),
    "a time alone": ("02:31:5{i}: train iter: {i}0 loss_net: {loss} norm: {x} seconds: 122.9", "loss_net", BY_TEN),
    "a time before a thread and a class": (
        "10:00:0{i}.123 [main] INFO  o.d.o.l.ScoreIterationListener - Score at iteration {i}0 is {loss}",
        "Score", BY_TEN),
    "a day and minutes with hyphens": ("2021-02-23-19-0{i}: epoch: {i} |tot {loss} | hm {x} | time 9 |", "tot", BY_ONE),
    "a printed string of R": (
        "[1] \"[{i}]:  train's binary_logloss:{loss}  valid's binary_logloss:{x}\"", "train's binary_logloss", BY_ONE),
    "dots behind what counts": ("Epoch... ({i}/116 | Loss: {loss})      ", "Loss", BY_ONE),
    "epoch and iteration under one name": (
        "[04/14 10:41:59 fastreid.utils.events]:  eta: 1:05:44  epoch/iter: 1/{i}0  total_loss: {loss}  lr: 3.50e-04",
        "total_loss", BY_TEN),
    "a sum of updates": (
        "[ time:2.0s total_exs:540 ] {{'mean_loss': {loss}, 'gnorm': {x}, 'updates': 18, 'total_train_updates': {i}0}}",
        "mean_loss", BY_TEN),
    "a sum of steps beside those of the episode": (
        "Episode {i} | Steps: 12{i} | Loss: {loss} | Total Steps: {i}000 | Eval: {x}",
        "Loss", [0, 1000, 2000, 3000, 4000, 5000]),
    "a share of what is processed, and its epoch behind": (
        "Process {i}00/3161({i}.163556%) global average objf: {loss} over 573696.0 frames, epoch 0",
        "global average objf", [0, 100, 200, 300, 400, 500]),
    "a range of minibatches": (
        " Minibatch[   1- {i}9]: loss = {loss} * 6400, metric = 12.5% * 6400;", "loss", [9, 19, 29, 39, 49, 59]),
    "a count at the end": (
        "I0301 10:00:00.123456 140012 terminal.py:91] [Learner] Critic Loss = {loss} | Steps = {i}0 | Walltime = {x}",
        "Critic Loss", BY_TEN),
    "a count in the plural": ("iterations: {i}0, training error: {loss}", "training error", BY_TEN),
    "metrics of an evaluation alone": (
        "2024-08-26 15:48:5{i},003 epoch {i} tested, Recall@20: {loss}, NDCG@20: {x}", "Recall@20", BY_ONE),
    "a bar without an end that declares its step": (
        "Epoch #1: 1000{i}it [00:12, 812.32it/s, env_step={i}0, loss={loss}, rew={x}]", "loss", BY_TEN),
    "a dictionary of scores behind its epoch": (
        "03/01/2024 10:00:0{i} - INFO - __main__ - epoch {i}: {{'accuracy': {loss}, 'f1': {x}}}",
        "val/accuracy", BY_ONE),
    "a dictionary of losses by component": ("Losses {{'ner': {loss}}}", "Losses/ner", [1, 2, 3, 4, 5, 6]),
    "a dictionary of tensors with unknown losses": (
        " (gan_trainer:202) INFO: {{'discriminator_loss': tensor([{loss}], device='cuda:0')}}",
        "discriminator_loss", [1, 2, 3, 4, 5, 6]),
    "an identifier and its value a line": (
        "progress  epoch 1  step {i}0  image/sec 35.7  remaining 1m\ngen_loss_GAN 1.5\ngen_loss_L1 {loss}",
        "gen_loss_L1", BY_TEN),
    "a table with single blanks": ("{i} {loss} {x} 0.5 00:12", "train_loss", BY_ONE),
    "a table with durations": ("{i}  {loss}  {x}  50.1%  2m12s", "train_loss", BY_ONE),
    "a table drawn with lines": ("│ {i} │ {loss} │ {x} │ 0.5 │ 1 │", "train_loss", BY_ONE),
    "a table behind a logger": (
        "2024-05-01 10:00:00,123 - INFO - {i}  {loss}  {x}  0.5  12", "train_loss", BY_ONE),
}  # fmt: skip
HEADER = "epoch train_loss valid_loss accuracy time\n"


@pytest.mark.parametrize("name", LINES)
def test_lines(name: str, tmp_path: Path) -> None:
    template, series, steps = LINES[name]
    header = HEADER if "table" in name else ""
    assert_steps(read_text(tmp_path, header + rows(template)), series, steps)


def test_of_two_counts_the_one_that_rises(tmp_path: Path) -> None:
    text = "".join(f"Episode {i}0\tAvg: {loss}\tSteps:  {900 - i}  Secs:  13\n" for i, loss in enumerate(LOSSES))
    assert_steps(read_text(tmp_path, text), "Avg reward", BY_TEN)


@pytest.mark.parametrize(
    "line", ["Train loss {i} {loss} Grad Norm 0.5 1.20s/it", "{i}:\t{loss}", "loss: ({i}, {loss})"]
)
def test_counts_and_numbers_under_an_epoch(line: str, tmp_path: Path) -> None:
    text = "Epoch: 0\n" + "".join(line.format(i=i, loss=2.5 + i / 8) + "\n" for i in range(12))
    result = read_text(tmp_path, text)
    name = next(name for name in result.series if name.endswith("loss"))
    assert_steps(result, name, list(range(12)), tuple(2.5 + i / 8 for i in range(12)))


def test_results_of_two_trials(tmp_path: Path) -> None:
    text = rows(
        "Result for PPO_0:\n  counters:\n    num_agent_steps_trained: 4{i}00\n  date: 2022-07-27_15-41-01\n"
        "  done: false\n  episode_reward_mean: {loss}\n  info:\n    learner:\n      learner_stats:\n"
        "        cur_lr: 4.99e-05\n        total_loss: {x}\n  timesteps_total: {i}0\n  training_iteration: {i}\n  \n"
        "Result for PPO_1:\n  episode_reward_mean: 2.5\n  timesteps_total: {i}0\n\n"
    )
    result = read_text(tmp_path, text)
    assert_steps(result, "episode_reward_mean", BY_TEN)
    assert_steps(result, "learner_stats/total_loss", BY_TEN, OTHERS)
    assert_steps(result, "PPO_1/episode_reward_mean", BY_TEN, (2.5,) * 6)


def test_a_header_without_a_count_under_one(tmp_path: Path) -> None:
    ruler = "=" * 60
    text = rows(
        f"\nEpoch: 00{{i}} - 025\n{ruler}\n        d1    abs_rel       rmse   rmse_log \n"
        f"    {{loss}}     {{x}}     2.8657     7.8043 \n{ruler}"
    )
    result = read_text(tmp_path, text)
    assert_steps(result, "d1", BY_ONE)
    assert_steps(result, "abs_rel", BY_ONE, OTHERS)


def test_averages_of_boxes_and_masks(tmp_path: Path) -> None:
    average = " Average Precision  (AP) @[ IoU={} | area={:>6} | maxDets=100 ] = {}\n"
    text = "".join(
        f"Epoch: [{i}] [750/756] learning_rate: 0.02 loss: {loss} eta: 4 days, 4:01:00\n"
        "Evaluate annotation type *bbox*\n" + average.format("0.50:0.95", "all", 0.25 + i / 8)
        + average.format("0.50     ", "all", 0.5) + average.format("0.50:0.95", "small", "-1.000")
        + "Evaluate annotation type *segm*\n" + average.format("0.50:0.95", "all", 0.125)
        for i, loss in enumerate(LOSSES)
    )  # fmt: skip
    result = read_text(tmp_path, text)
    steps = [750 + 756 * i for i in range(6)]
    assert_steps(result, "val/bbox_AP", steps, tuple(0.25 + i / 8 for i in range(6)))
    assert_steps(result, "val/segm_AP", steps, (0.125,) * 6)
    assert not any(name.endswith("small") for name in result.series)


def test_a_header_of_two_columns_between_lines(tmp_path: Path) -> None:
    assert_steps(read_text(tmp_path, "┃ Step ┃ Loss ┃\n" + rows("│ {i}0 │ {loss} │")), "Loss", BY_TEN)


def test_a_header_with_commas(tmp_path: Path) -> None:
    assert_steps(read_text(tmp_path, "starting\nstep,loss,lr\n" + rows("{i}0,{loss},{x}")), "loss", BY_TEN)


def test_columns_of_training_and_validation(tmp_path: Path) -> None:
    log = "2020-01-01 10:00:30,000 - INFO - allennlp.common.tensorboard - "
    text = rows(
        f"2020-01-01 10:00:00,000 - INFO - allennlp.training.trainer - Epoch {{i}}/7\n"
        f"{log}          Training |  Validation"
        f"\n{log}gpu_0_memory_MB  |  4123.000  |       N/A\n{log}loss      |     {{loss}}  |     {{x}}"
    )
    result = read_text(tmp_path, text)
    assert_steps(result, "training loss", BY_ONE)
    assert_steps(result, "validation loss", BY_ONE, OTHERS)


def test_a_progressive_loss(tmp_path: Path) -> None:
    header = "average  since         example        example  current  current  current\n"
    header += "loss     last          counter         weight    label  predict features\n"
    result = read_text(tmp_path, header + rows("{loss} {x}            {i}0 {i}0.0   1.0000   0.1122       13"))
    assert_steps(result, "average loss", BY_TEN)
    assert_steps(result, "loss since last", BY_TEN, OTHERS)


def test_the_line_of_all_classes(tmp_path: Path) -> None:
    text = rows(
        "      Epoch    GPU_mem   box_loss  Instances\n"
        "        {i}/5      3.2G    {loss}    100: 100%|###| 8/8 [00:10<00:00,  1.25s/it]\n"
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
        "100%|###| 4/4 [00:02<00:00,  1.8it/s]\n"
        "                   all        128        929       0.6      0.5      {x}      0.25"
    )
    result = read_text(tmp_path, text)
    assert_steps(result, "box_loss", BY_ONE)
    assert_steps(result, "val/mAP50", BY_ONE, OTHERS)


def test_batches_go_on_in_the_next_pass(tmp_path: Path) -> None:
    text = "".join(f"Pass {i // 3}, Batch {i % 3}00, Cost {loss}, {{'error': 0.5}}\n" for i, loss in enumerate(LOSSES))
    assert_steps(read_text(tmp_path, text), "Cost", [0, 100, 200, 300, 400, 500])


def test_a_last_batch_out_of_step_ends_its_epoch(tmp_path: Path) -> None:
    batches = (0, 100, 150, 0, 100, 150)
    text = "".join(
        f"epoch: {i // 3}, batch: {batch}, loss: {loss}\n"
        for i, (batch, loss) in enumerate(zip(batches, LOSSES, strict=True))
    )
    assert_steps(read_text(tmp_path, text), "loss", [0, 100, 150, 151, 251, 301])


def test_a_count_of_right_answers_is_no_iteration(tmp_path: Path) -> None:
    result = read_text(tmp_path, rows("Epoch: 0 | Batch_idx: {i}0 |  Loss: ({loss}) | Acc: (45.00%) (1234/5678)"))
    assert_steps(result, "Loss", BY_TEN)


def printed(loss: float) -> str:
    return f"{{'loss': {loss}, 'learning_rate': 0.1, 'epoch': 0.5}}\n"


def test_rows_behind_bars_that_are_drawn_once(tmp_path: Path) -> None:
    text = "".join(BAR.format(i * 16, i * 10) + printed(loss) for i, loss in enumerate(LOSSES, 1))
    assert_steps(read_text(tmp_path, text), "loss", [10, 20, 30, 40, 50, 60])


@pytest.mark.parametrize("behind", [0, 3, 5])
def test_rows_before_bars_that_are_drawn_again(tmp_path: Path, behind: int) -> None:
    text = "".join(
        f"\r{BAR.format(i, i * 10 - behind)}{printed(loss)}\r{BAR.format(i, i * 10)}"
        for i, loss in enumerate(LOSSES, 1)
    )
    assert_steps(read_text(tmp_path, text), "loss", [10, 20, 30, 40, 50, 60])


def test_bars_of_epochs_that_lines_between_them_tell_apart(tmp_path: Path) -> None:
    result = read_text(tmp_path, rows("Epoch {i}/5\nloss: {loss} ||: 100%|####| 50/50 [00:10<00:00,  5.00it/s]"))
    assert_steps(result, "loss", [50, 100, 150, 200, 250, 300])


def test_bars_in_another_language(tmp_path: Path) -> None:
    result = read_text(tmp_path, rows("训练:  10%|█   | {i}0/80 [00:01<00:10,  9.9it/s, 损失={loss}]"))
    assert_steps(result, "loss", BY_TEN)


def test_an_evaluation_that_says_it_with_a_blank_alone(tmp_path: Path) -> None:
    assert_steps(read_text(tmp_path, rows("step {i}0 loss {loss}\n>>> val loss {x}")), "val loss", BY_TEN, OTHERS)


def test_idle_lines_hide_no_record(tmp_path: Path) -> None:
    """The rows of a table look like numbers that said nothing before its header."""
    numbers = "1 2.5 2.25\n2 2.5 2.25\n"
    text = f"{numbers}worker 3 is here\nworker 4 is here\n{HEADER}" + rows(
        "worker {i} is here\n{i} {loss} {x} 0.5 00:12"
    )
    assert_steps(read_text(tmp_path, text), "train_loss", BY_ONE)


def test_names_that_no_count_tells_of_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(
        "gd step 3 | size = 2.5\ngd step 3 | size = 2.5\ngd step 3 | size = 2.5\n"
        "solver iter 9  res 2.5  dt 0.5\nsolver iter 5  res 2.5  dt 0.5\nsolver iter 7  res 2.5  dt 0.5\n"
    )
    assert not read(console, path).series
