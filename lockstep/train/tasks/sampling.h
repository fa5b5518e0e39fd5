// The choice of a text's next token from a language model's logits.
#pragma once

#include <lockstep/base/config.h>

#include <cstdint>
#include <span>

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

}  // namespace lockstep::train
