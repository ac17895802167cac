"""RoBERTa with relative key-query positions (Shaw et al. 2018; Huang et al. 2020, method 4), as in the paper.

`transformers` offered this attention as position_embedding_type="relative_key_query" and dropped it in version 5. This
module implements the attention only; layers, masked-language-model head, saving and loading are the library's.
Importing it registers the model with the library's Auto classes, so everything that loads models by folder loads it.

    score(i, j) = (q_i·k_j + q_i·d_(j-i) + k_j·d_(j-i)) / √(width of a head)

with one learned vector d per distance. Distances beyond the maximum are clamped to it.
"""

from __future__ import annotations

from typing import Any

from banyan.support.needs import needs

with needs("The RoBERTa baseline", "baselines"):
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, RobertaConfig, RobertaForMaskedLM
    from transformers.modeling_outputs import BaseModelOutput
    from transformers.models.roberta.modeling_roberta import RobertaEncoder, RobertaLMHead, RobertaPreTrainedModel


class RelativeRobertaConfig(RobertaConfig):
    """max_position_embeddings is one more than the maximum distance."""

    model_type = "banyan-roberta"


def by_distance(scores: Tensor) -> Tensor:
    """Turn scores by distance [..., n, 2n - 1], column c for distance c - (n - 1), into scores by position [..., n, n].

    Row i of the result starts one column further left in the input than row i - 1. Reshaping the flat array to rows
    that are one column narrower therefore lines them up.
    """
    n = scores.shape[-2]
    return scores.flatten(-2)[..., n - 1 : n - 1 + n * (2 * n - 2)].unflatten(-1, (n, -1))[..., :n] if n > 1 else scores


class RelativeAttention(nn.Module):
    """Replaces RobertaSelfAttention; the weights have the same names."""

    def __init__(self, config: RelativeRobertaConfig) -> None:
        super().__init__()
        self.heads, self.longest = config.num_attention_heads, config.max_position_embeddings - 1
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))
        self.distance_embedding = nn.Embedding(2 * self.longest + 1, config.hidden_size // self.heads)
        self.dropout = config.attention_probs_dropout_prob

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Any:
        """attention_mask: [sentences, 1, 1, tokens], True for keys to attend to."""
        q, k, v = (
            layer(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        bias = self.of_distances(q, k) * q.shape[-1] ** -0.5
        if attention_mask is not None:  # a finite value, so that a fully masked row does not become NaN
            bias = bias.masked_fill(~attention_mask, torch.finfo(bias.dtype).min)
        dropout = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
        return mixed.transpose(1, 2).flatten(-2), None

    def of_distances(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i·d + k_j·d for all i and j, where d is the vector of the distance j - i."""
        n = q.shape[-2]
        distances = torch.arange(1 - n, n, device=q.device).clamp(-self.longest, self.longest)
        d = self.distance_embedding(distances + self.longest).to(q.dtype)
        return by_distance(q @ d.T) + by_distance(k @ d.flip(0).T).mT


class WordsOnly(nn.Module):
    """Replaces RobertaEmbeddings: no positions, which the attention has, and no token types."""

    def __init__(self, config: RelativeRobertaConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **_: Any) -> Tensor:
        rows = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(self.LayerNorm(rows))


class RelativeRobertaModel(RobertaPreTrainedModel):
    config_class = RelativeRobertaConfig

    def __init__(self, config: RelativeRobertaConfig) -> None:
        super().__init__(config)
        self.embeddings = WordsOnly(config)
        self.encoder = RobertaEncoder(config)
        layers: Any = self.encoder.layer
        for layer in layers:
            layer.attention.self = RelativeAttention(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: Any) -> None:
        self.embeddings.word_embeddings = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        """attention_mask: [sentences, tokens], 0 for padding."""
        hidden = self.embeddings(input_ids, inputs_embeds)
        seen = None if attention_mask is None else attention_mask[:, None, None, :].bool()
        for layer in self.encoder.layer:
            hidden = layer(hidden, seen)
        return BaseModelOutput(last_hidden_state=hidden)


class RelativeRobertaForMaskedLM(RobertaForMaskedLM):
    config_class = RelativeRobertaConfig

    def __init__(self, config: RelativeRobertaConfig) -> None:
        RobertaPreTrainedModel.__init__(self, config)  # RobertaForMaskedLM's would build the parts replaced here
        self.roberta: Any = RelativeRobertaModel(config)
        self.lm_head = RobertaLMHead(config)
        self.post_init()


AutoConfig.register(RelativeRobertaConfig.model_type, RelativeRobertaConfig, exist_ok=True)
AutoModel.register(RelativeRobertaConfig, RelativeRobertaModel, exist_ok=True)
AutoModelForMaskedLM.register(RelativeRobertaConfig, RelativeRobertaForMaskedLM, exist_ok=True)
