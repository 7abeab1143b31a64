"""Lines that name their numbers otherwise than others do, in other words: in other languages, or in none."""

from __future__ import annotations

import re

from trainforensics import roles
from trainforensics.importers.printed.text.tokens import NUMBER
from trainforensics.importers.printed.text.vocabulary import SPLITS

_WORDS = {
    "epoch": "迭代轮次 轮次 轮数 周期 エポック 에포크 에폭",
    "step": "训练步数 训练步 步数 步骤 訓練步數 ステップ 스텝 단계",
    "iteration": "迭代次数 迭代 イテレーション 반복",
    "batch": "批次 バッチ 배치",
    "episode": "回合数 回合 エピソード 에피소드",
    "train ": "训练集 训练 訓練集 訓練 学習データ 学習 훈련 학습",
    "val ": "验证集 验证 驗證集 驗證 検証 評価 검증 평가",
    "test ": "测试集 测试 測試集 測試 テスト 테스트",
    "average ": "平均",
    "total ": "总体 总",
    "loss": "损失函数 损失值 损失 損失関数 損失 ロス 손실",
    "accuracy": "准确率 准确度 正确率 精确度 準確率 正解率 精度 정확도",
    "error": "误差 誤差 오차",
    "mse": "均方误差",
    "recall": "召回率 再現率 재현율",
    "precision": "精确率 適合率 정밀도",
    "learning_rate": "学习率 學習率 学習率 학습률",
    "grad_norm": "梯度范数 梯度範數 勾配ノルム",
    "perplexity": "困惑度",
    "reward": "奖励 回报 報酬 보상",
    "success_rate": "成功率 성공률",
    "time": "耗时 用时 时间 時間 시간",
    "best ": "最佳 最好 最优",
    "improved ": "提升",
}
# Of languages that part their words; none is a word of English. "_" stands for a space.
_WHOLE_WORDS = {
    "epoch": "época epoca epoche époque epoka epocă epok epocha tijdperk korszak эпоха эпох епоха εποχή عصر",
    "epochs": "épocas epocas epochen époques epoki epoci эпохи эпохе епохи",
    "step": "paso passo schritt étape krok pas stap steg lépés askel langkah bước adım шаг крок βήμα خطوة",
    "iteration": "iteración iteracion iteração iteracao iterazione itération iteracja iterație iteratie iterace"
    " iterasyon iterasi итерация итерации ітерація",
    "batch": "lote батч",
    "train": "entrenamiento treinamento treino entraînement entrainement apprentissage addestramento trening treningowa"
    " antrenare antrenament träning treening trénování eğitim pelatihan обучение обучения обучении обучающая навчання",
    "val": "validación validacion validação validacao validierung validazione walidacja walidacyjna validare"
    " validering validatie validace validointi validasi doğrulama dogrulama валидация валидации валид валідація",
    "test": "prueba teste тест",
    "loss": "pérdida perdida perda perte perdita verlust verlies förlust strata pierdere pierderea ztráta veszteség"
    " häviö kerugian kayıp kayip kaybı kaybi потери потеря лосс втрати втрата απώλεια خسارة",
    "accuracy": "precisión exactitud acurácia acuracia précision exactitude accuratezza genauigkeit nauwkeurigheid"
    " noggrannhet dokładność dokladnosc acuratețe acuratete acuratețea přesnost pontosság tarkkuus akurasi doğruluk"
    " dogruluk doğruluğu точность точності точність ακρίβεια دقة",
    "train loss": "trainingsverlust trainingsverlies träningsförlust",
    "val loss": "validierungsverlust validatieverlies valideringsförlust",
    "test loss": "testverlust testverlies testförlust",
    "train accuracy": "trainingsgenauigkeit",
    "val accuracy": "validierungsgenauigkeit",
    "test accuracy": "testgenauigkeit",
    "error": "fehler erreur erro errore eroare błąd ошибка помилка hata",
    "learning_rate": "lernrate tasa_de_aprendizaje taxa_de_aprendizado taxa_de_aprendizagem taux_d'apprentissage"
    " tasso_di_apprendimento rata_de_învățare rata_de_invatare öğrenme_oranı leersnelheid скорость_обучения",
    "reward": "recompensa récompense belohnung ricompensa recompensă награда",
    "time": "tiempo tempo temps zeit czas timp время",
    "best": "mejor melhor meilleur meilleure beste bester bestes migliore najlepsza najlepszy cea_mai_buna cea_mai_bună"
    " лучший лучшая лучшее en_iyi",
    "bits/char": "biti/caracter bits/carácter bits/caractère bits/zeichen",
}
_ENGLISH = {
    word.replace("_", " "): english
    for table in (_WORDS, _WHOLE_WORDS)
    for english, words in table.items()
    for word in words.split()
}
_LATIN = re.compile(
    rf"\b(?:{'|'.join(sorted(' '.join(_WHOLE_WORDS.values()).split())).replace('_', ' ')})\b", re.IGNORECASE
)
_FOREIGN = re.compile(
    rf"{'|'.join(sorted(' '.join(_WORDS.values()).split(), key=len, reverse=True))}|{_LATIN.pattern}", re.IGNORECASE
)
# "loss of the training" as it stands once its words are English: "loss de train", "accuracy em val".
_OF_SPLIT = re.compile(
    r"\b(loss|accuracy|error) (?:d'|(?:d[aeiou]|del|della|des|na|no|em|en|în|van|of|på|la|al|на)(?: la| el| de)? )"
    r"(train|val|test)\b"
)
_ORDINAL = re.compile(
    r"第\s*(\d+(?:\s*/\s*\d+)?)\s*(?:个\s*)?(轮|輪|回合|步|次迭代|批|epoch|step|iter)", re.IGNORECASE
)  # "第 3 轮"
_CHINESE_IS = re.compile(r"(?<=\w)为\s?(?=[-\d])")
_COUNTS = {"轮": "epoch", "輪": "epoch", "回合": "episode", "步": "step", "次迭代": "iteration", "批": "batch"}
_PUNCTUATION = str.maketrans(
    {"：": ": ", "，": ", ", "、": ", ", "；": "; ", "！": "! ", "（": " (", "）": ") ", "＝": "=", "％": "%"}
)
_CELL = rf"\s+({NUMBER})"
_COUNTED = r"(?i:epoch|step|iter|batch|rank)"
_RESULT = (
    r"(?i:(?:(?:train|trn|tr|val|valid|va|test|dev|eval|avg)[ _])?(?:loss|nll|mse|ppl|acc|bpb|bpc)"
    r"|train|trn|tr|val|valid|va|test|dev|eval|hella)"
)
_STAMP = r"(?:\[[^\]]*\d:\d\d(?::\d\d)?\])?"  # "[May 23, 07:02:22]"
# A count that its name is glued to, at the beginning: "E01 | ...", "Epoch3: ...", "ep_12 - ...".
_GLUED_COUNT = re.compile(
    r"\s*\[?(?:(epoch|ep|iter|step)_?|E[:=]?\s?)(\d+)(?=[/\d]*\]?(?:\s*[|:,-]|\s+[a-z]\w*[ :=]))", re.IGNORECASE
)
# What must stand in the line for the expression to be tried, the expression, and the line in other words.
_FORMATS = tuple(
    (mark, re.compile(pattern), said)
    for mark, pattern, said in (
        (" data=", r"(train|val):\s*\[[^\]]*\] data=0*(\d+/)0*(\d+) (.*)", r"\1 [\2\3] \4"),  # llama.cpp
        # of weights made from those trained: "Final (post-EMA): val_loss=4.11 val_bpb=1.59"
        ("val_loss", r"([A-Za-z]\w*) \(([\w-]+)\): ?(val_loss[=:].*)", r"\1_\2 \3"),
        # WeNet
        (" Batch ", r"(.*)\bCV (?:\| )?Batch (\d+)/(\d+) (loss .*?)(?: history loss .*)?",
         r"\1CV epoch: \2 [\3/\3] \4"),
        (" Batch ", r"(.*)\bTRAIN Batch (\d+)/(\d+) (.*)", r"\1TRAIN epoch: \2, batch: \3, \4"),
        (" CV info ", rf"(.*)\bEpoch (\d+) (?:Step \d+ )?CV info (?:.* )?cv_loss ({NUMBER}).*",
         r"\1CV epoch: \2, loss: \3"),
        ("network-snapshot-", rf"network-snapshot-(\d+) .*?\s([a-z]+\d*\w*)\s+({NUMBER})(?:\s.*)?",  # StyleGAN2
         r"iteration \1, val/\2=\3"),
        ("Progress: ", r"Progress:\s+[\d.]+%\s+(words/sec/thread:.*?)(?:\s+ETA:.*)?", r"\1"),  # fastText
        ("(- ", rf"\s*\d+m \d+s \(- ?\d+m \d+s\) \((\d+) \d+%\) ({NUMBER})$", r"iteration \1, loss=\2"),
        (" objective function for ",  # Kaldi, which maximises it
         rf".*objective function for '([\w-]+)' for minibatches \d+-(\d+) is ({NUMBER}) over .*",
         r"minibatch \2, objf/\1=\3"),
        (" sequences (",  # EESEN: the logarithm of a probability, which is maximised
         rf".*\bAfter (\d+) sequences \({NUMBER}Hr\): Obj\(log\[Pzx\]\) = -({NUMBER})\s+TokenAcc = ({NUMBER})%\s*",
         r"step \1, nll=\2, TokenAcc=\3"),
        ("lr=", rf"\s*\.+\s+(\d+) ({NUMBER}) ({NUMBER}) {NUMBER}s \(.*\) (lr={NUMBER})",  # Taiyaki: one dot a batch
         r"iteration \1, loss=\2, smoothed_loss=\3, \4"),
        (" ends with loss ", rf"\s*(Training|Validation|Test) batch (\d+) ends with loss ({NUMBER})\.",  # KotlinDL
         r"\1 batch: \2, loss: \3"),
        ("SamplesPerSec=", r"(.*?\])\s*\d+/\d+, (\w*SamplesPerSec=.*)", r"\1 \2"),  # DeepSpeed's engine of its pace
        # of DeepSpeed's examples, whose engine counts its updates as steps
        (" with Perplexity: ", rf"\s*Step at (\d+) with Perplexity: ({NUMBER})", r"iteration \1, val/perplexity: \2"),
        (" with Perplexity: ", rf"\s*Epoch at (\d+) with Perplexity: ({NUMBER})", r"epoch \1, val/perplexity: \2"),
        (" of piece ", r".*?\bStep (\d+) of piece (\d+) of epoch (\d+)(.*)", r"epoch \3, piece \2, step \1\4"),
        ("learn", rf"\s*(\d+):\s+learn:? ({NUMBER})(?:\s+test:? ({NUMBER}))?(?:\s.*|passed: .*)",  # CatBoost
         r"iteration \1, learn=\2, test/learn=\3"),
        ("Evaluating ", r"\[ITER (\d+)\] Evaluating (\w+): L1 (\S+) PSNR (\S+).*",
         r"iteration \1, \2/l1_loss=\3, \2/psnr=\4"),  # Gaussian splatting
        ("# ", rf"\s*# (\w+): ({NUMBER})(?:\s+Best: .*)?", r"val/\1=\2"),  # BasicSR
        ("Minibatch[", rf"\s*Minibatch\[\s*\d+-\s*(\d+)(?:, [\d.]+%)?\]: (\w+ = {NUMBER}) \* \d+,?(.*?);?\s*",
         r"minibatch \1, \2, \3"),  # CNTK
        ("Pseudo dice [", r"(.*)Pseudo dice \[(.*)\]", r"\1Pseudo dice: [\2]"),  # nnU-Net
        # torch_xla's examples, several devices in one text
        ("Device=xla:", r"(.*)\bDevice=xla:\d+/(\d+) (.*)", r"[rank\2] \1\3"),
        ("[xla:", r"\[xla:(\d+)\]\((\d+)\) (\w+=.*)", r"[rank\1] step=\2 \3"),
        # VITS, under "Train Epoch: 1 [0%]": the losses in the order of its code, then the step and the learning rate
        ("[",
         rf"(.*?)\[({NUMBER}), ({NUMBER}), ({NUMBER}), ({NUMBER}), (?:({NUMBER}), )?({NUMBER}), (\d+),"
         r" (\d*\.\d+|\d\S*e-\d+)\]",
         r"\1step: \8, lr: \9, loss/disc: \2, loss/gen: \3, loss/fm: \4, loss/mel: \5, loss/dur: \6, loss/kl: \7"),
        ("Tensor ", rf"Tensor (\w+) of type \w+\. Dims: \([\d,]*\): ({NUMBER})", r"\1: \2"),  # Caffe2
        ("[Metrics] ", r"(.*)\[Metrics\] (.*)", r"\1[Valid] \2"),  # FuxiCTR's evaluation
        ("] loss", rf"(EPOCH\[\d+/\d+\]) loss({NUMBER})-\|(.*)", r"\1 loss: \2 |\3"),  # LightGCN
        # NGCF: the loss as a sum, and what an evaluation found
        ("train==[", rf"(Epoch \d+) \[[^\]]*\]: train==\[({NUMBER})=[^\]]*\]", r"\1: train_loss=\2"),
        ("train==[", rf"(Epoch \d+) \[[^\]]*\]: train==\[({NUMBER})=[^\]]*\], (recall=.*?),"
         r" (precision=.*?), (hit=.*?), (ndcg=.*)",
         r"\1: train_loss=\2, val/\3, val/\4, val/\5, val/\6"),
        # YOLOv7's results.txt: epoch, memory, losses, labels, image size, scores, held-out losses
        ("G ", r"\s*(\d+)/\d+\s+([\d.]+)G" + 4 * _CELL + r"\s+\d+\s+\d+" + 7 * _CELL + r"\s*",
         r"epoch \1: box_loss=\3, obj_loss=\4, cls_loss=\5, total_loss=\6, val/precision=\7, val/recall=\8,"
         r" val/mAP50=\9, val/mAP50-95=\g<10>, val/box_loss=\g<11>, val/obj_loss=\g<12>, val/cls_loss=\g<13>,"
         r" gpu_mem_gb=\2"),
        ("Step ", rf"\s*Step\s+(\d+): (train|eval)\s+(\w+) \|\s+({NUMBER})", r"step \1, \2/\3: \4"),  # Trax
        # YOLACT: epoch, iteration, losses by their first letters, of which T is the total
        (" || ", rf"\s*\[\s*(\d+)\]\s+(\d+) \|\| (.*) \| T: ({NUMBER}) \|\| ETA: .* \|\| timer: ({NUMBER})",
         r"epoch \1, iter \2, \3, total_loss: \4, iter_time: \5"),
        # TFLearn's second line of a step, under "Training Step: 650  | total loss: 0.5 | time: 0.3s"
        (" -- iter: ", r"\s*\| \w+ \| epoch: 0*(\d+) \| (.*) -- iter: \d+/\d+", r"epoch \1, \2"),
        ("s/epoch", rf"\s*({NUMBER}) ?s/epoch", r"epoch time: \1"),
        (", ", rf"(.*?\b(?i:epoch|step|iter(?:ation)?)), (\d+), ({NUMBER})(?:, ({NUMBER}(?:, {NUMBER})*))?",
         r"\1 \2, loss: \3, others: [\4]"),  # without names
        (":", rf"\s*((?i:epoch|step|iter(?:ation)?) \d+):({NUMBER})", r"\1: \2"),
        ("]: ", rf"\s*((?i:epoch|step|iter(?:ation)?) \[\d+/\d+\]): ((?=\S*\.){NUMBER})", r"\1 loss: \2"),
        (", numImages:", r"\s*\[Epoch: (\d+), numImages: +\d+\]", r"epoch \1"),  # over the results of its data
        # of PyTorch's tutorials
        (" of the ",
         r"(.*?)(?:[Tt]he )?(?:(?:[Aa]verage|[Mm]ean|[Tt]est|[Vv]alidation) )?(?i:(accuracy|error|loss)) of the"
         r" (?:network|model|net|classifier) on (?:the |all )?(?:\d+ )?(train|test|validation|val|eval)(?:ing)?"
         rf" (?:images|samples|examples|data|set|dataset|[A-Za-z]+(?=:)) *(?:is)?\s?[:=]?\s*({NUMBER})\s?%?\s*",
         r"\1\3_\2: \4"),
        ("#", r"#(\d+)(?=[\s:|])(.*=.*)", r"iteration \1 \2"),
        # a count alone before a result: "0 train 10.9" of build-nanogpt, "100: loss 2.5 lr 1e-3", "0/ 200000: 3.5"
        (" ", rf"{_STAMP}\s*(\d+):?\s+({_RESULT})\s+({NUMBER})((?:,?\s+[A-Za-z][\w/]*[ =:]+{NUMBER}\w*)*)"
         r"(?: \([\d.]+s\))?\s*",
         r"iteration \1, \2=\3,\4"),
        # a loss, as it is beside its bits: "eval 200: train 1.55 | val 1.53 | 2.21 bpc"
        ("eval ", rf"\s*eval (\d+): train ({NUMBER})(?: +\||,) +val ({NUMBER}) +\| +({NUMBER}) (bp[bc])",
         r"iteration \1, train_loss=\2, val_loss=\3, val/\5=\4"),
        ("/", rf"\s*(\d+)/ +(\d+): ((?=\S*\.){NUMBER})\s*", r"iteration \1/\2, loss: \3"),  # makemore
        (":", rf"\s*((?i:episode) \d+) ?: ((?=\S*\.){NUMBER})\s*", r"\1, reward: \2"),
        # a pair of the training's and the evaluation's: "loss (train/val): 0.5/0.75", "train/val loss = 0.5 / 0.75"
        ("/", rf"(.*?)\b(\w+) \((train\w*)/(val\w*|test|dev)\)\s*[:=]\s*({NUMBER})\s*/\s*({NUMBER})(?!\S*\d)(.*)",
         r"\1\3_\2: \5, \4_\2: \6\7"),
        ("/", rf"(.*?)\b(train\w*)/(val\w*|test|dev) (\w+)\s*[:=]\s*({NUMBER})\s*/\s*({NUMBER})(?!\S*\d)(.*)",
         r"\1\2_\4: \5, \3_\4: \6\7"),
        # print(i, loss) and print(loss) of what is minimised
        ("grad_fn=", rf"\s*(\d+)[:,]? +tensor\(\[?({NUMBER})[^()]*\)\s*", r"iteration \1, loss: \2"),
        ("grad_fn=", rf"\s*tensor\(\[?({NUMBER})[^()]*\)\s*", r"loss: \1"),
        # what a function of an evaluation gave, the loss first: "(tensor(2.5), <TrainState object at 0x7f>)"
        (" object at 0x", rf"\s*\(tensor\(({NUMBER})[^()]*\), <[^<>]*>\)\s*", r"loss: \1"),
        (" tensor(", rf"\s*(\d+)[:,]? +tensor\(\[?({NUMBER})[^()]*\)\s*", r"\1 \2"),
        ("|Iter", r"(.*)\b(Train|Val|Test)\|Epoch(\d+)/\d+\|Iter(\d+)\(\d+/\d+\)\|(.*?)\|?\s*",  # NanoDet
         r"\1\2 epoch: \3, iter: \4, \5"),
        # what TensorFlow and psutil tell of memory
        ("current: ", rf".*\b(?i:memory)\b.*\b(?i:gpu|device)\b.*?current: ({NUMBER})\w*, peak: ({NUMBER})\w*\s*",
         r"gpu_memory: \1, peak_gpu_memory: \2"),
        ("available: ",
         rf".*\b(?i:memory)\b.*?total: ?{NUMBER}\w*, available: ?({NUMBER})\w*, percent: ?({NUMBER})%?\s*",
         r"host_memory_available: \1, host_memory_percent: \2"),
        ("earning rate ",
         rf"(.*?)\b[Ll]earning rate (?:is |was )?(?:annealed|reduced|decreased|decayed|adjusted|updated|changed|set) to"
         rf":?\s+({NUMBER})\.?\s*",
         r"\1learning_rate: \2"),
        ("Score=", rf"\s*(Rank=\d+) Node=\S+ Score=({NUMBER})\s*", r"\1 relative_performance_score=\2"),  # NVRx
        (" nats", rf"\s*(?:[-=]*>)?\s*(train|val|valid|test|dev|eval):? ({NUMBER}) nats\b.*", r"\1 loss: \2"),
        (" [", rf"\s*(\d+): +(\[(?!{_COUNTED})[A-Za-z][\w ]*: .*)", r"iteration \1 \2"),
        (" [", rf"\s*(\d+)-(\d+) +(\[(?!{_COUNTED})[A-Za-z][\w ]*: .*)", r"epoch \1, batch \2, \3"),
    )
)  # fmt: skip
# Pairs as Python prints them: "('step', 5, 'loss', 0.5)", "OrderedDict([('step', 5), ('loss', 0.5)])".
_PAIR = rf"\(?'([\w/ .-]+)', ({NUMBER})\)?"
_LISTED_PAIRS = re.compile(rf"(?:OrderedDict\()?\[{_PAIR}(?:, {_PAIR})*\]\)?")  # among others
_PAIRS = re.compile(rf"(?:OrderedDict)?[(\[]+{_PAIR}(?:, {_PAIR})+[)\]]*\s*")


