"""Source shows the body of what the query names before anything else, in any language."""

# ruff: noqa: E501 (lines as programs and people write them)
from __future__ import annotations

import ast
import re
import string
import sys

import pytest

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.named_source import defined_spans
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
QUERIES = [
    "What does compute_tax_total return?",
    "Explain computeTaxTotal()",
    "why is `computeTaxTotal` wrong",
]

# One of many definitions, and the one that is asked about.
LANGUAGES = {
    "python": (
        "def f{0}(a, b):\n    '''Doc {0}.'''\n    x = a + b\n    for i in range(10):\n        x += i\n    return x\n\n",
        "def compute_tax_total(order):\n    '''Adds VAT.'''\n    return order.net * 1.19 + 4711\n\n",
    ),
    "python methods": (
        "class C{0}:\n    def m(self, a, b):\n        x = a + b\n        for i in range(10):\n            x += i\n"
        "        return x\n\n",
        "class Tax:\n    def other(self):\n        pass\n        return 1\n\n    @property\n    def compute_tax_total(self):\n"
        "        net = self.net\n        return net * 1.19 + 4711\n\n",
    ),
    "javascript": (
        "export function f{0}(a, b) {{\n  let x = a + b;\n  for (let i = 0; i < 10; i++) {{\n    x += i;\n  }}\n"
        "  return x;\n}}\n\n",
        "export const computeTaxTotal = (order) => {\n  const net = order.net;\n  return net * 1.19 + 4711;\n};\n\n",
    ),
    "typescript methods": (
        "class C{0} {{\n  m(a: number): number {{\n    let x = a;\n    x += 1;\n    return x;\n  }}\n}}\n\n",
        "class Tax {\n  private async computeTaxTotal(order: Order): Promise<number> {\n    const net = order.net;\n"
        "    return net * 1.19 + 4711;\n  }\n}\n\n",
    ),
    "go": (
        "func F{0}(a int, b int) int {{\n\tx := a + b\n\tfor i := 0; i < 10; i++ {{\n\t\tx += i\n\t}}\n\treturn x\n}}\n\n",
        "func (o *Order) computeTaxTotal() float64 {\n\tnet := o.Net\n\treturn net*1.19 + 4711\n}\n\n",
    ),
    "rust": (
        "pub fn f{0}(a: i32, b: i32) -> i32 {{\n    let mut x = a + b;\n    for i in 0..10 {{\n        x += i;\n    }}\n"
        "    x\n}}\n\n",
        "pub fn compute_tax_total(o: &Order) -> f64 {\n    let net = o.net;\n    net * 1.19 + 4711.0\n}\n\n",
    ),
    "c": (
        "static int f{0}(int a, int b)\n{{\n    int x = a + b;\n    for (int i = 0; i < 10; i++)\n        x += i;\n"
        "    return x;\n}}\n\n",
        "double compute_tax_total(const order *o)\n{\n    double net = o->net;\n    return net * 1.19 + 4711;\n}\n\n",
    ),
    "c++": (
        "int C::f{0}(int a, int b) const {{\n    int x = a + b;\n    x += a;\n    x += b;\n    return x;\n}}\n\n",
        "double Tax::computeTaxTotal(const Order& o) const {\n    double net = o.net;\n    return net * 1.19 + 4711;\n}\n\n",
    ),
    "java": (
        "    public int f{0}(int a, int b) {{\n        int x = a + b;\n        x += a;\n        x += b;\n        return x;\n"
        "    }}\n\n",
        "    @Override\n    public double computeTaxTotal(Order o) {\n        double net = o.net;\n        return net * 1.19 + 4711;\n"
        "    }\n\n",
    ),
    "ruby": (
        "def f{0}(a, b)\n  x = a + b\n  10.times do |i|\n    x += i\n  end\n  x\nend\n\n",
        "def compute_tax_total(order)\n  net = order.net\n  net * 1.19 + 4711\nend\n\n",
    ),
    "sql": (
        "CREATE TABLE t{0} (\n  id INT PRIMARY KEY,\n  name TEXT NOT NULL,\n  v{0} INT\n);\n\n",
        "CREATE OR REPLACE FUNCTION compute_tax_total(net NUMERIC) RETURNS NUMERIC AS $$\n  SELECT net * 1.19 + 4711;\n"
        "$$ LANGUAGE sql;\n\n",
    ),
    "elixir": (
        "  def f{0}(a, b) do\n    x = a + b\n    Enum.reduce(0..9, x, &+/2)\n  end\n\n",
        "  def compute_tax_total(order) do\n    net = order.net\n    net * 1.19 + 4711\n  end\n\n",
    ),
    "terraform": (
        'resource "aws_x" "r{0}" {{\n  name = "n{0}"\n  size = {0}\n  tags = {{\n    a = "b"\n  }}\n}}\n\n',
        'resource "aws_x" "compute_tax_total" {\n  name = "x"\n  size = 4711\n}\n\n',
    ),
    "bash": (
        "f{0}() {{\n  local x=$1\n  for i in 1 2 3; do\n    x=$((x+i))\n  done\n  echo $x\n}}\n\n",
        "compute_tax_total() {\n  local net=$1\n  echo $(( net * 119 / 100 + 4711 ))\n}\n\n",
    ),
    "haskell": (
        "f{0} :: Int -> Int -> Int\nf{0} a b = foldr (+) (a + b) [0..9]\n\n",
        "computeTaxTotal :: Order -> Double\ncomputeTaxTotal o = net o * 1.19 + 4711\n\n",
    ),
    "yaml": (
        "svc{0}:\n  image: img{0}\n  ports:\n    - {0}\n  env:\n    A: b\n\n",
        "compute_tax_total:\n  rate: 1.19\n  add: 4711\n\n",
    ),
}


