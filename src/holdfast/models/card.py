"""The model card that goes with a packaged model: a Markdown page with a header that the Hugging Face Hub reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.models.card_facts import audit_section, data_name, data_rows, metric_rows, results, said, training_rows
from holdfast.version import __version__

LIBRARY = "holdfast"
TASK = "image-feature-extraction"
TAGS = ("image-retrieval", "metric-learning")

TEMPLATE = """---
{{ card_data }}
---

# {{ title | default("Image embedding", true) }}

Maps images to {{ "unit vectors" if unit_length | default(true) else "vectors" }}; near vectors mean the same class.
Made with holdfast {{ version }}.

## How to load

```python
from holdfast import Embedder

model = Embedder.from_pretrained("this folder or its hub id")
vectors = model(images)  # images: float in [0, 1], shape (B, 3, model.size, model.size)
```
{% if view %}
How a photograph becomes such an image (`model.view`): {{ view }}.
{% endif %}
Without holdfast and torch: `holdfast export FOLDER --onnx model.onnx` writes one graph for onnxruntime, from images in
[0, 1] to the same vectors (input `images`, output `vectors`).

## Intended use

Finding, grouping and comparing images like those it was trained on, also of classes it never saw: nearest-neighbour
search, clustering, near-duplicate search. Choose distance thresholds on images of your own.

## Out-of-scope use

- Identifying or watching people: nothing here was measured for that.
- The only lock on a door: an attacker who can change pixels can change neighbours, see Robustness.
- Images of another kind than the training data, without measuring first (`holdfast evaluate`).

## Data

{% if data %}{{ data }}.
{% if splits %}
| split | images | classes |
| --- | ---: | ---: |
{% for row in splits %}| {{ row | join(" | ") }} |
{% endfor %}{% endif %}{% else %}Not recorded.
{% endif %}
## Training

{% for key, value in training %}- {{ key }}: {{ value }}
{% else %}Not recorded.
{% endfor %}
## Clean retrieval

{% if metrics %}On {{ images }}the {{ split }} split of {{ data }}.

| metric | value |
| --- | ---: |
{% for row in metrics %}| {{ row | join(" | ") }} |
{% endfor %}{% else %}Not measured; `holdfast evaluate` does.
{% endif %}
## Robustness

{% for audit in audits %}### {{ audit.title }}

{{ audit.setting }}

| figure | value | 95 % interval |
| --- | ---: | ---: |
{% for row in audit.rows %}| {{ row | join(" | ") }} |
{% endfor %}
{% for flag in audit.flags %}- {{ flag }}
{% else %}No flags: nothing suggests that these figures mislead.
{% endfor %}
{% else %}Not measured; assume that small changes of pixels can change the neighbours at will. \
`holdfast audit` measures it.

{% endfor %}## Limits

- Figures hold for the data, split and budget stated, and for one training run; intervals cover the choice of images,
  not of the training seed.
- An audit is a bound from one side: a stronger attack may find more.
- The embedding learnt whatever biases the training images have.

## Licence

{% if license %}{{ license }}.{% else %}Not stated: ask whoever gave you this model before you use it. Its author \
sets it with `holdfast card RUN --license ID`.{% endif %}

## Citation

```bibtex
@software{holdfast, title = {holdfast: train, attack and audit image embeddings}, \
author = {{ "{{The holdfast authors}}" }}, version = {{ "{" }}{{ version }}{{ "}" }}}
```
"""

MARK = "<!-- written by holdfast; a refresh leaves a card alone that was edited by hand. "


def card_text(
    recipe: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None = None,
    audits: Sequence[Mapping[str, Any]] = (),
    log: Sequence[Mapping[str, Any]] = (),
    *,
    license: str | None = None,
    title: str | None = None,
) -> str:
    """The card of a trained model.

    Args:
        recipe: plain data of its resolved recipe.
        evaluation: what evaluation.json holds, if it was measured; `metrics` and `split` at least.
        audits: documents of its audits.
        log: lines of metrics.jsonl, for what training cost.
        license: identifier of its licence; the card says that none is stated when left out.
        title: heading; from loss and data when left out.
    """
    from huggingface_hub import ModelCard, ModelCardData

    title = heading(title or f"{said(recipe['loss']['name'])} on {data_name(recipe['data'])}")
    found = results(evaluation, audits)
    header = ModelCardData(
        library_name=LIBRARY,
        pipeline_tag=TASK,
        tags=[*TAGS],
        license=license,
        model_name=title if found else None,
        eval_results=found or None,
    )
    count = (evaluation or {}).get("images")
    text = str(
        ModelCard.from_template(
            header,
            template_str=TEMPLATE,
            title=title,
            version=__version__,
            unit_length=recipe["model"].get("normalize", True),
            view=said((evaluation or {}).get("view") or ""),
            data=data_name(recipe["data"]),
            splits=data_rows(evaluation),
            training=training_rows(recipe, evaluation, log),
            metrics=metric_rows(evaluation),
            images=f"{count:,} images of " if count else "",
            split=said((evaluation or {}).get("split")),
            audits=[audit_section(audit) for audit in audits],
            license=license,
        )
    )
    return f"{text.rstrip()}\n\n{MARK}{_digest(text)} -->\n"


def heading(title: str) -> str:
    """A title as a heading can hold it; the same when it is read back and written again."""
    return " ".join(title.split())[:120].replace("<", "&lt;")


def untouched(text: str) -> bool:
    """Whether a card still is as `card_text` wrote it."""
    body, mark, rest = text.rpartition(f"\n\n{MARK}")
    return bool(mark) and rest.strip() == f"{_digest(body)} -->"


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().replace("\r\n", "\n").encode()).hexdigest()[:16]
