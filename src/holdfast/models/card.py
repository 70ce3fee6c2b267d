"""The model card that goes with a packaged model."""

TEMPLATE = """---
{{ card_data }}
---

# {{ title | default("Image embedding", true) }}

Maps images to unit vectors; near vectors mean the same class. Trained with holdfast.

```python
from holdfast import Embedder

model = Embedder.from_pretrained("this folder or its hub id")
vectors = model(images)  # images: float in [0, 1], shape (B, 3, {{ size | default("size", true) }}, \
{{ size | default("size", true) }})
```
{% if facts %}
## Training
{% for key, value in facts.items() %}
- {{ key }}: {{ value }}
{%- endfor %}
{% endif %}{% if metrics %}
## Clean retrieval on {{ split }} classes

| metric | value |
| --- | --- |
{%- for key, value in metrics.items() %}
| {{ key }} | {{ value }} |
{%- endfor %}
{% endif %}"""
