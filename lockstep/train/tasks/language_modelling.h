// The task of language models: the next token of each token.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/task.h>
#include <lockstep/train/tasks/sampling.h>

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::train {

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