# What measured is said before an arrow: "Speech -> WER=0.25 | CER=0.125".
_ARROW = re.compile(rf"\s*([A-Za-z]\w*) +-> ((?:[A-Za-z][\w ]*={NUMBER}(?: \| |, |\s*$))+)")
# A number right before the next name, "idx: 0loss: 2.5".
_GLUED = re.compile(
    r"(?<=\d)(?=(?:(?:train|val|valid|test|dev)(?: [a-z]\w{0,4})?[ _]?)?(?:loss|acc|accuracy|lr|error|reward)\s?[:=])",
    re.IGNORECASE,
)
# Pairs go on in a dictionary: "dev | avg_loss: 2.5 | {'rougeL': 7.25}".
_GOES_ON_INSIDE = re.compile(
    rf"(.*(?:loss|ppl|perplexity)\s?[:=]\s*{NUMBER}\W+)\{{('[\w.@-]+': {NUMBER}(?:, '[\w.@-]+': {NUMBER})*)\}}\s*"
)
# Those of an evaluation behind those of the training: "epoch 1: {'loss': 0.5} val: {'loss': 0.75}".
_MEMBERS = rf"'[\w.@/-]+': {NUMBER}(?:, '[\w.@/-]+': {NUMBER})*"
_TWO_DICTIONARIES = re.compile(
    rf"(.*\{{{_MEMBERS}\}})\W*(val|valid|validation|eval|test|dev)\w*\W*\{{({_MEMBERS})\}}\s*", re.IGNORECASE
)
# One of several held-out sets: "Img Val | Loss: 0.5 | Dice: 0.75".
_OF_SET = re.compile(
    r"\s*(?!(?:train|final|best|epoch|step|loss)\b)([A-Za-z]\w*) (val|valid|validation|test|eval)\s*\| "
    rf"((?:[A-Za-z][\w ]*: {NUMBER}(?: *\| +|\s*$))+)",
    re.IGNORECASE,
)
# Flower's results of a round, on the server's data: "fit progress: (1, 2.5, {'accuracy': 0.5}, 12.5)".
_FLOWER = re.compile(rf"fit progress: \((\d+), ({NUMBER}), \{{(.*)\}}, {NUMBER}\)")
# What an evaluator gave for each part of the data: "{'Train': 0.5, 'Validation': 0.25}".
_SPLIT_SCORES = re.compile(
    rf"\s*\{{('(?:{'|'.join(SPLITS)})': {NUMBER}(?:, '(?:{'|'.join(SPLITS)})': {NUMBER})+)\}}\s*", re.IGNORECASE
)
_NESTED = re.compile(rf"'([\w-]+)': \{{({_MEMBERS})\}}")  # "{'train': {'loss': 0.5}, 'val': {'loss': 0.75}}"
_NUMBERS_OF = re.compile(rf"(\w+)=\{{('[\w.-]+': {NUMBER}(?:, '[\w.-]+': {NUMBER})*)\}}(?=\s+\w+=)")


