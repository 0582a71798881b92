"""SummEval, REALSumm and Newsroom: summaries of news rated by people, as collected in the repository of BARTScore."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables
from goldless.apps.datasets.plain_pickle import read_plain_pickle

REPOSITORY = "neulab/BARTScore"
COMMIT = "248f511cb34ae3753fc81f7d7a945de5bfe33458"
LICENCE = "Apache-2.0"
PROMPT = "Summarise this article.\n\n"


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study; each criterion is a label, the mean of the people who rated it."""
    (content,) = files.values()
    articles = read_plain_pickle(content)
    tasks, responses, labels = [], [], []
    for number, (source, article) in enumerate(articles.items()):
        task = f"t{number}"
        tasks.append(
            {"task": task, "prompt": PROMPT + article["src"], "reference": article["ref_summ"], "source": str(source)}
        )
        for agent, summary in article["sys_summs"].items():
            responses.append({"task": task, "agent": agent, "text": summary["sys_summ"]})
            for criterion, score in summary["scores"].items():
                labels.append(
                    {"task": task, "agent": agent, "rater": "people", "criterion": criterion, "score": float(score)}
                )
    return {"tasks": pl.DataFrame(tasks), "responses": pl.DataFrame(responses), "labels": pl.DataFrame(labels)}


SUMMEVAL = Dataset(
    name="summeval",
    question="How coherent, consistent, fluent and relevant is a summary? Rated by experts.",
    size="16 systems, 100 articles",
    licence=LICENCE,
    citation="Fabbri et al. 2021, SummEval: Re-evaluating Summarization Evaluation",
    repository=REPOSITORY,
    commit=COMMIT,
    files=(
        SourceFile(
            "SUM/SummEval/data.pkl", 1176833, "008f1639a3352f0248cac88b74ff431c27287a027a888902ef425a26005f0acf"
        ),
    ),
    convert=convert,
)
REALSUMM = Dataset(
    name="realsumm",
    question="How much of what people found important does a summary say? Pyramid recall.",
    size="24 systems, 100 articles",
    licence=f"{LICENCE}; texts CC BY 4.0",
    citation="Bhandari et al. 2020, Re-evaluating Evaluation in Text Summarization",
    repository=REPOSITORY,
    commit=COMMIT,
    files=(
        SourceFile(
            "SUM/REALSumm/data.pkl", 1510489, "1f9c97d27e8fe3ade81f76ea33dc6d3b5b333a602b1c568130306039bd701942"
        ),
    ),
    convert=convert,
)
NEWSROOM = Dataset(
    name="newsroom",
    question="How coherent, fluent, informative and relevant is a summary? Rated by people.",
    size="7 systems, 60 articles",
    licence=LICENCE,
    citation="Grusky et al. 2018, Newsroom: A Dataset of 1.3 Million Summaries with Diverse Extractive Strategies",
    repository=REPOSITORY,
    commit=COMMIT,
    files=(
        SourceFile("SUM/Newsroom/data.pkl", 419155, "277795f19d17fef0077061708d468e020c90071854508e774f4addae8a4a0ed5"),
    ),
    convert=convert,
)
