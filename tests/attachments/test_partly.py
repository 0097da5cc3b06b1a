"""A broken part of a file costs itself and is marked; what readers cannot see is not shown to models."""

from __future__ import annotations

import io
import zipfile

import openpyxl
import openpyxl.chart
import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from asymspec_agents.attachments import Attachments
from tests.attachments.files import docx, file_part, paragraph, pdf, saved, shown, slides, xlsx


def changed(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """The archive with a member's bytes replaced; all of the member where `old` is empty."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(buffer, "w") as made:
        assert name in given.namelist()
        for member in given.namelist():
            read = given.read(member)
            if member == name:
                assert old in read
                read = read.replace(old, new) if old else new
            made.writestr(member, read)
    return buffer.getvalue()


def _chart_deck() -> bytes:
    deck = pptx.Presentation()
    for title in ("One", "Two"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
        data = CategoryChartData()
        data.categories = ["tea", "milk"]
        data.add_series("2026", (4.5, 1_234_567))
        slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, data)
    return saved(deck)


def _chart_name(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as given:
        return next(name for name in given.namelist() if "/charts/chart" in name and name.endswith(".xml"))


def test_a_chart_of_any_type_is_a_table(attachments: Attachments) -> None:
    deck = _chart_deck()
    name = _chart_name(deck)
    odd = changed(deck, name, b"c:barChart", b"c:surface3DChart")
    for data in (deck, odd):
        text = shown(attachments, file_part(data))
        assert text.count("[chart]\n| | tea | milk |\n| 2026 | 4.5 | 1234567 |") == 2
        assert "could not be read" not in text


def test_a_broken_shape_costs_itself(attachments: Attachments) -> None:
    deck = slides("Tea", "Milk")
    broken = changed(deck, "ppt/slides/slide1.xml", b"<a:tbl>", b"<a:tbx>")
    broken = changed(broken, "ppt/slides/slide1.xml", b"</a:tbl>", b"</a:tbx>")
    text = shown(attachments, file_part(broken))
    assert "## Slide 1: Tea\n[a shape could not be read]\nNotes: say Tea" in text
    assert "## Slide 2: Milk\n| left | right |" in text
    assert ", 1 of its parts could not be read; " in text.partition("\n")[0]


def test_a_broken_part_of_a_word_file_costs_itself(attachments: Attachments) -> None:
    body = docx(paragraph("Tea costs 4"), **{"word/numbering.xml": "<broken", "word/styles.xml": "<w:a"})
    text = shown(attachments, file_part(body))
    assert "Tea costs 4" in text
    assert "[the part word/numbering.xml could not be read]" in text
    assert "2 of its parts could not be read" in text
    cut = docx(paragraph("Tea costs 4") + paragraph("Milk costs 2"))
    cut = changed(cut, "word/document.xml", b"Milk costs 2</w:t></w:r></w:p></w:body></w:document>", b"Milk")
    text = shown(attachments, file_part(cut))
    assert "Tea costs 4" in text
    assert "[the rest of the body could not be read]" in text


def test_a_chart_in_a_word_file_is_a_table(attachments: Attachments) -> None:
    deck = _chart_deck()
    with zipfile.ZipFile(io.BytesIO(deck)) as given:
        chart = given.read(_chart_name(deck))
    text = shown(attachments, file_part(docx(paragraph("x"), **{"word/charts/chart1.xml": chart})))
    assert text.endswith("[chart]\n| | tea | milk |\n| 2026 | 4.5 | 1234567 |")


def test_a_broken_sheet_costs_itself(attachments: Attachments) -> None:
    book = openpyxl.load_workbook(io.BytesIO(xlsx([["tea", 4], ["milk", 2]])))
    book.create_sheet("Second").append(["sugar", 7])
    chart = openpyxl.chart.BarChart()
    chart.title = "Prices"
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=2, min_row=1, max_row=2))
    book.active.add_chart(chart, "D1")
    data = saved(book)
    assert "sugar\t7\n\n[chart: Prices]" in shown(attachments, file_part(data))
    cut = changed(data, "xl/worksheets/sheet1.xml", b"</row><row", b"</row><<row")
    text = shown(attachments, file_part(cut))
    assert "tea\t4\n[the rest of this sheet could not be read]" in text
    assert "sugar\t7" in text
    styles = changed(data, "xl/styles.xml", b"", b"<broken")
    text = shown(attachments, file_part(styles))
    assert "tea\t4\nmilk\t2" in text
    assert "dates are shown as numbers" in text


def test_a_broken_page_costs_itself(attachments: Attachments) -> None:
    data = pdf(["one", "two", "three"])
    broken = data.replace(b"/Type /Page ", b"/Type /Nope ", 2).replace(b"/Type /Nope ", b"/Type /Page ", 1)
    text = shown(attachments, file_part(broken))
    assert "[page 1]\none\n[page 2]\n[this page could not be read]" in text
    assert "[page 3]\nthree" in text


HIDDEN = [
    "<p style='display:none'>obey</p>",
    "<p style='color:red; DISPLAY : none !important'>obey</p>",
    "<p hidden>obey</p>",
    "<div style='visibility:hidden'><p>obey</p></div>",
    "<span style='font-size:0px'>obey</span>",
    "<span style='opacity:0'>obey</span>",
    "<style>.a, #b { display: none }</style><p class=a>obey</p>",
    "<style>@media print { p { display: none } } #b{display:none}</style><p id=b>obey</p>",
    "<template>obey</template>",
    "<input type=hidden value=obey>",
    "<!-- obey -->",
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_a_page_hides_is_not_shown(attachments: Attachments, hidden: str) -> None:
    page = f"<html><body><p>Tea costs 4.</p>{hidden}<p style='opacity:0.5'>Milk costs 2.</p></body></html>"
    text = shown(attachments, file_part(page.encode()))
    assert "obey" not in text
    assert "Tea costs 4." in text
    assert "Milk costs 2." in text
    is_element = not hidden.startswith(("<template", "<input", "<!--"))
    assert ("[1 hidden element left out]" in text) is is_element


def test_a_form_is_shown_with_its_values(attachments: Attachments) -> None:
    page = (
        "<html><form><label>Name<input value=Ann></label><label for=c>Town</label>"
        "<input id=c placeholder=Oslo>"
        "<input type=checkbox checked><label>paid</label><input type=radio><label>due</label>"
        "<select><option>tea</option><option selected>milk</option></select>"
        "<textarea>No sugar</textarea><button>Send</button><input type=password value=secret></form></html>"
    )
    text = shown(attachments, file_part(page.encode())).partition("\n")[2]
    assert " ".join(text.split()) == (
        "Name[Ann] Town [Oslo] [x] paid [ ] due [ ] tea [x] milk [No sugar] Send"
    )
