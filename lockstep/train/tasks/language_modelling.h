// The task of language models: the next token of each token; and the choice of a text's next token from the logits.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::train {

struct Sampling {
  double temperature = 0;      ///< divides the logits; 0: always the most probable token
  std::int64_t top_k = 0;      ///< the number of most probable tokens to choose from; 0: all
  double top_p = 1;            ///< of these, the smallest set with at least this total probability
  std::int64_t text_seed = 0;  ///< of the draws
};
void describe(ConfigFields& fields, Sampling& sampling);

/// Error(config) if nothing is drawn at random, but another key configures the draws.
void check(const Sampling& sampling);

/// The token for a number drawn uniformly from [0, 1). Probabilities are softmax(logits / temperature), those of the
/// top_k largest, and of these the largest until they reach top_p, as in Hugging Face's transformers. Of equal ones the
/// first counts as the larger.
std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, double drawn);

struct LanguageOptions {
  std::string prompt = "\n";       ///< the sample's beginning; not empty
  std::int64_t sample_bytes = 64;  ///< new tokens of the sample; 0: none
  Sampling sampling;
};
void describe(ConfigFields& fields, LanguageOptions& options);

/// For the fields of samples/text.h and the model gpt. Loss: mean cross entropy per token, where there is `counted` of
/// those tokens only. Metrics: `perplexity`, exp(loss), and `accuracy`, the share of tokens with the largest logit.
/// After an evaluation it shows the model's continuation of `prompt`, where a token is a byte. Predicts `text`, the
/// continuation of each sample, and `tokens`, int64 [N, sample_bytes], the tokens of that text. Draws depend only on
/// the seed, the text and its number.
std::shared_ptr<Task> make_language_modelling(const LanguageOptions& options);

}  // namespace lockstep::train
