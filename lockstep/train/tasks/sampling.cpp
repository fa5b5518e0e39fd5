// Draws of the next token: temperature, then the most likely ones by number (top_k) or by sum (top_p).
#include <lockstep/train/tasks/sampling.h>

#include <lockstep/base/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace lockstep::train {

void describe(ConfigFields& fields, Sampling& sampling) {
  fields.field("temperature", sampling.temperature, between(0, 1000),
               "of texts that the model writes: logits are divided by it before a token is drawn; 0: always the most "
               "probable token");
  fields.field("top_k", sampling.top_k, at_least(0), "with a temperature: only so many most probable tokens; 0: all");
  fields.field("top_p", sampling.top_p, {.low = 0, .high = 1, .low_excluded = true},
               "with a temperature: of these only the fewest that together have this probability");
  fields.field("text_seed", sampling.text_seed, at_least(0),
               "with a temperature: the same texts again; another number gives others");
}

void check(const Sampling& sampling) {
  if (sampling.temperature > 0) return;
  const auto refuse = [](const char* key, auto value) {
    fail(ErrorKind::config, key,
         "is {}, and sets how tokens are drawn; without task.temperature the most probable one is taken: give a "
         "temperature above 0, such as 0.8, or remove this key",
         value);
  };
  if (sampling.top_k > 0) refuse("task.top_k", sampling.top_k);
  if (sampling.top_p < 1) refuse("task.top_p", sampling.top_p);
  if (sampling.text_seed != 0) refuse("task.text_seed", sampling.text_seed);
}

std::int64_t choose_token(std::span<const float> logits, const Sampling& sampling, double drawn) {
  if (sampling.temperature == 0) return std::ranges::max_element(logits) - logits.begin();
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater(),
                           [&](std::int64_t token) { return logits[static_cast<std::size_t>(token)]; });
  if (sampling.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(sampling.top_k)));
  std::vector<double> shares;
  const double largest = logits[static_cast<std::size_t>(tokens.front())];
  for (const auto token : tokens) {
    shares.push_back(std::exp((logits[static_cast<std::size_t>(token)] - largest) / sampling.temperature));
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double kept = 0;
  std::size_t count = 0;
  while (count < shares.size() && (count == 0 || kept < sampling.top_p * all)) kept += shares[count++];
  double place = drawn * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (place < shares[i]) return tokens[i];
    place -= shares[i];
  }
  return tokens[count - 1];
}

}  // namespace lockstep::train
