"""Every family that is read and written, by its name there."""

from glassformer.checkpoints.families.albert import FAMILY_ALBERT
from glassformer.checkpoints.families.bert import FAMILY_BERT
from glassformer.checkpoints.families.distilbert import FAMILY_DISTILBERT
from glassformer.checkpoints.families.family import ModelFamily
from glassformer.checkpoints.families.gpt2 import FAMILY_GPT2, FAMILY_MINGPT
from glassformer.checkpoints.families.llama import FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2
from glassformer.checkpoints.families.marian import FAMILY_BART, FAMILY_MARIAN
from glassformer.checkpoints.families.roberta import FAMILY_FAIRSEQ, FAMILY_ROBERTA
from glassformer.checkpoints.families.t5 import FAMILY_T5

_ALL: tuple[ModelFamily, ...] = (
    FAMILY_GPT2,
    FAMILY_LLAMA,
    FAMILY_MISTRAL,
    FAMILY_QWEN2,
    FAMILY_BERT,
    FAMILY_DISTILBERT,
    FAMILY_ROBERTA,
    FAMILY_ALBERT,
    FAMILY_T5,
    FAMILY_MARIAN,
    FAMILY_BART,
    FAMILY_MINGPT,
    FAMILY_FAIRSEQ,
)
KNOWN_FAMILIES: dict[str, ModelFamily] = {family.model_type: family for family in _ALL}
READ_ONLY = (FAMILY_MINGPT, FAMILY_FAIRSEQ)  # no class of transformers opens these
