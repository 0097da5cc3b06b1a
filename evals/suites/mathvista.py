"""MathVista (testmini): mathematics in pictures, for a drafter that sees and a verifier that only reads.

Source: Lu et al. 2024 (MathVista) and its release; CC BY-SA 4.0, for testing only. The verifier's view has
the released caption and detected text in the image's place, as AsymSpec's paper has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages

from ..attached import Attached, AttachedFiles, image_part
from ..reading import Row
from ..records import Output, Record, Score
from ..sample import LongPart, Sample
from ..scorers.mathvista import Problem, extract, normalised
from ..scorers.mathvista_prompts import query_of
from ..suite import Asker, Judge, Result, Suite
from .loading import with_own_ids
from .mathvista_release import Images, Release, image_text

__all__ = ["MathVista"]

QUESTION_TYPES = ("multi_choice", "free_form")
ANSWER_TYPES = ("text", "integer", "float", "list")
GROUPS = ("language", "source", "category", "task", "context", "grade")
BETWEEN_SKILLS = " + "


class MathVista(Suite):
    """MathVista's testmini. One message: the image, then the official query.

    Where all who read the arm's full view see (`Asker.sees_images`), it holds the image; else it holds the
    image's text, and the output's trajectory says which it was and what the text is made of. The compressed
    view holds the text, whole in the default view (in the view `none`: the image, for those who see). So a
    drafter that sees drafts for a verifier that only reads; for two models that only read, both views are the
    same unless the view shortens the text, as `truncate@100` does.

    Groups are the official ones; `skills`, of which a problem has several, are joined by " + ".
    """

    name = "mathvista"
    title = "MathVista (testmini)"
    metric = "accuracy"
    may_use_judge = True
    default_views = ("truncate@1",)
    source = "HF AI4Math/MathVista, texts from GitHub lupantech/MathVista; CC BY-SA 4.0, test use only"
    max_tokens = 512

    def __init__(self) -> None:
        self.files = AttachedFiles()
        self._images: Images | None = None

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """The samples of testmini, from the hub or a local copy (`Release.of`).

        Raises ConfigurationError naming the row and field that is missing or out of its range.
        """
        release = Release.of(path)
        self._images = release.images
        return with_own_ids([self._sample(row, release) for row in release.rows])

    def answer(self, sample: Sample, asker: Asker) -> Output:
        """One call. An image without released text is read by OCR for whoever does not see it."""
        text, made_of = str(sample.details["image_text"]), str(sample.details["image_text_from"])
        data = self._image(sample) if asker.sees_images or made_of == "none" else None
        if made_of == "none":
            read = self.files.read(str(sample.details["image"]), data)
            text, made_of = read.text, "own ocr" if read.is_complete else "none"
        image = image_part(data) if asker.sees_images and data is not None else None
        shown = Attached(text, image)
        content = [shown.part(asker.sees_images), {"type": "text", "text": sample.query}]
        response = asker.ask(
            [{"role": "user", "content": content}],
            query=sample.query,
            long_parts=(shown.long_part(0, 0, asker.sees_images),),
            max_tokens=sample.max_tokens,
            stop=sample.stop,
        )
        full_view = "text" if image is None else "image"
        return asker.output(
            response.content, trajectory=({"full_view": full_view, "image_text_from": made_of},)
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """1 where the normal form of the extracted answer is the gold answer.

        Without a judge, responses that no official rule reads are read by their last line; `extraction` names
        the way, and `extracted` is 0 where nothing was found.
        """
        problem = Problem.of(sample.details)
        ask = (lambda prompt: judge.ask(prompt, max_tokens=256)) if judge is not None else None
        extraction = extract(output.answer, problem, ask)
        prediction = normalised(extraction.text, problem)
        is_correct = prediction is not None and prediction == str(sample.gold).strip()
        return Score(
            values={self.metric: float(is_correct), "extracted": float(bool(extraction.text))},
            details={"extraction": extraction.method, "answer": extraction.text, "prediction": prediction},
        )

    def figure(self, records: Sequence[Record]) -> Result:
        """Accuracy over all problems; `parts` are those of each skill, and the share with an answer found."""
        parts: dict[str, list[float]] = {}
        for record in records:
            for skill in filter(None, record.groups.get("skills", "").split(BETWEEN_SKILLS)):
                parts.setdefault(f"skill: {skill}", []).append(self.value(record))
            found = record.score.values["extracted"] if record.score is not None else 0.0
            parts.setdefault("answer extracted", []).append(found)
        means = {name: sum(parts[name]) / len(parts[name]) for name in sorted(parts)}
        return Result(super().figure(records).value, means)

    def _image(self, sample: Sample) -> bytes | None:
        if self._images is None:
            raise ConfigurationError(
                f"suite={self.name}: images are read by the suite that loaded the samples"
            )
        return self._images.read(sample.id, str(sample.details["image"]))

    def _sample(self, row: Row, release: Release) -> Sample:
        pid = row.text("pid")
        question_type = _one_of(QUESTION_TYPES, row, "question_type")
        answer_type = _one_of(ANSWER_TYPES, row, "answer_type")
        choices = [str(choice) for choice in row.get("choices") or ()]
        gold = str(row.get("answer") or "").strip()
        if not gold:
            raise row.error("has no answer (those of the split `test` are not public)")
        if question_type == "multi_choice" and gold not in choices:
            raise row.error(f"has answer={gold!r}, which is none of its choices")
        precision = _precision(row, gold, answer_type)
        query = str(row.get("query") or "") or query_of(
            row.text("question"),
            question_type=question_type,
            answer_type=answer_type,
            choices=choices,
            unit=row.get("unit"),
            precision=precision,
        )
        released = image_text(pid, release)
        image = str(row.get("image") or f"images/{pid}.jpg")
        shown = released.text or f"[image {image}]"
        metadata = row.get("metadata") or {}
        groups = {"question_type": question_type, "answer_type": answer_type}
        groups |= {name: str(metadata[name]) for name in GROUPS if metadata.get(name)}
        groups["skills"] = BETWEEN_SKILLS.join(sorted(map(str, metadata.get("skills") or ())))
        return Sample(
            suite=self.name,
            id=pid,
            messages=parse_messages(
                [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": shown}, {"type": "text", "text": query}],
                    }
                ]
            ),
            query=query,
            long_parts=(LongPart(0, 0),),
            gold=gold,
            max_tokens=self.max_tokens,
            groups=groups,
            details={
                "query": query,
                "question_type": question_type,
                "answer_type": answer_type,
                "choices": choices,
                "precision": precision,
                "image": image,
                "image_text": released.text,
                "image_text_from": released.made_of,
            },
        )


def _one_of(known: tuple[str, ...], row: Row, name: str) -> str:
    value = row.text(name)
    if value not in known:
        raise row.error(f"has {name}={value!r}, which is none of {', '.join(known)}")
    return value


def _precision(row: Row, gold: str, answer_type: str) -> int | None:
    """The decimal places of a float, those of the gold answer where the release names none; None for none."""
    if answer_type != "float":
        return None
    stated = row.get("precision")
    return int(stated) if stated is not None else len(gold.partition(".")[2]) or None