# How long the parts of the step before took, by the timers of Megatron and DeepSpeed.
_TIMED = re.compile(r"(.*?)(?:\brank=(\d+) )?time \(ms\) \|((?: [A-Za-z][\w -]*: [-+.\deE]+(?: \||$))+)\s*")
_TIMER = re.compile(r"([A-Za-z][\w -]*): ")
# What was set anew: "learning rate 0.0002 -> 0.000198", "loss scale: 65536 --> 32768".
_SET_ANEW = re.compile(
    rf"(.*?)\b([A-Za-z](?:[\w ]*\w)?)\s*[:=]?\s+(?:from )?{NUMBER} *(?:[-=]+>|→) *({NUMBER})[.;]?\s*"
)
# Numbers as most of Europe writes them: "Verlust=2,3000 Zeit=3,2s".
_DECIMAL_COMMA = re.compile(r"(?<=[=: ])(-?\d+),(\d+)(?=%|[a-z]*(?:$|[\s;|)]))")
_UNLIKE_THOUSANDS = re.compile(r"[=:]\s*-?\d+,(?!\d{3}(?!\d))\d+(?=%|[a-z]*(?:$|[\s;|)]))")
_DECIMAL_POINT = re.compile(r"\d\.\d")
_ARE_SET = frozenset({"learning_rate", "loss_scale", "batch_size", "weight_decay", "momentum", "loss_weight"})
_LONGEST = 4_000


