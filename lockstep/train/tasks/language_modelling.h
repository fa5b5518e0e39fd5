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
/// those tokens only. Metrics: `perplexity`, exp(loss), and `accuracy`, the share of tokens that the largest logit
/// names. After an evaluation it shows what the model makes of `prompt`, a token being a byte. Predicts `text`, what
/// the model adds to each sample in the same way, and `tokens`, int64 [N, sample_bytes], of which it is made. Draws
/// depend on the seed, the text and its number, and on nothing else.
std::shared_ptr<Task> make_language_modelling(const LanguageOptions& options);

}  // namespace lockstep::train
