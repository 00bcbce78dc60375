"""Answers in many scripts: each metric sees them, as the tokenizers of sacrebleu and by hand."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.passage_matching import answer_hit
from ragbench.score.text.base import UnseenText
from ragbench.score.text.rouge import TYPES
from ragbench.score.text.squad import squad_tokens
from ragbench.text.languages import is_latin, split_unspaced, unicode_words
from tests.lazy import Lazy
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import texts

rouge_scorer = Lazy("rouge_score.rouge_scorer")

# script -> an answer, the gold answer in it, and one that is not there
ANSWERS = {
    "zh": ("答案是北京。", "北京", "上海"),
    "ja": ("首都は東京です。", "東京", "大阪"),
    "th": ("เมืองหลวงคือกรุงเทพ", "กรุงเทพ", "เชียงใหม่"),
    "lo": ("ນະຄອນຫຼວງແມ່ນວຽງຈັນ", "ວຽງຈັນ", "ປາກເຊ"),
    "km": ("រាជធានីគឺភ្នំពេញ។", "ភ្នំពេញ", "សៀមរាប"),
    "my": ("မြို့တော်မှာနေပြည်တော်", "နေပြည်တော်", "ရန်ကုန်"),
    "ko": ("수도는 서울 입니다.", "서울", "부산"),
    "hi": ("राजधानी नई दिल्ली है।", "नई दिल्ली", "मुंबई"),
    "ar": ("العاصمة هي القاهرة.", "القاهرة", "بغداد"),
    "he": ("הבירה היא ירושלים.", "ירושלים", "חיפה"),
    "ru": ("Столица — Москва.", "москва", "Казань"),
    "el": ("Πρωτεύουσα η ΑΘΉΝΑ.", "αθήνα", "Πάτρα"),
    "de": ("Die Hauptstadt heißt Köln.", "KÖLN", "Bonn"),
    "vi": ("Thủ đô là Hà Nội.", "hà nội", "Huế"),
    "mixed": ("iPhone15的价格是¥5999", "的价格", "华为"),
    "emoji": ("the answer is 👍🏽", "👍🏽", "👎"),
}
each_script = pytest.mark.parametrize(
    ("answer", "gold", "other"), ANSWERS.values(), ids=ANSWERS.keys()
)


@each_script
def test_an_answer_is_found_in_every_script(answer, gold, other):
    assert rb.contains(answer, [gold]) == 1.0
    assert rb.contains(answer, [other]) == 0.0
    assert answer_hit(RetrievedPassages([["x", answer]], [[gold]]), k=2) == [1.0]
    assert answer_hit(RetrievedPassages([["x", answer]], [[other]]), k=2) == [0.0]
    assert 0 < rb.token_f1(answer, [gold]) < 1


@each_script
def test_equal_answers_score_1_in_every_script(answer, gold, other):
    for text in (answer, gold, other, unicodedata.normalize("NFD", answer)):
        assert rb.exact_match(text, answer if text not in (gold, other) else text) == 1.0
        assert rb.token_f1(text, text) == rb.rouge(text, text, ["rouge1"])["rouge1"].fmeasure == 1.0
        assert rb.rouge(text, text, ["rougeL"])["rougeL"].fmeasure == 1.0
    assert rb.exact_match(answer, other) == 0.0


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        pytest.param("北京市", "北京", 0.8, id="2 of 3, 2 of 2"),
        pytest.param("Köln am Rhein", "Koeln am Rhein", 2 / 3, id="two of three words"),
        pytest.param("дом и сад", "дом", 0.5, id="1 of 3, 1 of 1"),
        pytest.param("서울은", "서울", 0.0, id="Hangul has words: the particle is in them"),
    ],
)
def test_token_f1_hand_worked(prediction, reference, expected):
    assert rb.token_f1(prediction, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("Ｔｏｋｙｏ　１９６４", "Tokyo 1964"),
        ("「東京、大阪」", "東京 大阪"),
        ("ﾄﾞｲﾂ", "ドイツ"),
        ("Paris，France", "Paris, France"),
        ("STRASSE", "Straße"),
        ("ΟΔΟΣ", "οδος"),
        ("\u0130stanbul", "istanbul"),
        ("می\u200cخواهم", "میخواهم"),
        ("ســلام", "سلام"),
        ("co\u00adoperate", "cooperate"),
        ("\ufb01nal", "final"),
        ("❤\ufe0f", "❤"),
        ("בית־ספר", "ביתספר"),
        ("दिल्ली।मुंबई", "दिल्ली मुंबई"),
    ],
)
def test_forms_of_one_text_are_equal(prediction, reference):
    assert rb.exact_match(prediction, reference) == rb.exact_match(reference, prediction) == 1.0


@pytest.mark.parametrize(
    ("one", "other"), [("10²", "102"), ("½", "12"), ("H₂O", "H2O"), ("a", "b")]
)
def test_what_means_something_else_stays_different(one, other):
    assert rb.exact_match(f"x{one}", f"x{other}") == 0.0


@pytest.mark.parametrize(
    ("articles", "prediction", "reference"),
    [
        ("de", "Der Rhein", "Rhein"),
        ("es", "las Canarias", "Canarias"),
        ("nl", "Het IJ", "ij"),
        ("pt", "o Tejo", "Tejo"),
    ],
)
def test_articles_of_a_language(articles, prediction, reference):
    assert rb.exact_match(prediction, reference) == 0.0
    assert rb.exact_match(prediction, reference, articles=articles) == 1.0
    assert rb.exact_match("vitamin A", "vitamin", articles="none") == 0.0
    assert rb.contains("The answer is A.", "A", articles="none") == 1.0


words = st.lists(
    st.sampled_from(["北京", "大阪", "กิน", "ok", "Москва", "नई", "서울", "15"]), min_size=1
)


@given(words, words, words)
def test_what_stands_between_two_texts_is_contained(prefix, middle, after):
    whole = " ".join([*prefix, *middle, *after])
    assert rb.contains(whole, " ".join(middle)) == 1.0
    assert rb.rouge(whole, " ".join(middle), ["rouge1"], tokenize="unicode")["rouge1"].recall == 1.0


@given(texts)
def test_a_text_with_letters_equals_itself(text):
    assert rb.exact_match(text, text) == float(bool(text.strip()))
    if re.search(r"[^\W_]", text):
        assert rb.rouge(text, text, ["rouge1"])["rouge1"].fmeasure == 1.0


@given(st.text(st.sampled_from("北京大阪 abc 12东"), max_size=20))
def test_tokens_of_chinese_are_those_of_sacrebleu(text):
    theirs = BLEU(tokenize="zh").tokenizer(text).split()
    assert unicode_words(text) == theirs


@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_words_of_ascii_texts_are_those_of_rouge_score(text):
    from rouge_score.tokenize import tokenize

    assert unicode_words(text) == tokenize(text, None)


@given(st.text("กขคงจิีุู่้๊็ເມືອງ東京か\u3099", max_size=20))
def test_characters_are_grapheme_clusters(text):
    import regex

    text = re.sub(r"^\W+|[ຳำ]", "", text)
    clusters = [cluster for cluster in regex.findall(r"\X", text) if not cluster[0].isspace()]
    assert split_unspaced(text) == clusters


@given(texts, texts, st.sampled_from(["unicode", "char", "zh", "intl", "none", "13a"]))
def test_rouge_of_any_tokens_is_that_of_rouge_score(prediction, reference, name):
    class Tokens:
        def tokenize(self, text):
            split = BLEU(tokenize=name).tokenizer if name != "unicode" else None
            return split(text.lower().rstrip()).split() if split else unicode_words(text)

    theirs = rouge_scorer.RougeScorer(TYPES, tokenizer=Tokens()).score(reference, prediction)
    ours = rb.rouge(prediction, reference, TYPES, tokenize=name)
    assert ours.to_dict() == {name: score._asdict() for name, score in theirs.items()}


def test_only_words_of_a_to_z_have_stems():
    score = rb.rouge("коты running", "кот runs", ["rouge1"], stemmer=True, tokenize="unicode")
    assert score["rouge1"].fmeasure == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Fluß α ist größer", True),
        ("使用 pip install 命令", False),
        ("3.14 👍", True),
        ("В NASA", True),
        ("Это NASA и ESA, Москва", False),
    ],
)
def test_the_letters_of_most_words_decide(text, expected):
    assert is_latin(text) is expected


def test_the_reference_decides_and_both_texts_are_split_alike():
    # by rouge-score: caf noir; by all letters: café noir
    assert rb.rouge("café noir", "caf noir", ["rouge1"])["rouge1"].fmeasure == 1.0
    score = rb.rouge("кафе café", "кафе и café и", ["rouge1"])["rouge1"]
    assert (score.precision, score.recall) == (1.0, 0.5)


def test_no_zero_is_silent(assert_message):
    with pytest.warns(UnseenText, match="rouge: 2 of 2 texts") as caught:
        score = rb.rouge("東京", "東京", ["rouge1"], tokenize="rouge")
    assert_message(caught[0].message)
    assert score["rouge1"].fmeasure == 0.0
    with pytest.warns(UnseenText, match="no letter a-z"):
        result = rb.evaluate_texts(["東京"], ["東京"], ["rouge1(tokenize=rouge)"])
    assert_message(result.notes[0])
    assert rb.evaluate_texts(["東京"], ["東京"], ["rouge1", "contains"]).notes == ()


@pytest.mark.parametrize("name", ["contains", "token_f1", "exact_match", "rouge1"])
def test_the_tokenizer_is_an_option_and_in_the_signature(name, assert_message):
    (column,) = score_texts(["서울은"], ["서울"], [f"{name}(tokenize=char)"])
    expected = {"contains": 1.0, "exact_match": 0.0}.get(name, pytest.approx(0.8))
    assert column.values.tolist() == [expected]
    assert "|tokenize:char|" in str(column.signature)
    with pytest.raises(OptionError) as caught:
        score_texts(["a"], ["a"], [f"{name}(tokenize=chra)"])
    assert_message(caught.value)


def test_none_splits_at_white_space_as_the_script_of_squad():
    assert squad_tokens("token_f1", "none")("北京 大学。") == ("北京", "大学")
    assert rb.contains("答案是北京。", "北京", tokenize="none") == 0.0


def test_answer_hit_takes_a_tokenizer():
    passages = {"q": ["서울은 수도이다"]}
    retrieved = RetrievedPassages(list(passages.values()), [["서울"]])
    assert answer_hit(retrieved, k=1) == [0.0]
    assert answer_hit(retrieved, k=1, tokenize="char") == [1.0]


def test_the_values_of_the_page_are_computed(repository):
    page = (repository / "docs" / "languages.md").read_text(encoding="utf-8")
    table = page.partition("| score | prediction | reference | value |\n")[2].splitlines()[1:]
    for line in table:
        name, prediction, reference, value = (cell.strip() for cell in line.strip("|").split("|"))
        (column,) = score_texts([prediction], [reference], [name.strip("`")])
        assert column.values[0] == pytest.approx(float(value), abs=5e-4), line
    assert len(table) == 15