def source(language: str, num: int) -> str:
    unit, asked = LANGUAGES[language]
    return "".join([*map(unit.format, range(num // 2)), asked, *map(unit.format, range(num // 2, num))])


@pytest.mark.parametrize("num", [40, 300])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_body_asked_about_is_shown_with_the_nearest_signatures(language: str, num: int) -> None:
    text = source(language, num)
    target = int(COUNTER.count(text) * 0.3)
    for query in QUERIES if num == 40 else QUERIES[:1]:
        made = AutoCompressor().compress(text, query=query, target_tokens=target, counter=COUNTER)
        assert made.kind == made.compressor == "code"
        assert "4711" in made.text, query
        assert COUNTER.count(made.text) <= target
        near = LANGUAGES[language][0].format(num // 2).split("\n")[0].rstrip(" {")
        assert near in made.text
    if language.startswith("python"):
        ast.parse(made.text)


def test_a_plain_word_names_a_definition_only_where_no_other_name_does() -> None:
    text = source("python", 100).replace("def f70(", "def order(")
    target = COUNTER.count(text) // 4
    asked = "What does compute_tax_total do with an order?"
    made = AutoCompressor().compress(text, query=asked, target_tokens=target, counter=COUNTER)
    assert "4711" in made.text
    plain = AutoCompressor().compress(
        text, query="how does order work", target_tokens=target, counter=COUNTER
    )
    assert "def order(a, b):\n    '''Doc 70.'''\n    x = a + b\n    for i" in plain.text


def test_of_a_long_function_the_beginning_is_shown_and_stays_python() -> None:
    long = "def compute_tax_total(order):\n" + "".join(f"    step_{i} = order + {i}\n" for i in range(2000))
    text = source("python", 60) + long.replace("tax_total", "vat") + "    return 1\n"
    made = AutoCompressor().compress(
        text, query="What does compute_vat do?", target_tokens=600, counter=COUNTER
    )
    assert "def compute_vat(order):\n    step_0 = order + 0\n    step_1 = order + 1\n" in made.text
    assert COUNTER.count(made.text) <= 600
    ast.parse(made.text)


def test_a_name_is_found_in_whatever_letters_count_as_its_own() -> None:
    letters = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    for letter in string.ascii_lowercase:
        for spelled_so in re.findall(letter, letters, re.IGNORECASE):
            text = f"def q{spelled_so}q_name(x):\n    return x\n"
            assert defined_spans(text, f"`q{letter}q_name()`") == [(0, len(text))], repr(spelled_so)