def other_words(line: str) -> str:
    """The line as most programs would have said it; itself, if that is how it is said or if it is very long."""
    if len(line) > _LONGEST:
        return line
    if not line.isascii() or _LATIN.search(line) is not None:
        line = in_english(line)
    if len(_DECIMAL_COMMA.findall(line)) > 1 and _UNLIKE_THOUSANDS.search(line) and not _DECIMAL_POINT.search(line):
        line = _DECIMAL_COMMA.sub(r"\1.\2", line)
    for mark, pattern, said in _FORMATS:
        if mark in line and (found := pattern.fullmatch(line)) is not None:
            return found.expand(said)
    if "time (ms) |" in line and (found := _TIMED.fullmatch(line)) is not None:
        rank = f"[rank {found[2]}] " if found[2] else ""
        return f"{found[1]}{rank}{_TIMER.sub(_timer, found[3])}"
    if (found := _SET_ANEW.fullmatch(line)) is not None and roles.resolve(found[2]).role in _ARE_SET:
        return f"{found[1]}{found[2]}: {found[3]}"
    if (parted := _GLUED.sub(" ", line)) != line:
        return parted
    if (found := _GLUED_COUNT.match(line)) is not None:
        return f"{found[1] or 'epoch'} {found[2]}{line[found.end() :]}"
    return _without_dictionaries(line)


