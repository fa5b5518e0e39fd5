// Steps of models that everybody knows.
#pragma once

#include "step_builder.h"

#include <cstdint>
#include <vector>

namespace lockstep::test {

struct GptSizes {
  std::int64_t batch = 8;
  std::int64_t length = 128;
  std::int64_t width = 256;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t vocabulary = 1024;
};
plan::Graph gpt_step(const GptSizes& sizes);
/// Its blocks alone, from vectors to vectors.
plan::Graph block_step(const GptSizes& sizes);

/// Convolutions, each with a pool behind it, and then linear layers of these widths.
plan::Graph vgg_step(std::int64_t batch, std::int64_t picture, const std::vector<std::int64_t>& channels,
                     const std::vector<std::int64_t>& widths);

/// Linear layers, with a relu behind each but the last: widths[0] inputs.
plan::Graph mlp_step(std::int64_t batch, const std::vector<std::int64_t>& widths);

}  // namespace lockstep::test
