// How the next token of a text is chosen from a language model's logits.
#pragma once

#include <lockstep/base/config.h>

#include <cstdint>
#include <span>

namespace lockstep::train {

struct Sampling {
  double temperature = 0;      ///< by which logits are divided; 0: always the most probable token
  std::int64_t top_k = 0;      ///< so many of the most probable tokens can come; 0: all
  double top_p = 1;            ///< of these, the fewest that together are so probable
  std::int64_t text_seed = 0;  ///< of the draws
};
void describe(ConfigFields& fields, Sampling& sampling);

/// Error(config) where nothing is drawn, and another key says how.
void check(const Sampling& sampling);

/// The token for a number drawn uniformly from [0, 1). Probabilities are softmax(logits / temperature), those of the
/// top_k largest, and of these the largest until they reach top_p, as in Hugging Face's transformers. Of equal ones the
/// first counts as the larger.
std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, double drawn);

}  // namespace lockstep::train