def _without_dictionaries(line: str) -> str:
    """What stands in dictionaries, in pairs and behind arrows as names and numbers."""
    if line.count("{'") > 1 and (found := _TWO_DICTIONARIES.fullmatch(line)) is not None:
        held_out = re.sub(r"'([^']+)'", rf"{found[2]}/\1", found[3])
        return re.sub("[{}']", "", found[1]) + f", {held_out}"
    if "{'" in line and (found := _GOES_ON_INSIDE.fullmatch(line)) is not None:
        return found[1] + found[2].replace("'", "")
    if " | " in line and (found := _OF_SET.fullmatch(line)) is not None:
        return re.sub(r"(^|\| +)(?=[A-Za-z])", rf"\1{found[2]}/{found[1]}/", found[3])
    if "fit progress: (" in line and (found := _FLOWER.search(line)) is not None:
        results = found[3].replace("'", "")
        return f"round {found[1]} | validation | loss: {found[2]}, {results}"
    if "': {'" in line:
        line = _NESTED.sub(
            lambda found: found[2].replace("'", f"'{found[1]}/", 1).replace(", '", f", '{found[1]}/"), line
        )
    if "[('" in line:
        line = _LISTED_PAIRS.sub(
            lambda found: ", ".join(f"{name}: {value}" for name, value in re.findall(_PAIR, found[0])), line
        )
    if "{'" in line and (found := _SPLIT_SCORES.fullmatch(line)) is not None:
        return re.sub(r"'(\w+)'", r"\1 score", found[1])
    if "={'" in line:
        line = _NUMBERS_OF.sub(lambda found: _named(found[1], found[2]), line)
    if " -> " in line and (found := _ARROW.fullmatch(line)) is not None and found[1].lower() not in SPLITS:
        return re.sub(r"(^|\| |, )(?=[A-Za-z])", rf"\1{found[1]}/", found[2])
    if "('" in line and _PAIRS.fullmatch(line):
        return ", ".join(f"{name}={value}" for name, value in re.findall(_PAIR, line))
    return line


def _named(name: str, members: str) -> str:
    """The members of a dictionary among pairs, "grad_norm={'a': 0.5, 'b': 2.5}", as pairs of their own."""
    return " ".join(f"{name}/{key}={value}" for key, value in re.findall(rf"'([\w.-]+)': ({NUMBER})", members))


def _timer(found: re.Match[str]) -> str:
    return f"timers/{found[1].strip().replace(' ', '-')}: "


def in_english(line: str) -> str:
    """The line with what counts and what is measured in English, where it names them in another language."""
    if _FOREIGN.search(line) is None and _ORDINAL.search(line) is None:
        return line
    line = _ORDINAL.sub(lambda found: f"{_COUNTS.get(found[2], found[2])} {found[1]} ", line.translate(_PUNCTUATION))
    line = _CHINESE_IS.sub(": ", line)
    line = _FOREIGN.sub(lambda found: _ENGLISH[found[0].lower()], line)
    return _OF_SPLIT.sub(r"\2 \1", line)
